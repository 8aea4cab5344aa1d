# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kind of array has a level."""

from __future__ import annotations

import os
from types import ModuleType

from ansible.module_utils.joulerig.arrays import crypt, lvm, md
from ansible.module_utils.joulerig.drives import identity
from ansible.module_utils.joulerig.drives.host import Host


def by_level(level: str) -> ModuleType:
    """Return the module of a level: lvm-..., crypt, or one of md."""
    if level == "crypt":
        return crypt
    return lvm if level.startswith("lvm-") else md


def link(kind: ModuleType, name: str, host: Host) -> None:
    """Have a link to an array under its name, which udev makes for md alone."""
    if kind is md:
        return
    path = identity.array_link(name, host)
    target = f"../{os.path.basename(os.path.realpath(kind.device(name, host)))}"
    if not os.path.islink(path) or os.readlink(path) != target:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        new = f"{path}.new"
        os.symlink(target, new)
        os.replace(new, path)


def unlink(kind: ModuleType, name: str, host: Host) -> None:
    """Take the link of an array away that is no more."""
    path = identity.array_link(name, host)
    if kind is not md and os.path.islink(path):
        os.unlink(path)
