# SPDX-License-Identifier: GPL-3.0-or-later
"""DAX: whether a device can do it, and whether a mounted file system does."""

import ctypes
import os
import tempfile

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.tools import Failed, Unable

# include/uapi/linux/stat.h
STATX_ATTR_DAX = 0x00200000
AT_FDCWD = -100


class _Statx(ctypes.Structure):
    """The beginning of struct statx, and room for the rest of it."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("block_size", ctypes.c_uint32),
        ("attributes", ctypes.c_uint64),
        ("rest", ctypes.c_uint8 * 240),
    )


def check_device(definition, name, sys=None):
    """Refuse a file system that asks for DAX on a device that cannot do it."""
    if not definition.get("dax"):
        return
    try:
        with open(f"{sys or paths.SYS}/block/{name}/queue/dax") as file:
            able = file.read().strip() == "1"
    except OSError:
        able = False
    if not able:
        raise Unable(f"{definition['name']}: /dev/{name} cannot do DAX")


def in_effect(folder):
    """Check whether the kernel says that a new file in `folder` is accessed by DAX."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        return bool(_attributes(file.name) & STATX_ATTR_DAX)


def _attributes(path):
    found = _Statx()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statx(AT_FDCWD, os.fsencode(path), 0, 0, ctypes.byref(found)):
        raise Failed(f"statx: {path}: {os.strerror(ctypes.get_errno())}")
    return found.attributes


def verify(definition, folder):
    """Return whether DAX was asked for and is in effect in `folder`: {"asked", "in_effect"}.

    Raises Failed where the file system fell back silently.
    """
    asked, effective = bool(definition.get("dax")), in_effect(folder)
    if asked and not effective:
        raise Failed(
            f"{definition['name']}: mounted, but without DAX: the kernel fell back to the page cache"
        )
    return {"asked": asked, "in_effect": effective}
