# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in the unit of a detached call: the work, and what is put back where it was killed."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.module_utils.joulerig import host_lock, tools
from ansible.module_utils.joulerig.detached import calls, unit
from ansible.module_utils.joulerig.loads import contained, load
from ansible.module_utils.joulerig.tools import Busy, Failed, Refused

LOCK_SECONDS = 30.0


def perform(module: ModuleType | Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of `execute`, which fills what `empty` gives.

    A signal that ends this process makes a failed result of it, once everything is put back.
    """
    result: dict[str, Any] = module.empty()
    interruptions = load.end_in_good_order()
    try:
        module.execute(parameters, result)
    except KeyboardInterrupt:
        result.update(status=tools.FAILED, reason="interrupted")
    except (Refused, Failed, OSError) as error:
        status, reason = tools.describe(error)
        # Refused means untouched: after the first change a call has failed, whatever stopped it.
        result.update(status=tools.FAILED if result["changed"] else status, reason=reason)
        if isinstance(error, Busy):
            result["cause"] = "busy"
    if interruptions and result["status"] != tools.OK:
        result["cause"] = "interrupted"
    return result


def main(folder: str) -> None:
    """Do what the command line of a call's unit says: `run`, `after` it, or `keep` it."""
    steps: dict[str, Callable[[Path], None]] = {"run": execute, "after": put_back, "keep": supervise}
    steps[sys.argv[1]](Path(folder))


def execute(folder: Path) -> None:
    """Do the work of a call and keep its outcome."""
    state = {**unit.identity(os.getpid()), "keeper": unit.identity(os.getppid())}
    calls.write(folder / calls.STATE, state)
    asked = calls.read(folder / calls.REQUEST)
    assert asked is not None  # it is written before the unit starts
    result = perform(_work(asked), asked["parameters"])
    for number in load.INTERRUPTIONS:
        signal.signal(number, signal.SIG_IGN)
    calls.write(folder / calls.OUTCOME, result)


def put_back(folder: Path) -> None:
    """Put back what a process left that was killed, and keep that as the call's outcome."""
    # In this order: of a call that is removed meanwhile nothing is asked any more.
    ended = calls.read(folder / calls.OUTCOME)
    asked = calls.read(folder / calls.REQUEST)
    if ended is None and asked is not None:
        from ansible.module_utils.joulerig import leftovers  # it loads the lease, as the work does

        lane = host_lock.lane_of(asked["parameters"])
        result = _work(asked).empty()
        result.update(status=tools.FAILED, reason=_why_ended(folder), changed=True)
        try:
            # What others do meanwhile does not matter to it: those of its campaign may go on.
            with host_lock.HostLock(LOCK_SECONDS, lane=lane and lane._replace(alone=False)):
                result["taken_down"] = leftovers.take_down(lane=lane)
        except (Refused, Failed, OSError) as error:  # the next call tries again
            result["reason"] += f"; then: {error}"
        calls.write(folder / calls.OUTCOME, result)
    (folder / calls.CODE).unlink(missing_ok=True)


def supervise(folder: Path) -> None:
    """Do both, the call as a child of this process: where the host has no systemd."""
    command = [*_command(), "run"]
    ended = subprocess.Popen(command, start_new_session=True, preexec_fn=contained.end_with_parent).wait()
    os.environ.setdefault("EXIT_STATUS", signal.Signals(-ended).name[3:] if ended < 0 else str(ended))
    put_back(folder)


def _work(asked: Mapping[str, Any]) -> ModuleType | Any:
    return importlib.import_module(asked["module"]).work()


def _command() -> list[str]:
    """Return the command line of this process, without its last word."""
    words = Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return [os.fsdecode(word) for word in words[:-1]]


def _why_ended(folder: Path) -> str:
    ended = os.environ.get("EXIT_STATUS", "?")
    said = calls.last_words(folder)
    return f"its process ended with {ended}{f': {said}' if said else ''}"
