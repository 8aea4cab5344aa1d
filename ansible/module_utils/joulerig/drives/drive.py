# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel device a declared drive is, and the wipe lease: the only way to a destructive step.

A drive is found by its serial (and WWN where it has one) and its size, never by a /dev name. A
Lease is given for one drive and one boot after every check passed; mkfs and the like take a Lease,
which checks all of it again as they begin.
"""

import fcntl
import os
import stat
import time

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable, run, run_json

# Signatures of a part of something bigger: wiping one would tear that apart. Vendors' RAIDs end so,
# too.
MEMBER_ENDINGS = ("_member", "_LUKS", "BitLocker", "bcache", "drbd", "bluestore", "cow", "stratis")
# Serial of an emulated NVDIMM that the kernel's memmap= made: where in memory it starts.
E820 = "e820-"
# Serial of a disk that scsi_debug emulates: its adapter's number. Its own is made of the SCSI
# host's number, which changes with every load of the module.
SCSI_DEBUG = "scsi_debug-"
RAM_MAJOR = "1:"


class Host:
    """Paths of the running system; tests give another root."""

    def __init__(self, sys=None, proc=None, dev=None):
        self.sys, self.proc, self.dev = sys or paths.SYS, proc or paths.PROC, dev or paths.DEV

    def read(self, path, default=None):
        try:
            with open(path, "rb") as file:
                return file.read().decode("ascii", "replace").strip("\x00 \n\t")
        except OSError:
            return default

    def block_devices(self):
        """Yield the names of whole disks: no partitions, no loop, RAM, md or device-mapper devices.

        The single paths of a multipath NVMe drive are hidden disks with the serial of the real one.
        """
        for name in sorted(os.listdir(f"{self.sys}/block")):
            base = f"{self.sys}/block/{name}"
            if os.path.exists(f"{base}/device") and self.read(f"{base}/hidden", "0") == "0":
                yield name

    def serial(self, name):
        """Return the serial number of a whole disk as its firmware gives it, or None."""
        if (adapter := self.debug_adapter(name)) is not None:
            return SCSI_DEBUG + adapter
        base = f"{self.sys}/block/{name}/device"
        if (serial := self.read(f"{base}/serial")) is not None:
            return serial
        try:
            with open(f"{base}/vpd_pg80", "rb") as page:  # unit serial number page: 4 bytes of header
                return page.read()[4:].decode("ascii", "replace").strip("\x00 ")
        except OSError:
            return None

    def debug_adapter(self, name):
        """Return the number of the adapter that scsi_debug emulates for a disk.

        None for any other disk.
        """
        words = os.path.realpath(f"{self.sys}/block/{name}").split("/")
        if "pseudo_0" not in words[:-1]:
            return None
        adapter = words[words.index("pseudo_0") + 1]
        return adapter.removeprefix("adapter") if adapter.startswith("adapter") else None

    def wwn(self, name):
        base = f"{self.sys}/block/{name}"
        return self.read(f"{base}/wwid") or self.read(f"{base}/device/wwid")

    def size_bytes(self, name):
        return int(self.read(f"{self.sys}/block/{name}/size", "0")) * 512

    def numbers(self, name):
        """Return major:minor of a device and of each of its partitions, by name."""
        base = f"{self.sys}/block/{name}"
        found = {name: self.read(f"{base}/dev")}
        for entry in os.listdir(base):
            if os.path.exists(f"{base}/{entry}/partition"):
                found[entry] = self.read(f"{base}/{entry}/dev")
        return found

    def holders(self, name):
        """List what is built upon a device or its partitions: md, device mapper, bcache."""
        found = []
        for part in self.numbers(name):
            base = f"{self.sys}/class/block/{part}/holders"
            if os.path.isdir(base):
                found += [f"{holder} holds {part}" for holder in sorted(os.listdir(base))]
        return found

    def mounts(self):
        """Yield (major:minor, source, mount point) of every mount."""
        for line in (self.read(f"{self.proc}/self/mountinfo") or "").splitlines():
            fields = line.split()
            yield fields[2], fields[fields.index("-") + 2], fields[4]

    def swaps(self):
        lines = (self.read(f"{self.proc}/swaps") or "").splitlines()[1:]
        return [line.split()[0] for line in lines]

    def ancestors(self, number):
        """Return the names of all devices below `number` (major:minor).

        These are its disk, and the slaves of dm and md devices.
        """
        path = os.path.realpath(f"{self.sys}/dev/block/{number}")
        if not os.path.isdir(path):
            return set()
        if os.path.exists(f"{path}/partition"):
            path = os.path.dirname(path)
        found = {os.path.basename(path)}
        slaves = f"{path}/slaves"
        for slave in os.listdir(slaves) if os.path.isdir(slaves) else ():
            found |= self.ancestors(self.read(f"{self.sys}/class/block/{slave}/dev"))
        return found


def _digits(wwn):
    """Extract a WWN's hexadecimal digits.

    WWNs are written in many ways: naa.5000..., 0x5000... and eui.0025...
    """
    return (wwn or "").lower().removeprefix("0x").split(".", 1)[-1].replace("-", "")


def find(spec, host=None):
    """Return the kernel name of the drive that `spec` declares.

    `spec` is {name, interface, serial, wwn, size_bytes}. Raises Refused.
    """
    host = host or Host()
    what = spec["name"]
    if spec["interface"] == "nvdimm":
        return _find_emulated(spec, host) if spec["serial"].startswith(E820) else _find_nvdimm(spec)
    if spec["interface"] == "ram":
        return _find_ram(spec, host)
    serials = {name: host.serial(name) for name in host.block_devices()}
    matches = [name for name, serial in serials.items() if serial == spec["serial"]]
    if not matches:
        present = ", ".join(sorted(s for s in serials.values() if s)) or "none"
        raise Refused(f"{what}: no drive with serial {spec['serial']!r} on this host; present: {present}")
    if len(matches) > 1:
        raise Refused(f"{what}: serial {spec['serial']!r} is that of several devices: {', '.join(matches)}")
    name = matches[0]
    if spec.get("wwn") and _digits(host.wwn(name)) != _digits(spec["wwn"]):
        raise Refused(f"{what}: /dev/{name} has WWN {host.wwn(name)!r}, the inventory says {spec['wwn']!r}")
    _check_size(spec, f"/dev/{name}", host.size_bytes(name))
    return name


def _check_size(spec, device, size_bytes):
    if size_bytes != spec["size_bytes"]:
        raise Refused(
            f"{spec['name']}: {device} has {size_bytes} bytes, the inventory says {spec['size_bytes']}"
        )


def nvdimm_region(spec):
    """Return ndctl's record of the region that lies on the declared NVDIMM alone.

    The record is {dev, size, namespaces}. Raises Refused.
    """
    what = spec["name"]
    listing = run_json(["ndctl", "list", "-D", "-R", "-N"])
    listing = listing if isinstance(listing, dict) else {}
    dimms = {dimm.get("id"): dimm.get("dev") for dimm in listing.get("dimms", [])}
    if spec["serial"] not in dimms:
        present = ", ".join(sorted(filter(None, dimms))) or "none"
        raise Refused(f"{what}: no NVDIMM with id {spec['serial']!r} on this host; present: {present}")
    for region in listing.get("regions", []):
        if [mapping.get("dimm") for mapping in region.get("mappings", [])] != [dimms[spec["serial"]]]:
            continue
        _check_size(spec, region["dev"], region["size"])
        return region
    raise Refused(f"{what}: no region lies on the NVDIMM {spec['serial']!r} alone")


def _find_nvdimm(spec):
    for namespace in nvdimm_region(spec).get("namespaces", []):
        if namespace.get("blockdev"):
            return namespace["blockdev"]
    raise Refused(
        f"{spec['name']}: the NVDIMM has no namespace with a block device; playbooks/provision.yml makes it"
    )


def _find_emulated(spec, host):
    """Return the kernel name of an NVDIMM that memmap= made.

    It is a region of the bus `e820`, known by where in memory it starts. Raises Refused.
    """
    base = f"{host.sys}/bus/nd/devices"
    starts = {}
    for region in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        place = os.path.realpath(f"{base}/{region}")
        if region.startswith("region") and host.read(f"{os.path.dirname(place)}/provider") == "e820":
            starts[E820 + host.read(f"{place}/resource", "?")] = region
    region = starts.get(spec["serial"])
    if region is None:
        present = ", ".join(sorted(starts)) or "none"
        raise Refused(
            f"{spec['name']}: no emulated NVDIMM {spec['serial']!r} on this host; present: {present}"
        )
    _check_size(spec, region, int(host.read(f"{base}/{region}/size", "0")))
    for name in sorted(os.listdir(f"{host.sys}/block")):
        if f"/{region}/" in os.path.realpath(f"{host.sys}/block/{name}"):
            return name
    raise Refused(f"{spec['name']}: {region} has no block device")


def _find_ram(spec, host):
    """Return the name of the RAM block device that `spec` declares.

    It is brd's, whose devices have a separate major number. Raises Refused.
    """
    name = spec["serial"]
    if not (host.read(f"{host.sys}/block/{name}/dev") or "").startswith(RAM_MAJOR):
        raise Refused(
            f"{spec['name']}: no RAM block device {name!r} on this host; playbooks/provision.yml makes it"
        )
    _check_size(spec, f"/dev/{name}", host.size_bytes(name))
    return name


def find_array(name, host=None):
    """Return the kernel name of the md array `name`. Raises Refused."""
    host = host or Host()
    path = f"{host.dev}/md/{name}"
    if not os.path.exists(path):
        raise Refused(f"{name}: no such array on this host; playbooks/provision.yml makes it")
    return os.path.basename(os.path.realpath(path))


def check_array(name, members, host=None):
    """Check the md array `name` and return its kernel name.

    It must be made of exactly the declared drives `members`, whole and at rest. Raises Refused.
    """
    host = host or Host()
    kernel_name = find_array(name, host)
    base = f"{host.sys}/block/{kernel_name}"
    declared = {find(spec, host) for spec in members}
    slaves = set(os.listdir(f"{base}/slaves"))
    if slaves != declared:
        raise Refused(
            f"{name}: /dev/{kernel_name} is made of {', '.join(sorted(slaves)) or 'nothing'},"
            f" the inventory's members are {', '.join(sorted(declared))}"
        )
    if (missing := host.read(f"{base}/md/degraded", "0")) != "0":
        raise Refused(f"{name}: /dev/{kernel_name} is degraded, by {missing} of its members")
    if (action := host.read(f"{base}/md/sync_action", "idle")) != "idle":
        raise Refused(f"{name}: /dev/{kernel_name} is busy with {action!r}: its drives would draw for that")
    if not is_synchronised(kernel_name, host):
        raise Refused(f"{name}: /dev/{kernel_name} has a resync to do, which its first write would begin")
    return kernel_name


def is_synchronised(kernel_name, host):
    """Check that an md array has no resync before it.

    An array that was assembled unclean begins its resync with its first write.
    """
    base = f"{host.sys}/block/{kernel_name}/md"
    redundant = os.path.exists(f"{base}/sync_action")
    return not redundant or host.read(f"{base}/resync_start", "none") == "none"


class Lease:
    """Permission to destroy the content of one device, bound to its identity and to this boot.

    `identify` gives the device's kernel name, or raises Refused. Made by `lease` and `lease_array`.
    """

    def __init__(self, what, identify, host):
        self._what, self._identify, self._host = what, identify, host
        self._name = identify()
        check_unused(what, self._name, host)
        self._boot_and_number = self._now()

    def _now(self):
        host = self._host
        return (
            host.read(f"{host.proc}/sys/kernel/random/boot_id"),
            host.read(f"{host.sys}/block/{self._name}/dev"),
        )

    def device(self):
        """Return the device's path after repeating every check. Raises Refused."""
        boot_id, number = self._boot_and_number
        if self._now()[0] != boot_id:
            raise Refused(f"{self._what}: the host has been rebooted since the wipe lease was given")
        if self._identify() != self._name or self._now()[1] != number:
            raise Refused(f"{self._what}: /dev/{self._name} is not the device the wipe lease was given for")
        check_unused(self._what, self._name, self._host)
        return f"{self._host.dev}/{self._name}"


