# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether anything on a host uses a block device or stands upon it.

Each check names one kind of use; a check whose source cannot be read refuses the device. USES are
those of now, from the cheapest to the dearest, CLAIMS those of another day: a table of the system
names the device. WITHOUT_CLAIM are those of now that an exclusive opener does not rule out and that
cost little.
"""

import fcntl
import os
import re
import stat
import struct
import time

from ansible.module_utils.joulerig.drives.host import unreadable
from ansible.module_utils.joulerig.tools import Refused

SYSTEM_PLACES = ("/", "/boot", "/usr", "/var", "/home")
WRITER_SECONDS = 3.0
LOOP_GET_STATUS64 = 0x4C05  # <linux/loop.h>
# Files of the kernel's storage servers that hold the path of a device which they serve.
SERVED = (
    ("target", "core/*/*/udev_path", "LIO's target"),
    ("nvmet", "subsystems/*/namespaces/*/device_path", "the NVMe target"),
)
# Tables of the system that name devices, below /etc.
TABLES = ("fstab", "crypttab", "mdadm/mdadm.conf", "mdadm.conf", "zfs/zpool.cache")
RESUME_TABLE = "initramfs-tools/conf.d/resume"


def check_unused(what, name, host, claimed=False):
    """Refuse a device that anything on this host uses or stands upon. Raises Refused.

    `claimed`: it was found unused and has been claimed since, so that only what needs no claim can
    have come.
    """
    _check(what, _Subject(name, host), WITHOUT_CLAIM if claimed else USES, host)


def check_unlisted(what, name, host, marks):
    """Refuse a device that a table of the system names.

    `marks`: UUIDs and labels of what is on it, by which a table may name it. Raises Refused.
    """
    _check(what, _Subject(name, host, marks), CLAIMS, host)


def _check(what, subject, finders, host):
    for find in finders:
        for use in find(subject, host):
            raise Refused(f"{what}: {use}")


class _Subject:
    """A device, its partitions' numbers by name, and the marks by which tables may name it."""

    def __init__(self, name, host, marks=()):
        self.name, self.marks = name, {mark.lower() for mark in marks if mark}
        self.numbers = host.numbers(name)
        self._numbers = set(self.numbers.values())

    def has(self, number):
        """Check whether `number` (major:minor) is the device's, or a partition's of it."""
        return number in self._numbers

    def is_at(self, path):
        """Check whether `path` leads to the device or to a partition of it."""
        real = os.path.realpath(path)
        if os.path.basename(real) in self.numbers:
            return True
        try:
            found = os.stat(real)
        except OSError:
            return False
        return stat.S_ISBLK(found.st_mode) and self.has(_number(found.st_rdev))


def _number(device):
    return f"{os.major(device)}:{os.minor(device)}"


def mounted(subject, host):
    for number, source, point in host.mounts():
        if subject.has(number) or subject.is_at(source):
            yield f"/dev/{subject.name} is mounted at {point}"
        if point in SYSTEM_PLACES and subject.name in host.ancestors(number):
            yield f"/dev/{subject.name} carries {point}"


def swapped(subject, host):
    for swap in host.swaps():
        if subject.is_at(swap):
            yield f"/dev/{subject.name} is in use as swap"


def held(subject, host):
    """Look for what is built upon it: md, device mapper, bcache."""
    for holder in host.holders(subject.name):
        yield f"/dev/{subject.name} is in use: {holder}"


def partitioned(subject, host):
    if parts := sorted(set(subject.numbers) - {subject.name}):
        yield f"/dev/{subject.name} has partitions ({', '.join(parts)}); a drive under test has none"


def looped(subject, host):
    """Look for loop devices upon it: they open it without a claim, and leave no holder."""
    for name in _names(host, "loop"):
        base = f"{host.sys}/block/{name}"
        backing = host.read(f"{base}/loop/backing_file")
        if backing and (subject.is_at(backing) or subject.has(_backing_number(f"{host.dev}/{name}"))):
            yield f"/dev/{subject.name} is in use: {name} is a loop device upon it"


def _backing_number(device):
    """Ask a loop device for the number of the device that it stands upon; "" where there is none.

    Its backing file's path may be one of another mount namespace, or of a node that is gone.
    """
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        answer = fcntl.ioctl(descriptor, LOOP_GET_STATUS64, bytes(232))
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    encoded = struct.unpack_from("=QQQ", answer)[2]  # lo_rdevice of struct loop_info64
    return _number(encoded) if encoded else ""


def backs_compressed_memory(subject, host):
    for name in _names(host, "zram"):
        backing = host.read(f"{host.sys}/block/{name}/backing_dev", "none")
        if backing != "none" and subject.is_at(backing):
            yield f"/dev/{subject.name} is in use: {name} writes to it"


