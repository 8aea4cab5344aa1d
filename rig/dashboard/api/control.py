# SPDX-License-Identifier: GPL-3.0-or-later
"""The one request that changes something: pause, resume, stop a campaign, or retry a run of it.

It is served only where a token is configured, to those who have it. What it does is what `rig
pause`, `rig stop`, `rig retry` and `rig run --resume` do, by the same code.
"""

from __future__ import annotations

import hashlib
import hmac
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal

from joulerig.rig.campaign import control
from joulerig.rig.campaign.control import detached
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.bounded import CampaignId, RunId, one_line
from joulerig.rig.common.errors import Strict, UserError

PATH = "/api/control"
LONGEST_BODY = 4096
BY = "the dashboard"
RESUMED = "is resumed"


class Asked(Strict):
    """The body of the request."""

    campaign: CampaignId
    action: Literal["pause", "resume", "stop", "retry"]
    run: RunId | None = None


class Token:
    """The token that a request must have; what is given is compared in constant time."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    def admits(self, authorization: str) -> bool:
        """Return whether a header `Authorization` has it."""
        scheme, _, given = authorization.partition(" ")
        return hmac.compare_digest(_digest(given.strip()), self._digest) and scheme.lower() == "bearer"


def _digest(token: str) -> bytes:
    # So that neither the length nor characters beyond ASCII matter.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class Control:
    """Does what is asked.

    `var`: the rig's state, which says what may be resumed; None: nothing. `environment`: the
    rig's, for campaigns that it resumes.
    """

    def __init__(self, results: Path, var: Path | None, environment: Mapping[str, str]) -> None:
        self._results, self._var, self._environment = results, var, environment
        self._resuming: dict[str, subprocess.Popen[bytes]] = {}

    def do(self, asked: Asked) -> str:
        """Return what there is to say of it. Raises UserError, in one line."""
        if (asked.run is None) == (asked.action == "retry"):
            needs = (
                "missing; allowed: the id or the number of a run" if asked.run is None else "only with retry"
            )
            raise UserError(f"run: {needs}")
        with closing(Journal(self._results / asked.campaign)) as journal:
            if asked.action == "pause":
                return control.pause(journal, BY)
            if asked.action == "stop":
                return control.stop(journal, BY)
            if asked.action == "retry":
                assert asked.run is not None
                (run,) = control.retry(journal, runs=[asked.run], by=BY)
                return f"{run} is planned again; resume the campaign to execute it"
            return self._resume(journal)

    def _resume(self, journal: Journal) -> str:
        """Take back a pause, or execute the campaign again where no process does."""
        if journal.executor is not None:
            return control.go_on(journal, BY)
        if self._var is None:
            raise UserError("state_dir: is not configured; allowed: the rig's folder of state")
        name = journal.folder.name
        if (process := self._resuming.get(name)) is not None and process.poll() is None:
            raise UserError(f"{name}: is being resumed already")
        words = detached.command(journal, self._var)
        journal.note_asked("resume", BY)
        self._resuming[name] = detached.start(words, self._log(self._var), self._environment)
        return RESUMED

    def resuming(self, campaign: str) -> dict[str, str] | None:
        """Return how far the last resumption from here is; None where there was none.

        `state`: `started`, `ended` or `failed`, with the reason in `why`.
        """
        process = self._resuming.get(campaign)
        if process is None:
            return None
        code = process.poll()
        if code is None:
            return {"state": "started", "why": ""}
        return {"state": "failed", "why": self._last_words()} if code else {"state": "ended", "why": ""}

    def _last_words(self) -> str:
        assert self._var is not None
        try:
            lines = self._log(self._var).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return one_line(lines[-1]) if lines else "no output"

    @staticmethod
    def _log(var: Path) -> Path:
        return var / "log" / "resumed.log"
