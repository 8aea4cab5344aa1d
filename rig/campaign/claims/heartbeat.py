# SPDX-License-Identifier: GPL-3.0-or-later
"""Renew the heartbeat of a campaign's executor while that is alive; end it once it is taken over.

It is a separate process, as the executor is ansible-playbook, which waits for its hosts: it watches
the executor by a descriptor, and neither a signal to the executor's group nor the end of the worker
that started it reaches it. It renews nothing while the executor is stopped (SIGSTOP), or the
machine suspended: by the time these go on, another process may have the campaign.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from joulerig.rig.campaign import events
from joulerig.rig.campaign.journal import Journal, TakenOverError
from joulerig.rig.common import process
from joulerig.rig.common.claim import BEAT_SECONDS
from joulerig.rig.common.errors import UserError

LOOK_SECONDS = 2.0  # a suspended machine's next beat is due at once, by a clock that went on


def clock() -> float:
    """Return seconds since the boot; those in which the machine was suspended count."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def start(folder: Path, executor: str) -> subprocess.Popen[bytes]:
    """Start the process that keeps the heartbeat of `executor` (`process.identity`)."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder), executor],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def keep(
    folder: Path,
    executor: str,
    *,
    every: float = BEAT_SECONDS,
    look: float = LOOK_SECONDS,
    clock: Callable[[], float] = clock,
) -> None:
    """Renew the heartbeat of a process of this machine until it ends, which is noted then."""
    pid = process.pid_here(executor)
    if pid is None:
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        descriptor = -1
    if descriptor >= 0 and process.is_alive(executor):
        due = clock() + every
        while not process.has_ended(descriptor, look):
            if clock() < due:
                continue
            due = clock() + every
            try:
                _at_journal(folder, executor, _renew)
            except TakenOverError as error:
                end_taken_over(descriptor, str(error))
                return
    _at_journal(folder, executor, Journal.has_ended)


def end_taken_over(descriptor: int, why: str) -> None:
    """Kill an executor, by its descriptor: it may do nothing more, not even at its end."""
    events.write(events.FAILED, message=why)
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def _renew(journal: Journal, executor: str) -> None:
    """Renew the heartbeat. Raises TakenOverError."""
    journal.raise_if_taken_over()
    if not process.is_stopped(process.pid_here(executor) or 0):
        journal.beat(executor)


def _at_journal(folder: Path, executor: str, do: Callable[[Journal, str], object]) -> None:
    """Do something with the journal, if it can be used now. Raises TakenOverError."""
    with (
        contextlib.suppress(UserError, sqlite3.Error),
        contextlib.closing(Journal(folder, executor)) as journal,
    ):
        do(journal, executor)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
