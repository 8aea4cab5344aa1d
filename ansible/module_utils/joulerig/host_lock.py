# SPDX-License-Identifier: GPL-3.0-or-later
"""One module call at a time that changes a test host's drives, or one a lane of a campaign.

A campaign may have drives of a host loaded side by side: each drive is a lane. The calls of its
lanes share the host's lock, which keeps everything else out, and each has its lane's own lock. A
call that is to be alone has the whole of the host's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

from ansible.module_utils.joulerig import paths, quiet
from ansible.module_utils.joulerig.tools import Busy

LOOK_SECONDS = 0.2


class Lane(NamedTuple):
    """A drive whose calls may run alongside those of other lanes of `campaign`, unless `alone`."""

    campaign: str
    drive: str
    alone: bool = False


def lane_of(parameters: Mapping[str, Any]) -> Lane | None:
    """Return the lane of a call by its parameters; None where it has the host to itself."""
    campaign = parameters.get("lanes_of", "")
    return Lane(campaign, parameters["drive"], parameters["alone"]) if campaign else None


class HostLock:
    """The right to change drives of this host, of one of them for a lane.

    A run whose controller went away is waited for, not overrun. Background units that the campaign
    keeps quiet stay so while the lock is held, and for a while after. Raises Busy.
    """

    def __init__(
        self, patience_seconds: float = 0.0, path: str | None = None, lane: Lane | None = None
    ) -> None:
        self._patience_seconds, self._path = patience_seconds, path or paths.RUN_LOCK
        self._lane = lane

    def __enter__(self) -> HostLock:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        end = time.monotonic() + self._patience_seconds
        with contextlib.ExitStack() as taken:
            if self._lane:  # first: an earlier call of this drive may be in progress still
                own = taken.enter_context(open(_of_lane(self._path, self._lane.drive), "a"))
                _wait(lambda: _lock(own, fcntl.LOCK_EX), end)
            file = taken.enter_context(open(self._path, "a+"))
            _wait(lambda: self._take(file), end)
            quiet.hold()
            self._taken = taken.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            quiet.put_off()
        finally:
            self._taken.close()

    def _take(self, file: TextIO) -> bool:
        if self._lane is None or self._lane.alone:
            return _lock(file, fcntl.LOCK_EX)
        # Whose lanes share the lock is written by a call that has the whole of it: what is read by
        # one that shares it stays so.
        if _lock(file, fcntl.LOCK_EX):
            file.truncate(0)
            file.write(self._lane.campaign)
            file.flush()
        if _lock(file, fcntl.LOCK_SH):
            file.seek(0)
            if file.read() == self._lane.campaign:
                return True
            fcntl.flock(file, fcntl.LOCK_UN)
        return False


@contextlib.contextmanager
def lane_kept_free(drive: str) -> Iterator[bool]:
    """Keep calls of a lane from beginning while the body is executed; false: one is in progress."""
    with open(_of_lane(paths.RUN_LOCK, drive), "a") as file:
        yield _lock(file, fcntl.LOCK_EX)


def _of_lane(path: str, drive: str) -> str:
    return f"{path}.{drive}"


def _wait(take: Callable[[], bool], end: float) -> None:
    while not take():
        if time.monotonic() >= end:
            raise Busy("another run is in progress on this host")
        time.sleep(LOOK_SECONDS)


def _lock(file: TextIO, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