def lease(spec, host=None):
    """Return a wipe lease for the declared drive `spec`.

    Raises Refused, and nothing is touched.
    """
    host = host or Host()
    return Lease(spec["name"], lambda: find(spec, host), host)


def lease_array(name, members, host=None):
    """Return a wipe lease for an md array made of exactly the declared drives `members`.

    Raises Refused, and nothing is touched.
    """
    host = host or Host()
    return Lease(name, lambda: check_array(name, members, host), host)


def check_unused(what, name, host):
    """Refuse a device that anything on this host uses or stands upon."""
    numbers = host.numbers(name)
    for number, source, point in host.mounts():
        if number in numbers.values() or os.path.basename(os.path.realpath(source)) in numbers:
            raise Refused(f"{what}: /dev/{name} is mounted at {point}")
        if point in ("/", "/boot", "/usr", "/var", "/home") and name in host.ancestors(number):
            raise Refused(f"{what}: /dev/{name} carries {point}")
    for swap in host.swaps():
        if os.path.basename(os.path.realpath(swap)) in numbers:
            raise Refused(f"{what}: /dev/{name} is in use as swap")
    if holders := host.holders(name):
        raise Refused(f"{what}: /dev/{name} is in use: {holders[0]}")
    parts = sorted(set(numbers) - {name})
    if parts:
        raise Refused(f"{what}: /dev/{name} has partitions ({', '.join(parts)}); a drive under test has none")
    device = f"{host.dev}/{name}"
    for signature in _signatures(what, device):
        if signature.endswith(MEMBER_ENDINGS):
            raise Refused(f"{what}: {device} is marked as {signature}")
    _check_exclusive(what, device)


