# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a drive that encrypts is locked: by the kernel's Opal status, TCG Opal, ATA security."""

from __future__ import annotations

import fcntl
import struct

from ansible.module_utils.joulerig.drives.commands import ata, nvme

IOC_OPAL_GET_STATUS = 0x800870EC  # <linux/sed-opal.h>, since Linux 6.1
OPAL_LOCKED = 1 << 3  # of its flags


def is_locked(descriptor: int, name: str) -> bool:
    """Return whether a drive is locked; `name`: the kernel's, by which its kind is known.

    False, too, where neither the drive nor the kernel gives an answer.
    """
    for ask in (_opal_says_so, nvme.is_locked if name.startswith("nvme") else ata.is_locked):
        try:
            if ask(descriptor):
                return True
        except (OSError, struct.error, IndexError):
            continue
    return False


def _opal_says_so(descriptor: int) -> bool:
    status = bytearray(8)
    fcntl.ioctl(descriptor, IOC_OPAL_GET_STATUS, status)
    return bool(int.from_bytes(status[:4], "little") & OPAL_LOCKED)
