# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands to an NVMe drive: what it is, what is reserved on it, what a format reaches, features.

Sources: NVM Express Base Specification 2.0, "Identify", "Reservation Report", "SMART / Health
Information", "Get Features", "Set Features", "Volatile Write Cache"; TCG Storage Architecture Core
Specification 2.01, "Level 0 Discovery".
"""

from __future__ import annotations

import ctypes
import fcntl
import struct

NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_IO_CMD = 0xC0484E41, 0xC0484E43  # <linux/nvme_ioctl.h>
NVME_IOCTL_ID = 0x4E40
COMMAND = "<BBHIIIQQII6III"  # struct nvme_passthru_cmd
GET_LOG_PAGE, IDENTIFY, SET_FEATURES, GET_FEATURES = 0x02, 0x06, 0x09, 0x0A  # opcodes
RESERVATION_REPORT, SECURITY_RECEIVE, SANITIZE = 0x0E, 0x82, 0x84
HEALTH, HEALTH_BYTES, ALL_NAMESPACES = 0x02, 512, 0xFFFFFFFF
EXTENDED_HEALTH = 0xC0  # as long as the health log
SANITIZE_LOG, SANITIZE_BYTES = 0x81, 512
NAMESPACE, CONTROLLER, ACTIVE_NAMESPACES = 0x00, 0x01, 0x02  # what Identify is asked for
VOLATILE_WRITE_CACHE = 0x06  # feature
# Statuses of a Set Features for what a controller cannot change.
INVALID_FIELD, NOT_CHANGEABLE, STATUS_BITS = 0x002, 0x10E, 0x7FF
PAGE_BYTES = 4096
TIMEOUT_MS = 5000
SANITIZE_TIMEOUT_MS = 60_000  # it begins when the commands before it have ended
SUPPORTS_RESERVATIONS = 1 << 5  # of the field ONCS
FORMATS_ALL = 1 << 0  # of the field FNA: a format applies to all namespaces
SUPPORTS_SECURITY = 1 << 0  # of the field OACS
DISCOVERY, DISCOVERY_HEADER, LOCKING_FEATURE = 0x0001, 48, 0x0002
FEATURE_LOCKED = 1 << 2


class StatusError(OSError):
    """A drive refused a command: `status` is NVMe's, without the bits beyond type and code."""

    def __init__(self, status: int) -> None:
        super().__init__(f"NVMe status {status:#x}")
        self.status = status & STATUS_BITS


def reservation(descriptor: int) -> str:
    """Return who has reserved an NVMe namespace, in words; "" where no host has.

    `descriptor`: of the open namespace. Raises OSError where it gives no answer.
    """
    described = _identify(descriptor, CONTROLLER)
    (supported,) = struct.unpack_from("<H", described, 520)
    if not supported & SUPPORTS_RESERVATIONS:
        return ""
    own = fcntl.ioctl(descriptor, NVME_IOCTL_ID)
    words = PAGE_BYTES // 4 - 1
    report = _nvme(descriptor, NVME_IOCTL_IO_CMD, RESERVATION_REPORT, own, words, 0)
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
    return namespaces(descriptor)


def namespaces(descriptor: int) -> list[int]:
    """Return the active namespaces of a drive. Raises OSError."""
    listed = struct.unpack(f"<{PAGE_BYTES // 4}I", _identify(descriptor, ACTIVE_NAMESPACES))
    return [number for number in listed if number]


def namespace(descriptor: int) -> bytes:
    """Return what a namespace is: its size, its formats and which one is in use. Raises OSError."""
    number = fcntl.ioctl(descriptor, NVME_IOCTL_ID)
    return _nvme(descriptor, NVME_IOCTL_ADMIN_CMD, IDENTIFY, number, NAMESPACE, 0)


def sanitize_state(descriptor: int) -> int:
    """Return how far the latest sanitize is, as its log numbers that. Raises OSError."""
    return log(descriptor, SANITIZE_LOG, SANITIZE_BYTES)[2] & 0x7


def sanitize(descriptor: int, action: int) -> None:
    """Begin a sanitize by the open namespace. Raises OSError where the drive refuses it."""
    _send(descriptor, NVME_IOCTL_ADMIN_CMD, SANITIZE, 0, action, 0, 0, SANITIZE_TIMEOUT_MS)


def controller(descriptor: int) -> bytes:
    """Return what an NVMe drive's controller says of itself. Raises OSError."""
    return _identify(descriptor, CONTROLLER)


