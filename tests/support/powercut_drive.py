# SPDX-License-Identifier: GPL-3.0-or-later
"""A small model of a drive with a volatile cache, which knows what it lost, to check the checker.

Data are in cells of one sector; each cell keeps the list of everything acknowledged since its
stable content. Nothing here is the checker's code, nor the twin's.
"""

from __future__ import annotations

import random

from joulerig.analysis.powercut.survey import SECTOR_BYTES, ZERO, Surveyed
from tests.support.powercut_story import Story

SECTORS = 48
KINDS = ("honest", "plp", "lying")


class ModelDrive:
    """A drive under a random load that loses part of its cache or, lying, more than that."""

    def __init__(self, seed: int, kind: str) -> None:
        self.kind = kind
        self.random = random.Random(seed)
        self.story = Story()
        self.stable: dict[int, int] = {}  # sector -> sequence number
        self.volatile: list[tuple[int, list[int]]] = []  # (sequence number, its sectors), oldest first
        self.owed: dict[int, int] = {}  # sector -> newest promised sequence number
        self.newest: dict[int, int] = {}  # sector -> newest acknowledged one
        self.lost_promises: set[int] = set()

    def run(self) -> Surveyed:
        """The load, the cut, and what is there after it."""
        for _ in range(self.random.randint(5, 60)):
            self._step()
        in_flight = self._plan("write") if self.random.random() < 0.5 else None
        self._cut(in_flight)
        cells = [ZERO] * SECTORS
        for sector, sequence in self.stable.items():
            cells[sector] = self.story.sector(sequence, sector)
        return Surveyed(SECTORS * SECTOR_BYTES, "", cells)

    def _plan(self, kind: str) -> tuple[int, list[int]]:
        sectors = self.random.randint(1, 6)
        first = self.random.randrange(SECTORS - sectors)
        return self.story.issue(kind, "", first, sectors), list(range(first, first + sectors))

    def _step(self) -> None:
        choice = self.random.random()
        if choice < 0.2:
            flush = self.story.issue("flush")
            if self.kind != "lying":
                self._settle(self.volatile)
                self.volatile = []
            self.owed |= self.newest
            self.story.acknowledge(flush)
            return
        durable = choice < 0.3
        sequence, sectors = self._plan("durable-write" if durable else "write")
        self.volatile.append((sequence, sectors))
        if durable:
            # Only its own data are promised, but a drive is free to have older ones on the media
            # before.
            self.owed |= dict.fromkeys(sectors, sequence)
            if self.kind != "lying":
                self._settle(self.volatile)
                self.volatile = []
        self.newest |= dict.fromkeys(sectors, sequence)
        self.story.acknowledge(sequence)

    def _settle(self, writes: list[tuple[int, list[int]]]) -> None:
        for sequence, sectors in writes:
            self.stable |= dict.fromkeys(sectors, sequence)

    def _cut(self, in_flight: tuple[int, list[int]] | None) -> None:
        if self.kind == "plp":
            self._settle(self.volatile)
        else:
            mode = self.random.choice(["none", "all", "random", "torn"])
            for sequence, sectors in self.volatile:
                survives = {
                    "none": sectors,
                    "all": [],
                    "random": sectors if self.random.random() < 0.5 else [],
                    "torn": [s for s in sectors if self.random.random() < 0.5],
                }[mode]
                self._settle([(sequence, survives)])
        if in_flight:
            sequence, sectors = in_flight
            self._settle([(sequence, [s for s in sectors if self.random.random() < 0.5])])
        for sector, sequence in self.owed.items():
            if self.stable.get(sector, 0) < sequence:
                self.lost_promises.add(sequence)
