# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign on a lab that is taken up again by command line until it has its plan."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from joulerig.analysis.results.schema import FINISHED, Status
from joulerig.rig.campaign.journal import Journal
from tests.support.lab_driver import Lab
from tests.support.programs import wait_for

AGAIN = 12  # at most so many resumptions once nothing is killed any more


def planned(lab: Lab, beginning: str) -> list[str]:
    """Return the planned campaigns with such a name: a folder is there before its journal."""
    return [path.parent.name for path in lab.results.glob(f"{beginning}*/journal.sqlite")]


class KeptCampaign:
    """A campaign that is started again and again until it has its plan."""

    def __init__(self, lab: Lab, playbook: Path) -> None:
        self._lab, self._playbook = lab, playbook
        self.starts = 0
        self._rig: subprocess.Popen[str] | None = None

    @property
    def id(self) -> str | None:
        """Its id, once there is one."""
        return next(iter(planned(self._lab, f"{self._playbook.stem}-2")), None)

    @property
    def folder(self) -> Path:
        return self._lab.results / str(self.id)

    def keep_going(self) -> None:
        """Start it, or take it up again, where no process executes it."""
        if not self.is_left():
            return
        if self.id:
            self._lab.rig("retry", self.id, "--status", "failed,partial")
        log = self._lab.folder / f"{self._playbook.stem}.{self.starts}.log"
        with log.open("w") as output:
            words = ["--resume", self.id] if self.id else []
            self._rig = self._lab.start_rig("run", str(self._playbook), *words, stdout=output, stderr=output)
        self.starts += 1

    def goes_on(self) -> bool:
        return self._rig is not None and self._rig.poll() is None

    def executed(self) -> bool:
        with self._journal() as journal:
            return journal is not None and journal.executor is not None

    def is_left(self) -> bool:
        """Whether no process of the controller goes on with it."""
        return not (self.goes_on() or self.executed())

    def counts(self) -> Mapping[str, int]:
        with self._journal() as journal:
            return journal.counts() if journal else {}

    def finished(self) -> int:
        return sum(number for status, number in self.counts().items() if status in FINISHED)

    def is_whole(self) -> bool:
        """Whether it is over, each run ok or raced out."""
        return self.is_left() and {Status.OK} <= {*self.counts()} <= {Status.OK, Status.NOT_RUN}

    def complete(self) -> None:
        """Take it up until it is whole. A user's patience ends as well."""
        for _ in range(AGAIN):
            self.keep_going()
            wait_for(self.is_left, 3600, "its end")
            if self.is_whole():
                return
        raise AssertionError(f"{self.id}: {self.counts()}")

    @contextlib.contextmanager
    def _journal(self) -> Iterator[Journal | None]:
        if not self.id:
            yield None
            return
        journal = Journal(self.folder)
        try:
            yield journal
        finally:
            journal.close()