def identity(descriptor: int) -> tuple[str, int]:
    """Return a drive's serial, and the bytes of the open namespace. Raises OSError."""
    serial = _identify(descriptor, CONTROLLER)[4:24].decode("ascii", "replace").strip("\x00 ")
    return serial, capacity(namespace(descriptor))


def capacity(page: bytes) -> int:
    """Read the bytes of a namespace from the page that `namespace` returns."""
    (blocks,) = struct.unpack_from("<Q", page)
    number = page[26] & 0xF | (page[26] >> 5 & 3) << 4  # of the format in use
    (shift,) = struct.unpack_from("<B", page, 128 + 4 * number + 2)
    return int(blocks << shift)


def has_cache(descriptor: int) -> bool:
    """Return whether a drive has a volatile write cache. Raises OSError."""
    return bool(_identify(descriptor, CONTROLLER)[525] & 1)


def is_locked(descriptor: int) -> bool:
    """Return whether a drive says by TCG Opal that it is locked. Raises OSError."""
    (supported,) = struct.unpack_from("<H", _identify(descriptor, CONTROLLER), 256)
    if not supported & SUPPORTS_SECURITY:
        return False
    protocol = 0x01 << 24 | DISCOVERY << 8
    return discovery_says_locked(
        _nvme(descriptor, NVME_IOCTL_ADMIN_CMD, SECURITY_RECEIVE, 0, protocol, PAGE_BYTES)
    )


def discovery_says_locked(page: bytes) -> bool:
    """Return whether a TCG Level 0 Discovery has the locking feature, and a range locked."""
    (length,) = struct.unpack_from(">I", page)
    at = DISCOVERY_HEADER
    while at + 4 < min(4 + length, len(page)):
        (code,) = struct.unpack_from(">H", page, at)
        if code == LOCKING_FEATURE:
            return bool(page[at + 4] & FEATURE_LOCKED)
        at += 4 + page[at + 3]
    return False


def health(descriptor: int) -> bytes:
    """Return an NVMe drive's health log. Raises OSError."""
    return log(descriptor, HEALTH, HEALTH_BYTES)


def extended_health(descriptor: int) -> bytes:
    """Return a drive's log C0h, which is OCP's where it has OCP's GUID. Raises OSError."""
    return log(descriptor, EXTENDED_HEALTH, HEALTH_BYTES)


def log(descriptor: int, number: int, size: int) -> bytes:
    """Return the first bytes of a drive's log page. Raises OSError."""
    asked = (size // 4 - 1) << 16 | number
    return _nvme(descriptor, NVME_IOCTL_ADMIN_CMD, GET_LOG_PAGE, ALL_NAMESPACES, asked, 0, size)


def feature(descriptor: int, number: int, size: int = 0) -> tuple[int, bytes]:
    """Return the current value of a feature, and its `size` bytes of data. Raises OSError."""
    return _send(descriptor, NVME_IOCTL_ADMIN_CMD, GET_FEATURES, 0, number, 0, size)


def set_feature(descriptor: int, number: int, value: int) -> None:
    """Set a feature that has no data, until the next reset. Raises OSError."""
    _send(descriptor, NVME_IOCTL_ADMIN_CMD, SET_FEATURES, 0, number, value, 0)


def _identify(descriptor: int, what: int) -> bytes:
    return _nvme(descriptor, NVME_IOCTL_ADMIN_CMD, IDENTIFY, 0, what, 0)


def _nvme(
    descriptor: int, request: int, opcode: int, namespace: int, cdw10: int, cdw11: int, size: int = PAGE_BYTES
) -> bytes:
    return _send(descriptor, request, opcode, namespace, cdw10, cdw11, size)[1]


def _send(
    descriptor: int,
    request: int,
    opcode: int,
    namespace: int,
    cdw10: int,
    cdw11: int,
    size: int,
    timeout_ms: int = TIMEOUT_MS,
) -> tuple[int, bytes]:
    """Send a command that reads `size` bytes (struct nvme_passthru_cmd); return result and bytes.

    Raises OSError.
    """
    page = ctypes.create_string_buffer(size or 1)
    fields = (
        opcode, 0, 0, namespace, 0, 0, 0, ctypes.addressof(page) if size else 0, 0, size,
        cdw10, cdw11, 0, 0, 0, 0, timeout_ms, 0,
    )  # fmt: skip
    command = bytearray(struct.pack(COMMAND, *fields))
    status = fcntl.ioctl(descriptor, request, command)
    if status:
        raise StatusError(status)
    return struct.unpack(COMMAND, command)[-1], page.raw[:size]
