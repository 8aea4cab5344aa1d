# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel device a declared drive is, and the wipe lease: the only way to a destructive step.

A drive is found by its serial (and WWN where it has one) and its size, never by a /dev name. A Lease is given for
one drive and one boot after every check passed; mkfs and the like take a Lease and check it again as they begin.
"""

import fcntl
import os
import stat

from ansible.module_utils.joulerig.tools import Failed, Refused, run_json

# What blkid finds on a member of something bigger: wiping one would tear that apart.
MEMBER_TYPES = (
    "linux_raid_member",
    "LVM2_member",
    "zfs_member",
    "bcache",
    "drbd",
    "ceph_bluestore",
    "crypto_LUKS",
)


class Host:
    """Paths of the running system; tests give another root."""

    def __init__(self, sys="/sys", proc="/proc", dev="/dev"):
        self.sys, self.proc, self.dev = sys, proc, dev

    def read(self, path, default=None):
        try:
            with open(path, "rb") as file:
                return file.read().decode("ascii", "replace").strip("\x00 \n\t")
        except OSError:
            return default

    def block_devices(self):
        """Whole disks: no partitions, no loop, RAM, md or device-mapper devices."""
        for name in sorted(os.listdir(f"{self.sys}/block")):
            if os.path.exists(f"{self.sys}/block/{name}/device"):
                yield name

    def serial(self, name):
        """Serial number of a whole disk as its firmware gives it, or None."""
        base = f"{self.sys}/block/{name}/device"
        if (serial := self.read(f"{base}/serial")) is not None:
            return serial
        try:
            with open(f"{base}/vpd_pg80", "rb") as page:  # unit serial number page: 4 bytes of header
                return page.read()[4:].decode("ascii", "replace").strip("\x00 ")
        except OSError:
            return None

    def wwn(self, name):
        base = f"{self.sys}/block/{name}"
        return self.read(f"{base}/wwid") or self.read(f"{base}/device/wwid")

    def size_bytes(self, name):
        return int(self.read(f"{self.sys}/block/{name}/size", "0")) * 512

    def numbers(self, name):
        """major:minor of a device and of each of its partitions."""
        base = f"{self.sys}/block/{name}"
        found = {name: self.read(f"{base}/dev")}
        for entry in os.listdir(base):
            if os.path.exists(f"{base}/{entry}/partition"):
                found[entry] = self.read(f"{base}/{entry}/dev")
        return found

    def holders(self, name):
        """What is built upon a device or its partitions: md, device mapper, bcache."""
        found = []
        for part in self.numbers(name):
            base = f"{self.sys}/class/block/{part}/holders"
            if os.path.isdir(base):
                found += [f"{holder} holds {part}" for holder in sorted(os.listdir(base))]
        return found

    def mounts(self):
        """(major:minor, source, mount point) of every mount."""
        for line in (self.read(f"{self.proc}/self/mountinfo") or "").splitlines():
            fields = line.split()
            yield fields[2], fields[fields.index("-") + 2], fields[4]

    def swaps(self):
        lines = (self.read(f"{self.proc}/swaps") or "").splitlines()[1:]
        return [line.split()[0] for line in lines]

    def ancestors(self, number):
        """Names of all devices below `number` (major:minor): its disk, and the slaves of dm and md devices."""
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
    """A WWN's hexadecimal digits: naa.5000..., 0x5000... and eui.0025... are written in many ways."""
    return (wwn or "").lower().removeprefix("0x").split(".", 1)[-1].replace("-", "")


def find(spec, host=None):
    """Kernel name of the drive that `spec` {name, interface, serial, wwn, size_bytes} declares. Raises Refused."""
    host = host or Host()
    if spec["interface"] == "nvdimm":
        return _find_nvdimm(spec)
    serials = {name: host.serial(name) for name in host.block_devices()}
    matches = [name for name, serial in serials.items() if serial == spec["serial"]]
    if not matches:
        present = ", ".join(sorted(s for s in serials.values() if s)) or "none"
        raise Refused(
            f"{spec['name']}: no drive with serial {spec['serial']!r} on this host; present: {present}"
        )
    if len(matches) > 1:
        raise Refused(
            f"{spec['name']}: serial {spec['serial']!r} is that of several devices: {', '.join(matches)}"
        )
    name = matches[0]
    if spec.get("wwn") and _digits(host.wwn(name)) != _digits(spec["wwn"]):
        raise Refused(
            f"{spec['name']}: /dev/{name} has WWN {host.wwn(name)!r}, the inventory says {spec['wwn']!r}"
        )
    if host.size_bytes(name) != spec["size_bytes"]:
        raise Refused(
            f"{spec['name']}: /dev/{name} has {host.size_bytes(name)} bytes, the inventory says {spec['size_bytes']}"
        )
    return name


