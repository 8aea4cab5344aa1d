# SPDX-License-Identifier: GPL-3.0-or-later
"""End a campaign at once, and say what was done: the runs on its hosts, and the process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from joulerig.analysis.results.schema import Asked
from joulerig.rig.campaign import hosts
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process
from joulerig.rig.common.claim import Standing
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab

GRACE_SECONDS = 60.0  # for collecting the outcomes of what was ended, and freeing the hosts
END_SECONDS = 10.0
LOOK_SECONDS = 0.2


def end(lab: Lab, journal: Journal, sleep: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """End what executes a campaign, hosts first; yield a line for each thing that was done.

    Raises UserError, at the end, where something goes on.
    """
    go_on = []
    executor = journal.executor
    if executor:
        journal.ask(Asked.STOP)
        yield f"{process.shown(executor)} is asked to end it"
    for host, reply in hosts.stop_calls(lab, journal).items():
        if isinstance(reply, str):
            go_on.append(f"{host} may go on with what it executes: {reply}")
        else:
            ended = ", ".join(reply.stopped)
            yield f"{host}: ended {ended}" if ended else f"{host}: was executing nothing of it"
    if not executor:
        if (claim := journal.claimed).standing == Standing.SILENT:
            yield f"no process was ended: {claim.obstacle(journal.resumption)}"
        else:
            yield f"no process executes it; '{journal.resumption}' goes on with it"
    elif (pid := process.pid_here(executor)) is None:
        yield f"no signal was sent: {process.shown(executor)} can't be seen from here"
    elif _ends(executor, GRACE_SECONDS, sleep):
        yield f"{process.shown(executor)} has ended"
    else:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # one that is stopped takes no other
        if _ends(executor, END_SECONDS, sleep):
            yield f"{process.shown(executor)} got SIGTERM, and has ended; its hosts stay reserved for an hour"
        else:
            go_on.append(f"{process.shown(executor)} got SIGTERM, and goes on; 'kill -KILL {pid}' ends it")
    if go_on:
        raise UserError(f"{journal.folder.name}: {'; '.join(go_on)}")


def _ends(executor: str, seconds: float, sleep: Callable[[float], None]) -> bool:
    """Wait so long for the end of a process; return whether it has ended."""
    for _ in range(int(seconds / LOOK_SECONDS)):
        if not process.is_alive(executor):
            return True
        sleep(LOOK_SECONDS)
    return not process.is_alive(executor)
