# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting with one deadline instead of scattered sleeps, and for what."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ACCEPTS_CONNECTIONS = 0x10000


def until(what: Callable[[], T], seconds: float, interval: float = 0.1) -> T:
    """Call `what` until its result is neither None nor False, or `seconds` are over; return it."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if (answer is not None and answer is not False) or time.monotonic() >= end:
            return answer
        time.sleep(interval)


def listens(path: Path) -> bool:
    """Return whether a process listens on the unix socket `path`.

    That the socket exists is not enough: it does from bind() on, while connections are refused
    until listen(). The kernel's table (proc(5), /proc/net/unix) shows the state without connecting,
    which a server would count as a client.
    """
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _number, _references, _protocol, flags, _kind, _state, _inode, *name = line.split(None, 7)
        if name == [str(path)] and int(flags, 16) & ACCEPTS_CONNECTIONS:
            return True  # the connections that it has accepted bear its name too
    return False