def nvdimm_region(spec):
    """ndctl's record of the region that lies on the declared NVDIMM alone: {dev, size, namespaces}. Raises Refused."""
    listing = run_json(["ndctl", "list", "-D", "-R", "-N"])
    listing = listing if isinstance(listing, dict) else {}
    dimms = {dimm.get("id"): dimm.get("dev") for dimm in listing.get("dimms", [])}
    if spec["serial"] not in dimms:
        present = ", ".join(sorted(filter(None, dimms))) or "none"
        raise Refused(
            f"{spec['name']}: no NVDIMM with id {spec['serial']!r} on this host; present: {present}"
        )
    for region in listing.get("regions", []):
        if [mapping.get("dimm") for mapping in region.get("mappings", [])] != [dimms[spec["serial"]]]:
            continue
        if region["size"] != spec["size_bytes"]:
            raise Refused(
                f"{spec['name']}: {region['dev']} has {region['size']} bytes, the inventory says {spec['size_bytes']}"
            )
        return region
    raise Refused(f"{spec['name']}: no region lies on the NVDIMM {spec['serial']!r} alone")


def _find_nvdimm(spec):
    for namespace in nvdimm_region(spec).get("namespaces", []):
        if namespace.get("blockdev"):
            return namespace["blockdev"]
    raise Refused(
        f"{spec['name']}: the NVDIMM has no namespace with a block device; playbooks/provision.yml makes it"
    )


def find_array(name, host=None):
    """Kernel name of the md array `name`. Raises Refused."""
    host = host or Host()
    path = f"{host.dev}/md/{name}"
    if not os.path.exists(path):
        raise Refused(f"{name}: no such array on this host; playbooks/provision.yml makes it")
    return os.path.basename(os.path.realpath(path))


class Lease:
    """Permission to destroy the content of one device, bound to its identity and to this boot."""

    def __init__(self, what, name, number, boot_id, host):
        self._what, self._name, self._number, self._boot_id, self._host = what, name, number, boot_id, host

    def device(self):
        """The device's path, after the checks were made once more. Raises Refused."""
        host = self._host
        if host.read(f"{host.proc}/sys/kernel/random/boot_id") != self._boot_id:
            raise Refused(f"{self._what}: the host has been rebooted since the wipe lease was given")
        if host.read(f"{host.sys}/block/{self._name}/dev") != self._number:
            raise Refused(f"{self._what}: /dev/{self._name} is not the device the wipe lease was given for")
        check_unused(self._what, self._name, host)
        return f"{host.dev}/{self._name}"


def lease(spec, host=None):
    """A wipe lease for the declared drive `spec`. Raises Refused, and nothing is touched."""
    host = host or Host()
    return _lease(spec["name"], find(spec, host), host)


def lease_array(name, members, host=None):
    """A wipe lease for an md array whose members are exactly the declared drives `members`. Raises Refused."""
    host = host or Host()
    kernel_name = find_array(name, host)
    declared = {find(spec, host) for spec in members}
    slaves = set(os.listdir(f"{host.sys}/block/{kernel_name}/slaves"))
    if slaves != declared:
        raise Refused(
            f"{name}: /dev/{kernel_name} is made of {', '.join(sorted(slaves))},"
            f" the inventory's members are {', '.join(sorted(declared))}"
        )
    return _lease(name, kernel_name, host)


def _lease(what, name, host):
    check_unused(what, name, host)
    number = host.read(f"{host.sys}/block/{name}/dev")
    return Lease(what, name, number, host.read(f"{host.proc}/sys/kernel/random/boot_id"), host)


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
    if (member := _signature(device)) in MEMBER_TYPES:
        raise Refused(f"{what}: {device} is marked as {member}")
    _check_exclusive(what, device)


def _signature(device):
    """Type of what blkid finds on a device, or None."""
    import subprocess

    command = ["blkid", "--probe", "--output", "value", "--match-tag", "TYPE", device]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        raise Failed("blkid: not found on this host") from None
    return done.stdout.strip() or None


def _check_exclusive(what, device):
    """The kernel's own word: an exclusive open fails while a file system, md, dm or swap has the device."""
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

    def __init__(self, path="/run/joulerig/run.lock"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = open(path, "a+")

    def __enter__(self):
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("another run is in progress on this host") from None
        return self

    def __exit__(self, *_):
        self._file.close()
