# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether anything on a host uses a block device or stands upon it.

Each check names one kind of use; a check whose source cannot be read refuses the device. USES are
those of now that the kernel lists, from the cheapest to the dearest; WITHOUT_CLAIM are those of
them that an exclusive opener does not rule out. What processes have open comes in addition
(`check_unopened`), and what files of the system name for a use of another day (`check_unnamed`).
"""

import fcntl
import os
import re
import stat
import struct
import time

from ansible.module_utils.joulerig.drives.host import matches, number_of, one_line
from ansible.module_utils.joulerig.drives.uses import named, processes
from ansible.module_utils.joulerig.tools import Refused

SYSTEM_PLACES = ("/", "/boot", "/usr", "/var", "/home")
# A poll of a drive's health opens some for writing, for a moment: what is gone soon is no user.
WRITER_SECONDS = 3.0
LOOP_GET_STATUS64 = 0x4C05  # <linux/loop.h>
# Files of the kernel, below /sys, that hold the path of a device which it reads and writes itself.
SERVED = (
    ("kernel/config/target/core/*/*/udev_path", "LIO's target serves it to other hosts"),
    ("kernel/config/nvmet/subsystems/*/namespaces/*/device_path", "the NVMe target serves it to other hosts"),
    ("kernel/config/usb_gadget/*/functions/*/lun.*/file", "a USB gadget serves it to another host"),
    ("class/udc/*/device/gadget*/lun*/file", "a USB gadget serves it to another host"),
    ("kernel/scst_tgt/devices/*/filename", "SCST's target serves it to other hosts"),
    ("module/pstore_blk/parameters/blkdev", "the kernel stores the messages of a crash there"),
)


def check_unused(what, name, host, claimed=False):
    """Refuse a device that the kernel lists as used, or that something stands upon. Raises Refused.

    `claimed`: it was found unused and has been claimed since, so that only what needs no claim can
    have come.
    """
    subject = _Subject(name, host)
    for find in WITHOUT_CLAIM if claimed else USES:
        for use in find(subject, host):
            raise Refused(f"{what}: {use}")


def check_unopened(drives, host, opened=None):
    """Refuse devices that processes have open, each by what it is called and its name.

    That is: for writing, or any of its character nodes at all, as commands go through those.
    Virtual machines, storage servers in user space and most programs make no claim. `opened`: what
    was seen just before (`processes.Opened`). Raises Refused.
    """
    subjects = [(what, _Subject(name, host)) for what, name in drives]
    end = time.monotonic() + WRITER_SECONDS
    opened = opened or processes.Opened(host)
    while users := [use for what, subject in subjects for use in _users(what, subject, opened)]:
        if time.monotonic() >= end:
            raise Refused(users[0])
        time.sleep(0.2)
        opened = processes.Opened(host)


def _users(what, subject, opened):
    for name, number in subject.numbers.items():
        words = opened.blocks.get(number) or opened.names.get(name)
        if words:
            yield f"{what}: /dev/{subject.name} is in use: {words}"
    for name, number in subject.nodes.items():
        if words := opened.characters.get(number) or opened.names.get(name):
            yield f"{what}: /dev/{subject.name} is in use as /dev/{name}: {words}"
    for words in opened.hidden:
        yield f"{what}: /dev/{subject.name} may be in use: {words}"


def check_unnamed(drives, host):
    """Refuse devices that a file of the system names. Raises Refused.

    `drives`: of each what it is called, its name, and the UUIDs and labels of what is on it.
    """
    names = [(what, name, _Subject(name, host).names(marks)) for what, name, marks in drives]
    for path, text in named.sources(host):
        for what, name, one in names:
            if word := one.find(text):
                raise Refused(f"{what}: /dev/{name} is named in {one_line(path)}: {one_line(word)}")


class _Subject:
    """A device, with its partitions' numbers by name; an array has its members' as well.

    `numbers`: of block devices, `nodes`: of the character nodes by which they are reached.
    """

    def __init__(self, name, host):
        self.name, self._host = name, host
        self.partitions = sorted(set(host.numbers(name)) - {name})
        self._disks = [name, *sorted(host.ancestors(host.number(name)) - {name})]
        self.numbers, self.nodes = {}, {}
        for disk in self._disks:
            self.numbers.update(host.numbers(disk))
            self.nodes.update(host.nodes(disk))
        self._all = set(self.numbers.values())

    def has(self, number):
        """Check whether `number` (major:minor) is the device's, or a partition's of it."""
        return number in self._all

    def is_at(self, path):
        """Check whether `path` leads to the device, a partition, or a node that reaches it."""
        real = os.path.realpath(path)
        if os.path.basename(real) in self.numbers:
            return True
        try:
            found = os.stat(real)
        except OSError:
            return False
        if stat.S_ISCHR(found.st_mode):
            return number_of(found) in self.nodes.values()
        return stat.S_ISBLK(found.st_mode) and self.has(number_of(found))

    def pci_functions(self):
        """Return the folders in /sys of the PCI functions that its disks are behind."""
        return {path for disk in self._disks if (path := self._host.pci_function(disk))}

    def names(self, marks):
        """Return the names by which a file may mean it."""
        lowered = {mark.lower() for mark in marks if mark}
        return named.Names(self._disks, list(self.nodes), lowered, self.is_at, self._host)


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
    if subject.partitions:
        parts = ", ".join(subject.partitions)
        yield f"/dev/{subject.name} has partitions ({parts}); a drive under test has none"


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
    return f"{os.major(encoded)}:{os.minor(encoded)}" if encoded else ""


def backs_compressed_memory(subject, host):
    for name in _names(host, "zram"):
        backing = host.read(f"{host.sys}/block/{name}/backing_dev", "none")
        if backing != "none" and subject.is_at(backing):
            yield f"/dev/{subject.name} is in use: {name} writes to it"


def served(subject, host):
    """Look for it in what the kernel itself reads and writes, for other hosts or for a crash."""
    for pattern, how in SERVED:
        for path in matches(host.sys, pattern.split("/")):
            if (device := host.require(path)) and subject.is_at(device):
                yield f"/dev/{subject.name} is in use: {how}"


def given_away(subject, host):
    """Look for a PCI function that is, or is to be, a virtual machine's.

    What an NVMe drive's virtual function does to its namespaces is not seen here.
    """
    for place in subject.pci_functions():
        name = os.path.basename(place)
        meant = host.read(f"{place}/driver_override", "(null)")
        if meant not in ("(null)", "", os.path.basename(os.path.realpath(f"{place}/driver"))):
            yield f"/dev/{subject.name} is to be given to {meant}: the driver_override of {name} says so"
        for path in matches(place, ["virtfn*", "driver"]):
            driver = os.path.basename(os.path.realpath(path))
            if driver.startswith(("vfio", "uio")):
                yield f"/dev/{subject.name} is in use: {driver} has a virtual function of {name}"


def resumed_from(subject, host):
    """Look for it as the place of the image from which a hibernated system is resumed."""
    if subject.has(host.read(f"{host.sys}/power/resume", "0:0")):
        yield f"/dev/{subject.name} is where this host resumes from after hibernation"


def _names(host, kind):
    return sorted(name for name in os.listdir(f"{host.sys}/block") if re.fullmatch(kind + r"\d+", name))


USES = (
    mounted, swapped, held, partitioned, looped, backs_compressed_memory, served, given_away, resumed_from,
)  # fmt: skip
WITHOUT_CLAIM = (mounted, held, partitioned, looped, served)
