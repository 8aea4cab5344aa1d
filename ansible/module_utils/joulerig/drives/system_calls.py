# SPDX-License-Identifier: GPL-3.0-or-later
"""The system calls by which a wipe lease holds a block device.

They stand together, and are reached through an object, so that a test can change the host between
any two of them.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import mmap
import os
import platform
import socket
import stat
from collections.abc import Sequence

from ansible.module_utils.joulerig.drives.commands import ata, locks, nvme, scsi
from ansible.module_utils.joulerig.tools import Refused, process_descriptor

# <linux/fs.h>
BLKFLSBUF = 0x1261
BLKGETSIZE64 = 0x80081272
BLKGETDISKSEQ = 0x80081280  # since Linux 5.15
# Calls that Python has no function for, by <asm/unistd.h>; since Linux 5.6, and 3.5.
PIDFD_GETFD = 438
KCMP = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "loongarch64": 272, "ppc64le": 354, "s390x": 343}
KCMP_FILES = 2  # <linux/kcmp.h>
PIDFD_THREAD = os.O_EXCL  # <linux/pidfd.h>; since Linux 6.9
MESSAGE_BYTES = 1 << 20  # what a socket may hold before the message that carries descriptors
MOST_DESCRIPTORS = 253  # of a message: SCM_MAX_FD
_libc = ctypes.CDLL(None, use_errno=True)


class SystemCalls:
    """The kernel's own calls. `path` is a device node's, `descriptor` that of an open one."""

    def open(self, path: str) -> int:
        """Open a device for reading: it keeps its number for as long as it is open."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def claim(self, path: str) -> int:
        """Open a device exclusively.

        Raises OSError (EBUSY) while a file system, md, device mapper, swap, or another exclusive
        opener has it or a part of it.
        """
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_EXCL)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def number(self, descriptor: int) -> str:
        """Return major:minor of an open device. Raises Refused for what is no block device."""
        found = os.fstat(descriptor)
        if not stat.S_ISBLK(found.st_mode):
            raise Refused(f"{os.readlink(f'/proc/self/fd/{descriptor}')}: is no block device")
        return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"

    def size_bytes(self, descriptor: int) -> int:
        return self._read_u64(descriptor, BLKGETSIZE64)

    def disk_sequence(self, descriptor: int) -> int | None:
        """Return the disk sequence of an open device; None where the kernel has none."""
        try:
            return self._read_u64(descriptor, BLKGETDISKSEQ)
        except OSError:
            return None

    def read(self, descriptor: int, count: int, offset: int) -> bytes:
        return os.pread(descriptor, count, offset)

    def read_all(self, descriptor: int, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read (offset, count) of each place. All are requested first: a drive orders them."""
        for offset, count in places:
            os.posix_fadvise(descriptor, offset, count, os.POSIX_FADV_WILLNEED)
        return [self.read(descriptor, count, offset) for offset, count in places]

    def reservation(self, descriptor: int, name: str) -> str:
        """Return who has reserved an open device, in words; "" where no host has.

        `name`: the kernel's, by which its kind is known. Raises OSError where it gives no answer.
        """
        if name.startswith("nvme"):
            return nvme.reservation(descriptor)
        return scsi.reservation(descriptor) if name.startswith("sd") else ""

    def format_reaches(self, descriptor: int) -> list[int]:
        """Return the namespaces that an NVMe format destroys. Raises OSError."""
        return nvme.format_reaches(descriptor)

    def nvme_controller(self, descriptor: int) -> bytes:
        """Return an NVMe controller's description of itself. Raises OSError."""
        return nvme.controller(descriptor)

    def nvme_health(self, descriptor: int) -> bytes:
        """Return an NVMe drive's health log. Raises OSError."""
        return nvme.health(descriptor)

    def nvme_extended_health(self, descriptor: int) -> bytes:
        """Return an NVMe drive's log C0h, the vendor's own or OCP's. Raises OSError."""
        return nvme.extended_health(descriptor)

    def nvme_log(self, descriptor: int, number: int, size: int) -> bytes:
        """Return the first bytes of an NVMe drive's log page. Raises OSError."""
        return nvme.log(descriptor, number, size)

    def nvme_feature(self, descriptor: int, number: int, size: int = 0) -> tuple[int, bytes]:
        """Return the value of an NVMe drive's feature, and its data. Raises OSError."""
        return nvme.feature(descriptor, number, size)

    def set_nvme_feature(self, descriptor: int, number: int, value: int) -> None:
        """Set an NVMe drive's feature that has no data. Raises OSError."""
        nvme.set_feature(descriptor, number, value)

    def kept_ata_identity(self, descriptor: int) -> bytes:
        """Return an ATA disk's description of itself, as the kernel has kept it. Raises OSError."""
        return ata.kept_identity(descriptor)

    def identity(self, descriptor: int, name: str) -> tuple[str, int]:
        """Return the serial and the bytes that an open drive reports. Raises OSError.

        `name`: the kernel's, by which its kind is known.
        """
        if name.startswith("nvme"):
            return nvme.identity(descriptor)
        try:
            return ata.serial_and_bytes(ata.kept_identity(descriptor))
        except OSError:  # a SCSI disk
            return scsi.identity(descriptor)

    def has_cache(self, descriptor: int, name: str) -> bool:
        """Return whether a drive has a write cache that can be on. Raises OSError."""
        if name.startswith("nvme"):
            return nvme.has_cache(descriptor)
        try:
            return ata.has_cache(descriptor)
        except OSError:  # a SCSI disk
            return scsi.has_cache(descriptor)

    def is_locked(self, descriptor: int, name: str) -> bool:
        """Return whether a drive that encrypts is locked; False where that is not known."""
        return locks.is_locked(descriptor, name)

    def ata_identity(self, descriptor: int) -> bytes:
        """Return an ATA disk's description of itself, as it is now. Raises OSError."""
        return ata.identity(descriptor)

    def order_ata(self, descriptor: int, command: int, feature: int, count: int) -> None:
        """Send an ATA disk a command without data. Raises OSError where it refuses it."""
        ata.order(descriptor, command, feature, count)

    def nvme_namespaces(self, descriptor: int) -> list[int]:
        """Return an NVMe drive's active namespaces. Raises OSError."""
        return nvme.namespaces(descriptor)

    def nvme_namespace(self, descriptor: int) -> bytes:
        """Return what an NVMe namespace is. Raises OSError."""
        return nvme.namespace(descriptor)

    def sanitize_state(self, descriptor: int) -> int:
        """Return how far an NVMe drive's latest sanitize is. Raises OSError."""
        return nvme.sanitize_state(descriptor)

    def sanitize(self, descriptor: int, action: int) -> None:
        """Begin a sanitize of an NVMe drive. Raises OSError where the drive refuses it."""
        nvme.sanitize(descriptor, action)

    def scsi_page(self, descriptor: int, number: int) -> bytes:
        """Return a page of a SCSI disk's vital product data. Raises OSError."""
        return scsi.page(descriptor, number)

    def set_ata_password(self, descriptor: int, password: str) -> None:
        """Set an ATA disk's user password. Raises OSError."""
        ata.set_password(descriptor, password)

    def erase_ata(self, descriptor: int, password: str, seconds: float) -> None:
        """Have an ATA disk erase all of itself and its password. Raises OSError."""
        ata.erase(descriptor, password, seconds)

    def unlock_ata(self, descriptor: int, password: str) -> None:
        """Unlock an ATA disk until its next power-on. Raises OSError."""
        ata.unlock(descriptor, password)

    def disable_ata_password(self, descriptor: int, password: str) -> None:
        """Take an ATA disk's user password away. Raises OSError."""
        ata.disable_password(descriptor, password)

    def wake(self, path: str) -> None:
        """Read from a device itself, past the kernel's cache, so that the drive rests no longer."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        try:
            with mmap.mmap(-1, mmap.PAGESIZE) as page:  # which is aligned, as the kernel asks
                os.preadv(descriptor, [page], 0)
        finally:
            os.close(descriptor)

    def flush(self, descriptor: int) -> None:
        """Write what is cached of an open device to it, and forget the cache.

        The kernel does so by itself when the last opener closes a device; ours stays open.
        """
        fcntl.ioctl(descriptor, BLKFLSBUF, 0)

    def share_files(self, one: str, other: str) -> bool:
        """Return whether two threads have one table of descriptors; False where that is unknown."""
        number = KCMP.get(platform.machine())
        return number is not None and not _libc.syscall(number, int(one), int(other), KCMP_FILES, 0, 0)

    def waiting(self, task: int, descriptor: int) -> list[int]:
        """Return duplicates of the descriptors that wait in a process's socket.

        They are those of the first message that has any, and the message stays there. Raises
        OSError where the socket cannot be looked into.
        """
        try:
            process = process_descriptor(task)
        except OSError:  # a thread that is not its process's first
            process = process_descriptor(task, PIDFD_THREAD)
        try:
            held = _checked(_libc.syscall(PIDFD_GETFD, process, descriptor, 0))
        finally:
            os.close(process)
        how = socket.MSG_PEEK | socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        with socket.socket(fileno=held) as one:
            _, messages, _, _ = one.recvmsg(MESSAGE_BYTES, socket.CMSG_SPACE(4 * MOST_DESCRIPTORS), how)
        found = array.array("i")
        for level, kind, data in messages:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
        return found.tolist()

    def _read_u64(self, descriptor: int, request: int) -> int:
        answer = bytearray(8)
        fcntl.ioctl(descriptor, request, answer)
        return int.from_bytes(answer, "little")


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


CALLS = SystemCalls()
