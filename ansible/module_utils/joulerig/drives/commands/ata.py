# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands to an ATA disk, through the kernel's translation of SCSI.

Sources: ATA8-ACS, "IDENTIFY DEVICE", "SET FEATURES" and "IDLE"; SCSI/ATA Translation, "ATA
PASS-THROUGH (16)".
"""

from __future__ import annotations

import fcntl
import struct

from ansible.module_utils.joulerig.drives.commands import scsi

HDIO_GET_IDENTITY = 0x030D  # <linux/hdreg.h>
IDENTITY_BYTES = 512
PASS_THROUGH, PIO_IN, NO_DATA = 0x85, 4 << 1, 3 << 1
READS_BLOCKS = 0x0E  # data come from the disk, in blocks, as many as the count says
IDENTIFY, SET_FEATURES, IDLE = 0xEC, 0xEF, 0xE3
SLOW_MS = 30_000  # a disk that stands still spins up first


def kept_identity(descriptor: int) -> bytes:
    """Return what an ATA disk said of itself when the kernel last asked it. Raises OSError."""
    page = bytearray(IDENTITY_BYTES)
    fcntl.ioctl(descriptor, HDIO_GET_IDENTITY, page)
    return bytes(page)


def identity(descriptor: int) -> bytes:
    """Return what an ATA disk says of itself now. Raises OSError where it gives no answer."""
    return _pass(descriptor, IDENTIFY, PIO_IN, READS_BLOCKS, 0, 1, IDENTITY_BYTES)


def order(descriptor: int, command: int, feature: int = 0, count: int = 0) -> None:
    """Send a command without data. Raises OSError where the disk refuses it."""
    _pass(descriptor, command, NO_DATA, 0, feature, count, 0)


def _pass(
    descriptor: int, command: int, protocol: int, flags: int, feature: int, count: int, size: int
) -> bytes:
    sent = struct.pack(
        ">BBBBBBB6xBBB",
        PASS_THROUGH, protocol, flags, 0, feature, 0, count, 0, command, 0,
    )  # fmt: skip
    answer, status, _ = scsi.send(descriptor, sent, size, SLOW_MS)
    if status:
        raise OSError(f"ATA command {command:#04x}: refused (SCSI status {status:#x})")
    return answer
