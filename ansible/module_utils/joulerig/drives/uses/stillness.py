# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch drives that are claimed: nothing may move on them.

It is the check that needs no list of uses. What reads or writes a drive while this rig has it
claimed is a user, however it came by the drive; only one that does nothing is not seen. Commands to
the drive itself are counted since Linux 6.13. A RAM block device (brd) counts nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from ansible.module_utils.joulerig.drives import blockqueue
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.tools import Failed, Refused

STILL_SECONDS = 1.0
# What reads a drive for a moment, as udev and a poll of its health do, is waited for.
PATIENCE_SECONDS = 3.0
LOOK_SECONDS = 0.05
COUNTS_NOTHING = "ram"
COMMANDS = "iostats_passthrough"  # of a queue


def watch(drives: Sequence[tuple[str, str]], host: Host, meanwhile: Callable[[], None]) -> None:
    """Watch drives, each by what it is called and its kernel name, all at the same time.

    `meanwhile` is called within that second; it must not read the drives. Raises Refused.
    """
    with contextlib.ExitStack() as undo:
        for what, name in drives:
            try:
                blockqueue.count(undo, name, host)
                _count_commands(undo, name, host)
            except (OSError, Failed) as error:
                if not name.startswith(COUNTS_NOTHING):
                    raise Refused(f"{what}: /dev/{name} does not count its I/O: {error}") from None
        begun = time.monotonic()
        end = begun + STILL_SECONDS + PATIENCE_SECONDS
        before = [_moved(name, host) for _, name in drives]
        meanwhile()
        while True:
            now = [_moved(name, host) for _, name in drives]
            moving = [at for at, one in enumerate(now) if one != before[at] or one[1]]
            if not moving and time.monotonic() - begun >= STILL_SECONDS:
                return
            if moving:
                if time.monotonic() >= end:
                    what, name = drives[moving[0]]
                    raise Refused(
                        f"{what}: /dev/{name} is in use: it was read or written while this rig had it"
                        f" claimed, for more than {PATIENCE_SECONDS:g} s"
                    )
                begun, before = time.monotonic(), now
            time.sleep(LOOK_SECONDS)


def _count_commands(undo: contextlib.ExitStack, name: str, host: Host) -> None:
    """Count commands to the drive itself as well, where the kernel can (Linux 6.13)."""
    for one in blockqueue.queues(name, host):
        with contextlib.suppress(OSError, Failed):
            if (before := blockqueue.get(one, COMMANDS, host)) != "1":
                undo.callback(blockqueue.put, one, COMMANDS, before, host)
                blockqueue.put(one, COMMANDS, "1", host)


def _moved(name: str, host: Host) -> tuple[list[str], bool]:
    """Return the counters of a drive and of its paths, and whether it has requests in flight."""
    counters, in_flight = [], False
    for one in dict.fromkeys((name, *blockqueue.queues(name, host))):
        counters += host.require(f"{host.sys}/block/{one}/stat").split()
        in_flight |= any(int(word) for word in host.require(f"{host.sys}/block/{one}/inflight").split())
    return counters, in_flight
