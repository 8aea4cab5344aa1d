# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting with one deadline instead of scattered sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(what: Callable[[], T], seconds: float, interval: float = 0.1) -> T:
    """Call `what` until it gives something but None or False, or `seconds` are over. Its last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if (answer is not None and answer is not False) or time.monotonic() >= end:
            return answer
        time.sleep(interval)
