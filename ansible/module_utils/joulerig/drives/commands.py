# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that only the drive itself can answer: what is reserved on it, what a format reaches.

Sources: NVM Express Base Specification 2.0, "Identify Controller", "Reservation Report" and
"SMART / Health Information"; SCSI Primary Commands 4, "PERSISTENT RESERVE IN".
"""

from __future__ import annotations

import ctypes
import fcntl
import struct

NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_IO_CMD = 0xC0484E41, 0xC0484E43  # <linux/nvme_ioctl.h>
NVME_IOCTL_ID = 0x4E40
SG_IO, SG_DXFER_FROM_DEV = 0x2285, -3  # <scsi/sg.h>
GET_LOG_PAGE, IDENTIFY, RESERVATION_REPORT = 0x02, 0x06, 0x0E  # opcodes
HEALTH, HEALTH_BYTES, ALL_NAMESPACES = 0x02, 512, 0xFFFFFFFF
HDIO_GET_IDENTITY, ATA_IDENTITY_BYTES = 0x030D, 512  # <linux/hdreg.h>
CONTROLLER, ACTIVE_NAMESPACES = 0x01, 0x02  # what Identify is asked for
PAGE_BYTES = 4096
TIMEOUT_MS = 5000
SUPPORTS_RESERVATIONS = 1 << 5  # of the field ONCS
FORMATS_ALL = 1 << 0  # of the field FNA: a format applies to all namespaces
READ_RESERVATION = 0x01  # service action


def nvme_reservation(descriptor: int) -> str:
    """Return who has reserved an NVMe namespace, in words; "" where no host has.

    `descriptor`: of the open namespace. Raises OSError where it gives no answer.
    """
    controller = _identify(descriptor, CONTROLLER)
    (supported,) = struct.unpack_from("<H", controller, 520)
    if not supported & SUPPORTS_RESERVATIONS:
        return ""
    namespace = fcntl.ioctl(descriptor, NVME_IOCTL_ID)
    words = PAGE_BYTES // 4 - 1
    report = _nvme(descriptor, NVME_IOCTL_IO_CMD, RESERVATION_REPORT, namespace, words, 0)
    kind = report[4]
    (registered,) = struct.unpack_from("<H", report, 5)
    return f"a reservation of type {kind}, {registered} hosts registered" if kind or registered else ""


def format_reaches(descriptor: int) -> list[int]:
    """Return the namespaces that a format of this one destroys, itself among them.

    `descriptor`: of the open namespace. Raises OSError where the controller gives no answer.
    """
    own = fcntl.ioctl(descriptor, NVME_IOCTL_ID)
    if not _identify(descriptor, CONTROLLER)[524] & FORMATS_ALL:
        return [own]
    listed = struct.unpack(f"<{PAGE_BYTES // 4}I", _identify(descriptor, ACTIVE_NAMESPACES))
    return [number for number in listed if number]


def nvme_controller(descriptor: int) -> bytes:
    """Return what an NVMe drive's controller says of itself. Raises OSError."""
    return _identify(descriptor, CONTROLLER)


def nvme_health(descriptor: int) -> bytes:
    """Return an NVMe drive's health log. Raises OSError."""
    words = HEALTH_BYTES // 4 - 1
    asked = words << 16 | HEALTH
    return _nvme(descriptor, NVME_IOCTL_ADMIN_CMD, GET_LOG_PAGE, ALL_NAMESPACES, asked, 0, HEALTH_BYTES)


def ata_identity(descriptor: int) -> bytes:
    """Return what an ATA disk says of itself, as the kernel keeps it. Raises OSError."""
    page = bytearray(ATA_IDENTITY_BYTES)
    fcntl.ioctl(descriptor, HDIO_GET_IDENTITY, page)
    return bytes(page)


def scsi_reservation(descriptor: int) -> str:
    """Return who has reserved a SCSI disk, in words; "" where none has, or it knows none."""
    answer = ctypes.create_string_buffer(64)
    sense = ctypes.create_string_buffer(32)
    command = ctypes.create_string_buffer(struct.pack(">BB5xHB", 0x5E, READ_RESERVATION, len(answer), 0), 10)
    header = struct.pack(
        "@iiBBHIPPPIIiPBBBBHHiII4x",
        ord("S"), SG_DXFER_FROM_DEV, 10, len(sense), 0, len(answer),
        ctypes.addressof(answer), ctypes.addressof(command), ctypes.addressof(sense),
        TIMEOUT_MS, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    )  # fmt: skip
    fcntl.ioctl(descriptor, SG_IO, bytearray(header))
    (length,) = struct.unpack_from(">I", answer.raw, 4)
    if length < 16:  # none; or the disk refused the command, as ATA disks do
        return ""
    return f"a reservation by the key {answer.raw[8:16].hex()}"


def _identify(descriptor: int, what: int) -> bytes:
    return _nvme(descriptor, NVME_IOCTL_ADMIN_CMD, IDENTIFY, 0, what, 0)


def _nvme(
    descriptor: int, request: int, opcode: int, namespace: int, cdw10: int, cdw11: int, size: int = PAGE_BYTES
) -> bytes:
    """Send a command that reads a page (struct nvme_passthru_cmd). Raises OSError."""
    page = ctypes.create_string_buffer(size)
    fields = (
        opcode, 0, 0, namespace, 0, 0, 0, ctypes.addressof(page), 0, size,
        cdw10, cdw11, 0, 0, 0, 0, TIMEOUT_MS, 0,
    )  # fmt: skip
    command = bytearray(struct.pack("<BBHIIIQQII6III", *fields))
    status = fcntl.ioctl(descriptor, request, command)
    if status:
        raise OSError(f"NVMe status {status:#x}")
    return page.raw
