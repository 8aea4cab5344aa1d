# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's clock: one page by which all programs of a virtual lab have the same time.

Lab time passes `slowness` times slower than the machine's own, its CLOCK_MONOTONIC ("wall"), and
goes on without a step when that changes. Programs in C are given the page by a library that is
preloaded (virtuallab/clock, where its layout is described). A physical lab has no page, and the
machine's own clocks.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = "JOULERIG_LAB_CLOCK"
MAGIC = 0x316B636F6C43524A
HEAD = struct.Struct("=QQq")  # magic, lines, CLOCK_REALTIME minus CLOCK_MONOTONIC of the lab
LINE = struct.Struct("=qqd")  # wall, lab, slowness
LINES_OFFSET = 8
BYTES = HEAD.size + 2 * LINE.size
# A line begins so long after it is written, and is written with so much of that left, for the case
# that its writer is held up.
AHEAD_NS = 100_000_000
LEFT_NS = 80_000_000
LEAST, MOST = 1.0, 1000.0


@dataclass(frozen=True)
class Line:
    """Lab time from `wall_ns` on: `lab_ns` then, and `slowness` seconds of the wall a second."""

    wall_ns: int
    lab_ns: int
    slowness: float

    def lab_at(self, wall_ns: int) -> int:
        """Return the lab's time (ns) at a time of the wall."""
        return self.lab_ns + math.floor((wall_ns - self.wall_ns) / self.slowness)


class LabClock:
    """A page of a lab's clock. One process at a time may `set_slowness`."""

    def __init__(self, path: Path, *, write: bool = False, wall: Callable[[], int] = time.monotonic_ns):
        self.path, self._wall = path, wall
        file = os.open(path, os.O_RDWR if write else os.O_RDONLY)
        try:
            access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
            self._page = mmap.mmap(file, BYTES, access=access)
        finally:
            os.close(file)
        self._real_ns: int
        magic, _, self._real_ns = HEAD.unpack_from(self._page)
        # One store of eight bytes: struct clears the bytes before it packs, which a reader can see.
        self._count = memoryview(self._page)[LINES_OFFSET : LINES_OFFSET + 8].cast("Q")
        if magic != MAGIC:
            raise ValueError(f"{path}: no page of a lab's clock")

    @classmethod
    def create(cls, path: Path) -> LabClock:
        """Make the page of a lab whose clock is, from now on, the machine's."""
        wall_ns, real_ns = time.monotonic_ns(), time.time_ns()
        line = LINE.pack(wall_ns, wall_ns, 1.0)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_bytes(HEAD.pack(MAGIC, 1, real_ns - wall_ns) + line + line)
        fresh.replace(path)
        return cls(path, write=True)

    def close(self) -> None:
        self._count.release()
        self._page.close()

    def _read(self) -> tuple[Line, Line, int]:
        """Return the newest line, the one before it, and the wall's time, as of one moment."""
        while True:
            count = self._count[0]
            newest, before = (
                Line(*LINE.unpack_from(self._page, HEAD.size + LINE.size * (number & 1)))
                for number in (count - 1, count)
            )
            wall_ns = self._wall()
            if count == self._count[0]:
                return newest, before if count > 1 else newest, wall_ns

    def monotonic_ns(self) -> int:
        """Return the lab's CLOCK_MONOTONIC, ns."""
        newest, before, wall_ns = self._read()
        if wall_ns >= newest.wall_ns:
            return newest.lab_at(wall_ns)
        return min(before.lab_at(wall_ns), newest.lab_ns)

    def real_ns(self) -> int:
        """Return the lab's CLOCK_REALTIME, ns since 1970 UTC."""
        return self.real_at(self.monotonic_ns())

    def real_at(self, monotonic_ns: int) -> int:
        """Return the lab's CLOCK_REALTIME at a time of its CLOCK_MONOTONIC, both ns."""
        return monotonic_ns + self._real_ns

    @property
    def slowness(self) -> float:
        """Seconds of the wall that a second of the lab lasts, by the newest line."""
        return self._read()[0].slowness

    def set_slowness(self, slowness: float) -> Line:
        """Change it from a tenth of a second from now on; return the line that begins then.

        Raises ValueError where it is not a number from `LEAST` to `MOST`.
        """
        if not LEAST <= slowness <= MOST:
            raise ValueError(f"slowness: {slowness!r}; allowed: {LEAST:g} to {MOST:g}")
        newest, *_ = self._read()
        while self._wall() <= newest.wall_ns:  # a reader may still need the one before
            time.sleep(AHEAD_NS / 1e9 / 10)
        if slowness == newest.slowness:
            return newest
        count = self._count[0]
        place = HEAD.size + LINE.size * (count & 1)
        while True:
            begins_ns = self._wall() + AHEAD_NS
            line = Line(begins_ns, newest.lab_at(begins_ns), float(slowness))
            LINE.pack_into(self._page, place, line.wall_ns, line.lab_ns, line.slowness)
            if begins_ns - self._wall() > LEFT_NS:
                self._count[0] = count + 1
                return line
