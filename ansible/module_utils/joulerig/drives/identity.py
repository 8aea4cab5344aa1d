# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel device a declared drive or array is.

A drive is found by its serial (and WWN where it has one) and its size, never by a /dev name.
"""

import os
import re

from ansible.module_utils.joulerig.drives.host import SCSI_DEBUG, Host
from ansible.module_utils.joulerig.drives.serials import WWNS, is_placeholder
from ansible.module_utils.joulerig.tools import Refused, run_json

# Serial of an emulated NVDIMM that the kernel's memmap= made: where in memory it starts.
E820 = "e820-"
RAM_MAJOR = "1:"
ROTATIONAL = {"sata-ssd": "0", "hdd": "1"}  # what the kernel says of them


def _digits(wwn):
    """Extract a WWN's hexadecimal digits.

    WWNs are written in many ways: naa.5000..., 0x5000... and eui.0025... The kernel pads the parts
    of a t10 one with blanks.
    """
    digits = (wwn or "").lower().split(".", 1)[-1].replace("-", "")
    return "".join((digits[2:] if digits.startswith("0x") else digits).split())


def find(spec, host=None):
    """Return the kernel name of the drive that `spec` declares.

    `spec` is {name, interface, serial, wwn, size_bytes}. Raises Refused.
    """
    host = host or Host()
    what = spec["name"]
    if is_placeholder(spec["serial"]):
        raise Refused(f"{what}: {spec['serial']!r} is no serial: makers put it where they give none")
    if spec["interface"] == "nvdimm":
        return _find_nvdimm(spec, host)
    if spec["interface"] == "ram":
        return _find_ram(spec, host)
    serials = {name: host.serial(name) for name in host.block_devices()}
    matches = [name for name, serial in serials.items() if serial == spec["serial"]]
    if not matches:
        present = ", ".join(sorted(_shown(name, s, host) for name, s in serials.items() if s)) or "none"
        raise Refused(f"{what}: no drive with serial {spec['serial']!r} on this host; present: {present}")
    name = matches[0] if len(matches) == 1 else _one_of(matches, spec, host)
    if not spec["serial"].startswith(SCSI_DEBUG):  # what it says of itself is made up
        _check_wwn(spec, name, host.wwn(name))
        _check_kind(spec, name, host)
    check_size(what, f"/dev/{name}", host.size_bytes(name), spec["size_bytes"])
    return name


def _shown(name, serial, host):
    """Return a serial for people; a USB bridge may report another one than the drive behind it."""
    return f"{serial} (/dev/{name}, of a USB bridge)" if host.is_behind_usb(name) else serial


def _one_of(matches, spec, host):
    """Return which of the devices with the declared serial has the declared WWN. Raises Refused.

    They are namespaces of one NVMe drive, paths to one SAS drive, or drives with a cloned serial.
    """
    what, serial = spec["name"], spec["serial"]
    wwns = {name: host.wwn(name) for name in matches}
    listed = ", ".join(f"{name} (WWN {wwn or 'none'})" for name, wwn in wwns.items())
    if not spec.get("wwn"):
        raise Refused(
            f"{what}: serial {serial!r} is that of several devices: {listed}; put the wwn of the one that is"
            " meant into the inventory"
        )
    found = [name for name, wwn in wwns.items() if _digits(wwn) == _digits(spec["wwn"])]
    if not found:
        raise Refused(f"{what}: {listed} have serial {serial!r}; none has WWN {spec['wwn']!r}")
    if len(found) > 1:
        raise Refused(
            f"{what}: {', '.join(found)} are paths to one drive (WWN {spec['wwn']!r}), and another program"
            " could use it by the other one; take all but one away:"
            f" echo 1 > /sys/block/{found[-1]}/device/delete"
        )
    return found[0]


def _check_wwn(spec, name, found):
    """Refuse a drive whose WWN is not the declared one, or not declared at all.

    Of drives with cloned or exchanged serials only the WWN says which is which. What the kernel
    makes up of model and serial, where a drive has none, says no more than those.
    """
    what = spec["name"]
    if spec.get("wwn"):
        if not _digits(spec["wwn"]) or _digits(found) != _digits(spec["wwn"]):
            raise Refused(f"{what}: /dev/{name} has WWN {found!r}, the inventory says {spec['wwn']!r}")
    elif (found or "").lower().startswith(WWNS):
        raise Refused(f"{what}: /dev/{name} has WWN {found!r}; put it into the inventory as wwn: {found}")


def _check_kind(spec, name, host):
    """Refuse a drive of another kind than the declared, behind USB, removable or read-only."""
    what, interface = spec["name"], spec["interface"]
    base = f"{host.sys}/block/{name}"
    if spec.get("model") and (model := host.read(f"{base}/device/model")) != spec["model"]:
        raise Refused(f"{what}: /dev/{name} is a {model!r}, the inventory says {spec['model']!r}")
    if host.is_behind_usb(name):
        raise Refused(f"{what}: /dev/{name} is behind a USB bridge, whose serial may not be the drive's")
    if (interface == "nvme") != name.startswith("nvme"):
        found = "an NVMe drive" if name.startswith("nvme") else "no NVMe drive"
        raise Refused(f"{what}: /dev/{name} is {found}, the inventory says {interface}")
    if interface != "nvme" and host.require(f"{base}/queue/rotational") != ROTATIONAL[interface]:
        turns = "does not rotate" if interface == "hdd" else "rotates"
        raise Refused(f"{what}: /dev/{name} {turns}, the inventory says {interface}")
    for attribute in ("removable", "ro"):
        if host.require(f"{base}/{attribute}") != "0":
            words = {"removable": "is removable", "ro": "is read-only"}[attribute]
            raise Refused(f"{what}: /dev/{name} {words}; a drive under test is not")


def check_size(what, device, size_bytes, declared):
    """Refuse a device of another size than the declared one."""
    if size_bytes != declared:
        raise Refused(f"{what}: {device} has {size_bytes} bytes, the inventory says {declared}")


def nvdimm_region(spec, host=None):
    """Return ndctl's record of the region that lies on the declared NVDIMM, or on the declared set.

    The record is {dev, size, namespaces}. Raises Refused.
    """
    name = _find_region(spec, host or Host())
    listing = run_json(["ndctl", "list", "-R", "-N", f"--region={name}"])
    regions = listing.get("regions", []) if isinstance(listing, dict) else listing or []
    for region in regions:
        if region.get("dev") == name:
            return region
    raise Refused(f"{spec['name']}: ndctl does not list {name}")


def _find_region(spec, host):
    """Return the kernel name of the region that the declared NVDIMM is. Raises Refused.

    It is known by the ids of the DIMMs that it lies on, joined by `+` where it is interleaved over
    several, or, of one that memmap= made, by where in memory it starts.
    """
    what = spec["name"]
    found = {serial: name for name, serial in regions(host)}
    name = next((one for serial, one in found.items() if _dimms(serial) == _dimms(spec["serial"])), None)
    if name is None:
        present = ", ".join(sorted(found)) or "none"
        raise Refused(f"{what}: no NVDIMM {spec['serial']!r} on this host; present: {present}")
    check_size(what, name, region_bytes(name, host), spec["size_bytes"])
    return name


def _dimms(serial):
    return sorted(serial.split("+"))


def region_bytes(name, host):
    """Return the size of a region of persistent memory."""
    return int(host.read(f"{host.sys}/bus/nd/devices/{name}/size", "0"))


def region_devices(name, host):
    """Return the kernel names of the block devices on a region of persistent memory."""
    return [
        one
        for one in sorted(os.listdir(f"{host.sys}/block"))
        if f"/{name}/" in os.path.realpath(f"{host.sys}/block/{one}")
    ]


def regions(host):
    """Yield (name, serial) of each region of persistent memory, as the kernel has it in /sys."""
    base = f"{host.sys}/bus/nd/devices"
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        place = os.path.realpath(f"{base}/{name}")
        if not re.fullmatch(r"region\d+", name):
            continue
        if host.read(f"{os.path.dirname(place)}/provider") == "e820":
            yield name, E820 + host.read(f"{place}/resource", "?")
            continue
        mappings = [
            host.read(f"{place}/mapping{number}", "").split(",")[0]
            for number in range(int(host.read(f"{place}/mappings", "0")))
        ]
        ids = [host.read(f"{base}/{dimm}/nfit/id") or dimm for dimm in mappings]
        if ids:
            yield name, "+".join(ids)


def _find_nvdimm(spec, host):
    """Return the kernel name of the block device of the declared NVDIMM. Raises Refused."""
    region = _find_region(spec, host)
    found = region_devices(region, host)
    if len(found) > 1:
        raise Refused(f"{spec['name']}: {region} has several block devices: {', '.join(found)}")
    if not found:
        raise Refused(f"{spec['name']}: {region} has no block device; the campaign that needs it makes it")
    return found[0]


def _find_ram(spec, host):
    """Return the name of the RAM block device that `spec` declares.

    It is brd's, whose devices have a separate major number. Raises Refused.
    """
    name = spec["serial"]
    if not (host.read(f"{host.sys}/block/{name}/dev") or "").startswith(RAM_MAJOR):
        raise Refused(
            f"{spec['name']}: no RAM block device {name!r} on this host; playbooks/provision.yml makes it"
        )
    check_size(spec["name"], f"/dev/{name}", host.size_bytes(name), spec["size_bytes"])
    return name


def array_link(name, host=None):
    """Return the link to an array: udev's of md, else the rig's own."""
    host = host or Host()
    path = f"{host.dev}/md/{name}"
    return path if os.path.exists(path) else f"{host.dev}/joulerig/{name}"


def find_array(name, host=None):
    """Return the kernel name of the array `name`. Raises Refused."""
    path = array_link(name, host)
    if not os.path.exists(path):
        raise Refused(f"{name}: no such array on this host; a campaign that needs it makes it")
    return os.path.basename(os.path.realpath(path))


def check_array(name, members, host=None):
    """Check the array `name` and return its kernel name.

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
