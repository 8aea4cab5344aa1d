# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands to an ATA disk, through the kernel's translation of SCSI.

Sources: ATA8-ACS, "IDENTIFY DEVICE", "SET FEATURES", "IDLE", "Security feature set";
SCSI/ATA Translation, "ATA PASS-THROUGH (16)".
"""

from __future__ import annotations

import fcntl
import struct

from ansible.module_utils.joulerig.drives.commands import scsi

HDIO_GET_IDENTITY = 0x030D  # <linux/hdreg.h>
IDENTITY_BYTES = 512
PASS_THROUGH, NO_DATA, PIO_IN, PIO_OUT = 0x85, 3 << 1, 4 << 1, 5 << 1
READS_BLOCKS, WRITES_BLOCKS = 0x0E, 0x06  # data in blocks, as many as the count says
IDENTIFY, SET_FEATURES, IDLE = 0xEC, 0xEF, 0xE3
SET_PASSWORD, UNLOCK, ERASE_PREPARE, ERASE_UNIT, DISABLE_PASSWORD = 0xF1, 0xF2, 0xF3, 0xF4, 0xF6
SECTOR_BYTES = 512
CACHE, HAS_CACHE = 82, 1 << 5
SECURITY, LOCKED = 128, 1 << 2
SLOW_MS = 30_000  # a disk that stands still spins up first


def kept_identity(descriptor: int) -> bytes:
    """Return what an ATA disk said of itself when the kernel last asked it. Raises OSError."""
    page = bytearray(IDENTITY_BYTES)
    fcntl.ioctl(descriptor, HDIO_GET_IDENTITY, page)
    return bytes(page)


def serial_and_bytes(page: bytes) -> tuple[str, int]:
    """Read a disk's serial and size from what the kernel has kept of its description.

    Its strings are in reading order there, unlike the disk's.
    """
    words = struct.unpack("<256H", page)
    serial = page[20:40].decode("ascii", "replace").strip("\x00 ")
    (long_count,) = struct.unpack_from("<Q", page, 200)
    (short_count,) = struct.unpack_from("<I", page, 120)
    sectors = long_count if words[83] & 1 << 10 else short_count
    wide = words[106] >> 12 & 0xD == 0x5  # valid (bits 15, 14: 01), and longer than 256 words
    (longer,) = struct.unpack_from("<I", page, 234)
    return serial, sectors * (2 * longer if wide else SECTOR_BYTES)


def has_cache(descriptor: int) -> bool:
    """Return whether a disk has a write cache. Raises OSError."""
    return bool(struct.unpack("<256H", kept_identity(descriptor))[CACHE] & HAS_CACHE)


def is_locked(descriptor: int) -> bool:
    """Return whether a disk is locked by ATA's security feature. Raises OSError.

    Where the kernel kept that it is, the disk is asked: it may have been unlocked since.
    """
    if not _security(kept_identity(descriptor)) & LOCKED:
        return False
    try:
        return bool(_security(identity(descriptor)) & LOCKED)
    except OSError:
        return True


def _security(page: bytes) -> int:
    return int(struct.unpack("<256H", page)[SECURITY])


def identity(descriptor: int) -> bytes:
    """Return what an ATA disk says of itself now. Raises OSError where it gives no answer."""
    return _pass(descriptor, IDENTIFY, PIO_IN, READS_BLOCKS, 0, 1, IDENTITY_BYTES)


def order(descriptor: int, command: int, feature: int = 0, count: int = 0) -> None:
    """Send a command without data. Raises OSError where the disk refuses it."""
    _pass(descriptor, command, NO_DATA, 0, feature, count, 0)


def set_password(descriptor: int, password: str) -> None:
    """Set a disk's user password, with its master password left as it is. Raises OSError."""
    _write(descriptor, SET_PASSWORD, password)


def unlock(descriptor: int, password: str) -> None:
    """Unlock a disk until its next power-on. Raises OSError where the password is another one."""
    _write(descriptor, UNLOCK, password)


def disable_password(descriptor: int, password: str) -> None:
    """Take a disk's user password away. Raises OSError where it is another one."""
    _write(descriptor, DISABLE_PASSWORD, password)


def erase(descriptor: int, password: str, seconds: float) -> None:
    """Have a disk erase all of itself, which ends within `seconds`. Raises OSError."""
    order(descriptor, ERASE_PREPARE)
    _write(descriptor, ERASE_UNIT, password, round(seconds * 1000))


def _write(descriptor: int, command: int, password: str, timeout_ms: int = SLOW_MS) -> None:
    """Send a command of the security feature set, whose block of data has the password."""
    block = struct.pack("<H32s478x", 0, password.encode("ascii"))  # 0: the user's; a normal erase
    _pass(descriptor, command, PIO_OUT, WRITES_BLOCKS, 0, 1, 0, timeout_ms, block)


def _pass(
    descriptor: int,
    command: int,
    protocol: int,
    flags: int,
    feature: int,
    count: int,
    size: int,
    timeout_ms: int = SLOW_MS,
    data: bytes = b"",
) -> bytes:
    sent = struct.pack(
        ">BBBBBBB6xBBB",
        PASS_THROUGH, protocol, flags, 0, feature, 0, count, 0, command, 0,
    )  # fmt: skip
    answer, status, _ = scsi.send(descriptor, sent, size, timeout_ms, data)
    if status:
        raise OSError(f"ATA command {command:#04x}: refused (SCSI status {status:#x})")
    return answer
