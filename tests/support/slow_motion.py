# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts programs that a test starts on a lab's clock that goes slower than the machine's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from joulerig.virtuallab.clock.page import ENVIRONMENT, LabClock
from joulerig.virtuallab.clock.shared import LIBRARY
from tests.support.programs import built, wait_for


def slow_down(clock: LabClock, slowness: float) -> None:
    """Wait as well until the lab is so slow."""
    line = clock.set_slowness(slowness)
    wait_for(lambda: time.monotonic_ns() > line.wall_ns, 10, "the new line")


@contextmanager
def slow_motion(page: Path, slowness: float) -> Iterator[LabClock]:
    """Have programs that are started meanwhile on a clock that goes so much slower.

    They stay on it afterwards, as slow as it was then. `page`: the file by which they read it.
    """
    clock = LabClock.create(page)
    slow_down(clock, slowness)
    given = {"LD_PRELOAD": built(LIBRARY), ENVIRONMENT: str(page)}
    os.environ.update(given)
    try:
        yield clock
    finally:
        for name in given:
            del os.environ[name]
        clock.close()