def _signatures(what, device):
    """List the types of all signatures on a device. blkid reports none where it finds two."""
    try:
        listing = run(["wipefs", "--no-act", "--noheadings", "--output", "TYPE", device], timeout=60)
    except Failed as error:
        raise Refused(f"{what}: {device} cannot be probed: {error}") from None
    return listing.split()


def _check_exclusive(what, device):
    """Refuse a device that the kernel does not let us open exclusively.

    This is the kernel's own word: an exclusive open fails while a file system, md, dm or swap has
    the device.
    """
    try:
        handle = os.open(device, os.O_RDONLY | os.O_EXCL)
    except OSError as error:
        raise Refused(f"{what}: {device} cannot be opened exclusively: {error.strerror}") from None
    try:
        if not stat.S_ISBLK(os.fstat(handle).st_mode):
            raise Refused(f"{what}: {device} is no block device")
    finally:
        os.close(handle)


class HostLock:
    """One run at a time on a host; a run whose controller went away is waited for, not overrun."""

    def __init__(self, patience_seconds=0.0, path=None):
        self._patience_seconds, self._path = patience_seconds, path or paths.RUN_LOCK

    def __enter__(self):
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._file = open(self._path, "a+")  # it stays open as long as the lock is held
        end = time.monotonic() + self._patience_seconds
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self
            except OSError:
                if time.monotonic() >= end:
                    self._file.close()
                    raise Unable("another run is in progress on this host") from None
            time.sleep(0.2)

    def __exit__(self, *_):
        self._file.close()
