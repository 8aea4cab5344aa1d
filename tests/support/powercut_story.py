# SPDX-License-Identifier: GPL-3.0-or-later
"""Ledgers written as stories, and what is found after their cut, for tests of the checker."""

from __future__ import annotations

from typing import Any

from joulerig.analysis.powercut import survey, witness_log
from joulerig.analysis.powercut.check import CutFindings, check
from joulerig.analysis.powercut.survey import SECTOR_BYTES, Sector, Surveyed
from joulerig.analysis.powercut.witness_log import WitnessLog

GENERATION = 3


class Story:
    """What a writer did, step by step; each step gives its sequence number."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._sequence = 0
        self._places: dict[int, tuple[int, int]] = {}  # first sector and sectors of each write
        self._tell({"event": "begin", "campaign": "00" * 16, "generation": GENERATION})

    def _tell(self, line: dict[str, Any]) -> None:
        now = len(self.lines) + 1
        self.lines.append({"monotonic_ns": now, "realtime_ns": 10**18 + now, **line})

    def issue(self, operation: str, target: str = "", first: int = 0, sectors: int = 0, **more: Any) -> int:
        self._sequence += 1
        self._places[self._sequence] = (first, sectors)
        place = {"offset": first * SECTOR_BYTES, "bytes": sectors * SECTOR_BYTES}
        line = {"event": "issued", "sequence": self._sequence, "operation": operation, "target": target}
        self._tell({**line, **place, **more})
        return self._sequence

    def acknowledge(self, sequence: int) -> int:
        self._tell({"event": "acknowledged", "sequence": sequence})
        return sequence

    def skip(self) -> None:
        """A number is given to an operation of which the log never hears."""
        self._sequence += 1

    def write(self, first: int, sectors: int = 1, target: str = "") -> int:
        return self.acknowledge(self.issue("write", target, first, sectors))

    def durable_write(self, first: int, sectors: int = 1, target: str = "") -> int:
        return self.acknowledge(self.issue("durable-write", target, first, sectors))

    def flush(self, target: str = "") -> int:
        return self.acknowledge(self.issue("flush", target))

    def create(self, target: str) -> int:
        return self.acknowledge(self.issue("create", target))

    def flush_names(self) -> int:
        return self.acknowledge(self.issue("flush-names"))

    def rename(self, version: int) -> int:
        return self.acknowledge(self.issue("rename", "current", version=version, **{"from": "next"}))

    @property
    def log(self) -> WitnessLog:
        return witness_log.log_from_lines(self.lines)

    def sector(self, sequence: int, number: int) -> Sector:
        """What sector `number` holds when it shows the write `sequence`."""
        first, sectors = self._places[sequence]
        return Sector("record", GENERATION, sequence, number - first, sectors)

    def drive(self, sectors: int, **shown: int) -> Surveyed:
        """A drive of zeros but for sectors sN=SEQUENCE."""
        cells = [survey.ZERO] * sectors
        for name, sequence in shown.items():
            number = int(name.removeprefix("s"))
            cells[number] = self.sector(sequence, number)
        return Surveyed(sectors * SECTOR_BYTES, "", cells)

    def findings_after(self, found: Surveyed, before: Surveyed | None = None) -> CutFindings:
        """Findings on a bare drive; before, it was all zeros."""
        return check(self.log, {"": found}, {"": before or self.drive(len(found.sectors))})


def broken(findings: CutFindings) -> list[tuple[str, int]]:
    """(what became of it, sequence number) of each broken promise."""
    return [(violation.what, violation.sequence) for violation in findings.violations]
