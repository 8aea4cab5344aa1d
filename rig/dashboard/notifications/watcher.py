# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at campaigns' journals again and again: what is new there, each thing once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.analysis.results import journal
from joulerig.rig.common import files
from joulerig.rig.common.claim import Claim, Standing
from joulerig.rig.dashboard.notifications import happenings
from joulerig.rig.dashboard.notifications.happenings import Happening
from joulerig.rig.dashboard.supervision import Supervisor

TASK = "notifications"


@dataclass(frozen=True)
class Last:
    """A journal as it was read. `claim`: of the process that has to be alive; None: none has."""

    signature: journal.Signature
    campaign: str
    name: str
    claim: Claim | None


class Watcher:
    """What is new in the journals below a results folder since the last look.

    `kept`: the file that says how far each journal was read, so that a restart repeats nothing and
    leaves nothing out. Journals that are there at the very first look are not news. `clock`: the
    lab's time, ns since 1970 UTC. A journal is opened only where its files have changed.
    """

    def __init__(
        self, results_dir: Path, kept: Path, clock: Callable[[], int], supervisor: Supervisor
    ) -> None:
        self._results, self._kept, self._clock = results_dir, kept, clock
        self._supervisor = supervisor
        self._seen: dict[str, dict[str, Any]] | None = _read(kept)
        self._standing: dict[Path, Last] = {}

    def look(self) -> list[Happening]:
        """Return what is new, by campaign in its order."""
        first = self._seen is None
        seen = self._seen = self._seen or {}
        before = json.dumps(seen)
        found: list[Happening] = []
        for path in sorted(self._results.glob("*/journal.sqlite")):
            try:
                known = seen.setdefault(path.parent.name, {"seq": 0, "abandoned": ""})
                found += self._look_at(path, known)
            except Exception as error:  # of one journal, which hides no other
                self._supervisor.failed(TASK, error, f"{path}:")
        if json.dumps(seen) != before or first:
            try:
                files.replace(self._kept, json.dumps(seen, indent=1))
            except OSError as error:  # what was found is said all the same
                self._supervisor.failed(TASK, error)
        return [] if first else found

    def _look_at(self, path: Path, known: dict[str, Any]) -> Iterator[Happening]:
        signature = journal.signature(path)
        last = self._standing.get(path)
        if last is None or last.signature != signature:
            yield from self._read_journal(path, signature, known)
            last = self._standing.get(path)
        if last is None or last.claim is None or last.claim.executor == known["abandoned"]:
            return
        if last.claim.standing != Standing.EXECUTED:
            known["abandoned"] = last.claim.executor
            yield happenings.abandoned(last.campaign, last.name, last.claim.end, self._clock())

    def _read_journal(
        self, path: Path, signature: journal.Signature, known: dict[str, Any]
    ) -> Iterator[Happening]:
        """Yield what is new in a journal, and keep how it stands."""
        with closing(journal.connect(path)) as opened, journal.snapshot(opened) as database:
            database.row_factory = sqlite3.Row
            columns = "id, name, finished_ns, executor, heartbeat_ns, asked"
            campaign = database.execute(f"SELECT {columns} FROM campaign").fetchone()
            if campaign is None:
                return
            query = "SELECT seq, time_ns, run, event, detail FROM event WHERE seq > ? ORDER BY seq"
            events = database.execute(query, (known["seq"],)).fetchall()
            if events:
                ids = "SELECT id, cell, host FROM run"
                runs = {row["id"]: dict(row) for row in database.execute(ids)}
                known["seq"] = events[-1]["seq"]
                yield from happenings.of_events(
                    campaign["id"],
                    campaign["name"],
                    runs,
                    map(dict, events),
                    lambda error, event: self._supervisor.failed(TASK, error, f"{path}: {event}:"),
                )
            over = campaign["finished_ns"] is not None or campaign["asked"]
            claim = None if over or not campaign["executor"] else Claim.from_row(campaign)
            self._standing[path] = Last(signature, campaign["id"], campaign["name"], claim)


def _read(kept: Path) -> dict[str, dict[str, Any]] | None:
    """Return what was kept; None where nothing was, or it cannot be read."""
    try:
        found = json.loads(kept.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    return {name: one for name, one in found.items() if _is_known(one)}


def _is_known(one: Any) -> bool:
    """Return whether an entry says how far a journal was read."""
    return isinstance(one, dict) and type(one.get("seq")) is int and isinstance(one.get("abandoned"), str)
