# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands to a SCSI disk, and the way by which commands of others reach one: SG_IO.

Sources: SCSI Primary Commands 4, "PERSISTENT RESERVE IN" and "Unit Serial Number"; SCSI Block
Commands 4, "READ CAPACITY (16)" and "Caching mode page"; <scsi/sg.h>.
"""

from __future__ import annotations

import ctypes
import fcntl
import struct

SG_IO, SG_DXFER_NONE, SG_DXFER_TO_DEV, SG_DXFER_FROM_DEV = 0x2285, -1, -2, -3
HEADER = "@iiBBHIPPPIIiPBBBBHHiII4x"  # struct sg_io_hdr
STATUS = 13  # which of its fields says how the command ended; 0: well
HOST_STATUS, DRIVER_STATUS = 17, 18
DRIVER_SENSE = 0x08  # of the driver's: the disk gave a reason, which is no fault of the driver
TIMEOUT_MS = 5000
READ_RESERVATION = 0x01  # service action
INQUIRY, PAGE_BYTES = 0x12, 64
CHANGEABLE, CACHING = 1 << 6, 0x08  # which values of which mode page
CACHE_ENABLED = 1 << 2  # of byte 2 of that page


def send(
    descriptor: int, command: bytes, size: int = 0, timeout_ms: int = TIMEOUT_MS, data: bytes = b""
) -> tuple[bytes, int, bytes]:
    """Send a command that reads `size` bytes; return them, the disk's status and its sense data.

    `data`: what it writes, in place of reading. Raises OSError where the command did not reach the
    disk.
    """
    size = len(data) or size
    answer = ctypes.create_string_buffer(data, size) if data else ctypes.create_string_buffer(size or 1)
    direction = SG_DXFER_TO_DEV if data else SG_DXFER_FROM_DEV if size else SG_DXFER_NONE
    sense = ctypes.create_string_buffer(32)
    sent = ctypes.create_string_buffer(command, len(command))
    header = bytearray(
        struct.pack(
            HEADER,
            ord("S"), direction, len(command), len(sense), 0, size,
            ctypes.addressof(answer) if size else 0, ctypes.addressof(sent), ctypes.addressof(sense),
            timeout_ms, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        )
    )  # fmt: skip
    fcntl.ioctl(descriptor, SG_IO, header)
    fields = struct.unpack(HEADER, header)
    if fields[HOST_STATUS] or fields[DRIVER_STATUS] & ~DRIVER_SENSE:
        raise OSError(f"SCSI host status {fields[HOST_STATUS]:#x}, driver status {fields[DRIVER_STATUS]:#x}")
    return answer.raw[:size], fields[STATUS], sense.raw


def reservation(descriptor: int) -> str:
    """Return who has reserved a SCSI disk, in words; "" where none has, or it knows none."""
    command = struct.pack(">BB5xHB", 0x5E, READ_RESERVATION, 64, 0)
    answer, _, _ = send(descriptor, command, 64)
    (length,) = struct.unpack_from(">I", answer, 4)
    if length < 16:  # none; or the disk refused the command, as ATA disks do
        return ""
    return f"a reservation by the key {answer[8:16].hex()}"


def page(descriptor: int, number: int) -> bytes:
    """Return a page of a SCSI disk's vital product data. Raises OSError where it has none."""
    answer, status, _ = send(descriptor, struct.pack(">BBBHB", INQUIRY, 1, number, PAGE_BYTES, 0), PAGE_BYTES)
    if status or answer[1] != number:
        raise OSError(f"no page {number:#04x} of vital product data (SCSI status {status:#x})")
    return answer


def identity(descriptor: int) -> tuple[str, int]:
    """Return a disk's serial and its bytes. Raises OSError."""
    page = _read(descriptor, struct.pack(">BBBHB", 0x12, 1, 0x80, 252, 0), 252)
    serial = page[4 : 4 + page[3]].decode("ascii", "replace").strip("\x00 ")
    capacity = _read(descriptor, struct.pack(">BBQIBB", 0x9E, 0x10, 0, 32, 0, 0), 32)
    last, block_bytes = struct.unpack_from(">QI", capacity)
    return serial, (last + 1) * block_bytes


def has_cache(descriptor: int) -> bool:
    """Return whether a disk has a write cache that can be on or off. Raises OSError."""
    page = _read(descriptor, struct.pack(">BBBxxxxHB", 0x5A, 0x08, CHANGEABLE | CACHING, 64, 0), 64)
    (skipped,) = struct.unpack_from(">H", page, 6)  # block descriptors
    return bool(page[8 + skipped + 2] & CACHE_ENABLED)


def _read(descriptor: int, command: bytes, size: int) -> bytes:
    answer, status, _ = send(descriptor, command, size)
    if status:
        raise OSError(f"SCSI command {command[0]:#04x}: refused (status {status:#x})")
    return answer
