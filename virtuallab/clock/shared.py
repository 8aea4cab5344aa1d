# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of this checkout's virtual lab: where it is, who has it, and how the lab's time went.

Twins, power taps, QEMU and powerd are given one page (virtuallab/clock/page.py), which is made when
none of them runs and kept until all have ended. Under KVM there is none: a guest's processors would
go on at the machine's pace.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from joulerig.rig.common import paths, supervisor
from joulerig.virtuallab.clock.page import ENVIRONMENT, LabClock

LIBRARY = "lab_clock.so"
USERS = ("host-", "tap-", "twin-", "powerd")  # what the names of programs that have the page begin with


def page() -> Path:
    """Return where the page is: a boot of the machine, whose clock it is of, has its own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return paths.run() / f"clock-{boot}"


@contextmanager
def _opened() -> Iterator[LabClock | None]:
    """Give the page, to read; None where there is none."""
    if not _has_page():
        yield None
        return
    clock = LabClock(page())
    try:
        yield clock
    finally:
        clock.close()


def _has_page() -> bool:
    return paths.has_state() and page().exists()


def prepare() -> None:
    """Make the page, unless a program has it. Lab time then goes on as the machine's does."""
    states = supervisor.states()
    in_use = any(name.startswith(USERS) and state in supervisor.ALIVE for name, state in states.items())
    if not (in_use and page().exists()):
        LabClock.create(page()).close()
        note(now_ns(), 1.0)


def remove() -> None:
    """Remove the page: what is started from now on has the machine's clock."""
    page().unlink(missing_ok=True)


def environment() -> dict[str, str]:
    """Return the variables by which a program has the lab's clock; none where there is no page."""
    if not _has_page():
        return {}
    return {"LD_PRELOAD": str(paths.program(LIBRARY)), ENVIRONMENT: str(page())}


def now_ns() -> int:
    """Return the lab's time, ns since 1970 UTC; without a page the machine's."""
    with _opened() as clock:
        return clock.real_ns() if clock else time.time_ns()


def slowness() -> float:
    """Return how long (s) a second of the lab lasts now."""
    with _opened() as clock:
        return clock.slowness if clock else 1.0


def history() -> Path:
    """Return the file that has a line for each change: lab time (ns since 1970 UTC), slowness."""
    return paths.var() / "lab" / "clock.txt"


def note(real_ns: int, slowness: float) -> None:
    """Write down from when on (ns since 1970 UTC, of the lab) the lab goes how slowly."""
    history().parent.mkdir(parents=True, exist_ok=True)
    with history().open("a") as file:
        file.write(f"{real_ns} {slowness:g}\n")


def mean_slowness(intervals: Iterable[tuple[int, int]]) -> list[float | None]:
    """Return how long (s) a second of the lab lasted, on average, in each interval of it (ns).

    None where that is not known: nothing was written down as early as that.
    """
    try:
        lines = [line.split() for line in history().read_text().splitlines()]
    except FileNotFoundError:
        lines = []
    changes = [(int(at), float(slowness)) for at, slowness in (line for line in lines if len(line) == 2)]
    return [_mean(changes, *interval) for interval in intervals]


def _mean(changes: Sequence[tuple[int, float]], start_ns: int, end_ns: int) -> float | None:
    if not changes or start_ns < changes[0][0] or end_ns <= start_ns:
        return None
    wall = 0.0
    for (begin, slowness), (end, _) in pairwise([*changes, (max(end_ns, changes[-1][0]), 1.0)]):
        wall += slowness * max(0, min(end, end_ns) - max(begin, start_ns))
    return wall / (end_ns - start_ns)
