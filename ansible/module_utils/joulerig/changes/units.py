# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd's units as they were before a change: enabled, masked, active."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Dict

from ansible.module_utils.joulerig.tools import Failed, run

ACTIVE = ("active", "activating", "reloading")
ENABLED, MASKED = "enabled", "masked"
State = Dict[str, str]


def look(names: Sequence[str]) -> dict[str, State]:
    """Return `file` (enabled, disabled, static, masked, ...; empty: no such unit) and `active`."""
    shown = run(["systemctl", "show", "--property=LoadState,UnitFileState,ActiveState", "--", *names])
    found = [
        dict(line.partition("=")[::2] for line in block.splitlines()) for block in shown.strip().split("\n\n")
    ]
    if len(found) != len(names):
        raise Failed(f"systemctl show: {len(found)} units of {len(names)}")
    return {
        name: {"file": one.get("UnitFileState", ""), "active": one.get("ActiveState", "")}
        for name, one in zip(names, found)
    }


def stop(name: str, before: State) -> str:
    """Stop, disable and unmask a unit as far as it was so; return what was done.

    To be called while the unit's file is there.
    """
    now = look([name])[name]
    done = []
    if now["active"] in ACTIVE and before["active"] not in ACTIVE:
        run(["systemctl", "stop", name])
        done.append("stopped")
    if now["file"] == MASKED != before["file"]:
        run(["systemctl", "unmask", name])
        done.append("unmasked")
        now = look([name])[name]
    if now["file"] == ENABLED != before["file"]:
        run(["systemctl", "disable", name])
        done.append("disabled")
    return f"{' and '.join(done)} {name}" if done else ""


def start(name: str, before: State, *, again: bool) -> str:
    """Enable, mask and start a unit that was so; return what was done.

    `again`: restart one that is active, as its files are others. To be called once they are back.
    """
    now = look([name])[name]
    done = []
    if before["file"] == ENABLED != now["file"]:
        run(["systemctl", "enable", name])
        done.append("enabled")
    if before["file"] == MASKED != now["file"]:
        run(["systemctl", "mask", name])
        done.append("masked")
    if before["active"] in ACTIVE and (again or now["active"] not in ACTIVE):
        run(["systemctl", "restart", name])
        done.append("restarted" if now["active"] in ACTIVE else "started")
    return f"{' and '.join(done)} {name}" if done else ""


def reload() -> None:
    """Have systemd read its units' files again."""
    run(["systemctl", "daemon-reload"])
