# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules that provisioning loads, and unloads where the host had not loaded them."""

from __future__ import annotations

from collections.abc import Sequence

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes.contents import Stays
from ansible.module_utils.joulerig.tools import Failed, run


def look_at_modules(names: Sequence[str]) -> dict[str, dict[str, bool]]:
    """Return whether each module is loaded."""
    loaded = _loaded()
    return {name: {"loaded": _in_kernel(name) in loaded} for name in names}


def unload(name: str, before: dict[str, bool]) -> str:
    """Unload a module that was not loaded before; return what was done.

    Raises Stays where it is in use.
    """
    if before["loaded"] or _in_kernel(name) not in _loaded():
        return ""
    try:
        run(["modprobe", "--remove", name])
    except Failed as error:
        raise Stays(f"kernel module {name}: until the next boot: {error}") from None
    return f"unloaded {name}"


def _in_kernel(name: str) -> str:
    return name.replace("-", "_")


def _loaded() -> set[str]:
    with open(f"{paths.PROC}/modules") as file:
        return {line.split()[0] for line in file if line.strip()}
