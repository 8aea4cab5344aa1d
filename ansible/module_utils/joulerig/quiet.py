# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep background units (trim, RAID checks, updates) from starting while campaigns use this host.

They are stopped and masked for this boot alone. A process of systemd's (UNIT) undoes that where no
module has taken the host's lock for IDLE_SECONDS: the controller may be gone. The next module that
takes the lock masks them again, also after a boot, until the last campaign ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes import units
from ansible.module_utils.joulerig.changes.brief import alone_with
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.tools import Failed, run

IDLE_SECONDS = 3600
UNIT = "joulerig-quiet.service"
LOCK = "quiet"  # of a call that reads and writes what follows
STATE = "quiet.json"  # of all boots: {"units": [...], "campaigns": [...]}
# `until` is in seconds of uptime: a clock may step. With an argument the script does not wait.
UNDO = r"""#!/bin/sh
cd QUIET || exit 0
if [ $# = 0 ]; then
  exec 9>>LOCK
  while flock 9 && read -r until <until && read -r uptime rest </proc/uptime; do
    left=$((until - ${uptime%.*}))
    [ $left -gt 0 ] || break
    flock --unlock 9
    sleep $left
  done
fi
read -r masked <masked || exit 0
read -r stopped <stopped
systemctl unmask --runtime $masked
test -z "$stopped" || systemctl start --no-block $stopped
rm -f masked stopped complete
"""


def begin(names: Sequence[str], campaign: str) -> bool:
    """Mask those of the units that this host has, for `campaign`; return whether anything changed.

    Raises Failed.
    """
    with alone_with(LOCK):
        state = _read()
        others = [] if _is_over() else state["campaigns"]
        wanted = {
            "units": list(dict.fromkeys([*(state["units"] if others else ()), *names])),
            "campaigns": sorted({*others, campaign}),
        }
        os.makedirs(paths.STATE, mode=0o755, exist_ok=True)
        if wanted != state:
            replace(_state(), json.dumps(wanted).encode(), 0o644)
        os.makedirs(paths.QUIET, mode=0o755, exist_ok=True)
        _put_off()
        return _mask(wanted["units"]) or wanted != state


def hold() -> None:
    """Put the end off, and mask again what is not masked. For the holder of the host's lock."""
    with alone_with(LOCK):
        state = _read()
        if state["campaigns"]:
            os.makedirs(paths.QUIET, mode=0o755, exist_ok=True)
            _put_off()
            if not os.path.exists(_file("complete")):
                _mask(state["units"])


def put_off() -> None:
    """Put the end of the masks off by IDLE_SECONDS, where there are any."""
    with alone_with(LOCK):
        _put_off()


def _put_off() -> None:
    if os.path.isdir(paths.QUIET):
        replace(_file("until"), f"{_uptime() + IDLE_SECONDS}\n".encode(), 0o644)


def end(campaign: str = "") -> bool:
    """Undo the masks where `campaign` is the last one, or all where it is empty.

    Returns whether anything changed. Raises Failed.
    """
    with alone_with(LOCK):
        state = _read()
        left = [one for one in state["campaigns"] if campaign and one != campaign]
        if left:
            replace(_state(), json.dumps({**state, "campaigns": left}).encode(), 0o644)
            return left != state["campaigns"]
        masked = os.path.exists(_file("masked"))
        if masked:
            with contextlib.suppress(Failed):  # it has ended
                run(["systemctl", "stop", UNIT])
            run(["/bin/sh", _file("undo"), "now"])
        shutil.rmtree(paths.QUIET, ignore_errors=True)
        if os.path.exists(_state()):
            os.unlink(_state())
        return masked or bool(state["campaigns"])


def _is_over() -> bool:
    """Whether the masks of this boot were undone by the host alone."""
    return os.path.isdir(paths.QUIET) and not os.path.exists(_file("masked"))


def _mask(names: Sequence[str]) -> bool:
    """Mask and stop units, what undoes it running first; return whether any was not masked yet."""
    ours, stopped = _words("masked"), _words("stopped")
    there = units.look(names) if names else {}
    new = [name for name, one in there.items() if one["file"] and not one["file"].startswith(units.MASKED)]
    if new:
        active = [name for name in new if there[name]["active"] in units.ACTIVE]
        text = UNDO.replace("QUIET", paths.QUIET).replace("LOCK", paths.RUN_LOCK)
        replace(_file("undo"), text.encode(), 0o644)
        if not ours:
            options = [f"--unit={UNIT}", "--collect", "--property=Restart=on-failure"]
            run(["systemd-run", "--quiet", *options, "/bin/sh", _file("undo")])
        _write_words("stopped", [*stopped, *active])
        _write_words("masked", [*ours, *new])
        # Stopped first: a timer that is masked while it is active fails.
        if active:
            run(["systemctl", "stop", *active])
        run(["systemctl", "mask", "--runtime", *new])
    _write_words("complete", [])
    return bool(new)


def _read() -> dict[str, Any]:
    try:
        with open(_state()) as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return {"units": [], "campaigns": []}
    except ValueError as error:
        raise Failed(f"{_state()}: cannot be read: {error}") from None


def _words(name: str) -> list[str]:
    try:
        with open(_file(name)) as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def _write_words(name: str, words: Sequence[str]) -> None:
    text = " ".join(dict.fromkeys(words)) + "\n"
    replace(_file(name), text.encode(), 0o644)


def _uptime() -> int:
    with open(f"{paths.PROC}/uptime") as file:
        return int(float(file.read().split()[0]))


def _state() -> str:
    return os.path.join(paths.STATE, STATE)


def _file(name: str) -> str:
    return os.path.join(paths.QUIET, name)