def served(subject, host):
    """Look for it in what the kernel serves to other hosts."""
    for target, pattern, who in SERVED:
        for path in _matches(f"{host.sys}/kernel/config/{target}", pattern.split("/")):
            device = host.require(path)
            if device and subject.is_at(device):
                yield f"/dev/{subject.name} is in use: {who} serves it to other hosts"


def resumed_from(subject, host):
    """Look for it as the place of the image from which a hibernated system is resumed."""
    words = host.require(f"{host.proc}/cmdline").split()
    asked = [word.split("=", 1)[1] for word in words if word.startswith("resume=")]
    table = host.read(f"{host.etc}/{RESUME_TABLE}") or ""
    asked += [line.split("=", 1)[1].strip() for line in table.splitlines() if line.startswith("RESUME=")]
    number = host.read(f"{host.sys}/power/resume", "0:0")
    if subject.has(number) or any(_names_it(word, subject, host) for word in asked):
        yield f"/dev/{subject.name} is where this host resumes from after hibernation"


def listed(subject, host):
    """Look for it in the tables of the system."""
    for table in TABLES:
        path = f"{host.etc}/{table}"
        if not os.path.exists(path):
            continue
        for line in host.require(path).splitlines():
            if line.lstrip().startswith("#"):
                continue
            for word in re.findall(r"[^\s,\x00-\x1f\x7f-\uffff]+", line):
                if _names_it(word, subject, host):
                    yield f"/dev/{subject.name} is in {path}: {word}"


def _names_it(word, subject, host):
    """Check whether a word of a table names the device, by a path or by a mark on it."""
    key, _, value = word.strip('"').rpartition("=")
    value = value.strip('"')
    if value.startswith(f"{host.dev}/"):
        return subject.is_at(value)
    return key.upper() in ("UUID", "LABEL", "PARTUUID", "PARTLABEL") and value.lower() in subject.marks


def open_for_writing(subject, host):
    """Look for processes that have it, or a partition of it, open for writing.

    Virtual machines, storage servers in user space and most programs make no claim. A poll of a
    drive's health opens some for writing as well, for a moment: what is gone soon is no user.
    """
    end = time.monotonic() + WRITER_SECONDS
    while writers := _writers(subject, host):
        if time.monotonic() >= end:
            yield f"/dev/{subject.name} is in use: {writers[0]} has it open for writing"
            return
        time.sleep(0.2)


def _writers(subject, host):
    """List the processes, but for this one, that have the subject open for writing."""
    own = str(os.getpid())
    return [
        f"{host.read(f'{host.proc}/{process}/comm', '?')} (process {process})"
        for process in os.listdir(host.proc)
        if process.isdigit() and process != own and _writes(host, process, subject)
    ]


def _writes(host, process, subject):
    """Check whether a process has the subject open for writing. Raises Refused if it hides that."""
    base = f"{host.proc}/{process}"
    try:
        # Relative to the open folder: thousands of paths are looked up.
        folder = os.open(f"{base}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return any(
                _is_block(folder, descriptor, subject) and _is_writable(f"{base}/fdinfo/{descriptor}")
                for descriptor in os.listdir(folder)
            )
        finally:
            os.close(folder)
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return False
    except OSError as error:
        raise unreadable(f"{base}/fd", error) from None


def _is_block(folder, descriptor, subject):
    try:
        found = os.stat(descriptor, dir_fd=folder)
    except OSError as error:
        if isinstance(error, PermissionError):
            raise
        return False  # closed meanwhile, or a file that its server does not answer for
    return stat.S_ISBLK(found.st_mode) and subject.has(_number(found.st_rdev))


def _is_writable(path):
    with open(path) as file:
        flags = next((line.split()[1] for line in file if line.startswith("flags:")), "2")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _names(host, kind):
    return sorted(name for name in os.listdir(f"{host.sys}/block") if re.fullmatch(kind + r"\d+", name))


def _matches(base, pattern):
    """Yield the files below `base` that match a pattern of path components.

    Not glob's: it passes over a folder that it may not read. Raises Refused for one.
    """
    if not pattern:
        yield base
        return
    first, rest = pattern[0], pattern[1:]
    try:
        names = sorted(os.listdir(base)) if first == "*" else [first]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        return
    except OSError as error:
        raise unreadable(base, error) from None
    for name in names:
        if os.path.exists(f"{base}/{name}"):
            yield from _matches(f"{base}/{name}", rest)


USES = (
    mounted, swapped, held, partitioned, looped, backs_compressed_memory, served, open_for_writing,
)  # fmt: skip
WITHOUT_CLAIM = (mounted, held, partitioned, looped, served)
CLAIMS = (resumed_from, listed)
