# SPDX-License-Identifier: GPL-3.0-or-later
"""Where in /sys the kernel has what a disk hangs on: controller, adapter, bus devices."""

from __future__ import annotations

import os
import re

from ansible.module_utils.joulerig.drives.host import Host

PCI_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
SCSI_DEVICE = re.compile(r"\d+:\d+:\d+:\d+")


def named(host: Host, name: str) -> dict[str, list[str]]:
    """Return by what the kernel names a disk and what it hangs on; nothing where it has none.

    `device`: the disk. `controller`: those of an NVMe drive (nvme0), several where it has several
    ports. `adapter`: of a SCSI or SATA disk (host0). `powered`: the devices whose
    power the kernel manages for it, by their path below /sys: a SCSI device, or the PCI functions
    of an NVMe drive.
    """
    return {
        "device": [name],
        "controller": controllers(host, name),
        "adapter": [one] if (one := adapter(host, name)) else [],
        "powered": [place[len(os.path.realpath(host.sys)) + 1 :] for place in _powered(host, name)],
    }


def controllers(host: Host, name: str) -> list[str]:
    """Return the controllers of an NVMe drive: of a multipath one those of its subsystem."""
    if not re.fullmatch(r"nvme\d+n\d+", name):
        return []
    place = os.path.realpath(f"{host.sys}/block/{name}/device")
    if re.fullmatch(r"nvme\d+", os.path.basename(place)):
        return [os.path.basename(place)]
    if not os.path.isdir(place):
        return []
    return sorted(entry for entry in os.listdir(place) if re.fullmatch(r"nvme\d+", entry))


def adapter(host: Host, name: str) -> str | None:
    """Return the SCSI host of a disk, as SATA ports are as well; None where it has none."""
    found = re.search(r"/(host\d+)/", os.path.realpath(f"{host.sys}/block/{name}") + "/")
    return found[1] if found else None


def is_ata(host: Host, name: str) -> bool:
    """Return whether a disk understands ATA: the kernel names their vendor so."""
    return host.read(f"{host.sys}/block/{name}/device/vendor") == "ATA"


def link_power_file(host: Host, name: str) -> str | None:
    """Return the path of the policy of the SATA link that a disk is on; None where it has none."""
    found = adapter(host, name)
    path = f"{host.sys}/class/scsi_host/{found}/link_power_management_policy"
    return path if found and os.path.exists(path) else None


def pci_functions(host: Host, name: str) -> list[str]:
    """Return the paths of the PCI functions above a disk, the nearest first."""
    return [place for place in _above(host, name) if PCI_FUNCTION.fullmatch(os.path.basename(place))]


def runtime_pm(host: Host, name: str) -> dict[str, str]:
    """Return the setting of runtime power management of a disk and of what it hangs on.

    By the kernel's names: {"0000:01:00.0": "on"}. `auto` lets the kernel suspend it.
    """
    found = {}
    for place in _above(host, name):
        control = host.read(f"{place}/power/control")
        own = os.path.basename(place)
        if control and (PCI_FUNCTION.fullmatch(own) or SCSI_DEVICE.fullmatch(own)):
            found[own] = control
    return found


def _powered(host: Host, name: str) -> list[str]:
    """Return the paths of the devices whose power the kernel manages for a disk."""
    if names := controllers(host, name):
        places = [os.path.realpath(f"{host.sys}/class/nvme/{one}/device") for one in names]
        return [one for one in places if PCI_FUNCTION.fullmatch(os.path.basename(one))]
    place = os.path.realpath(f"{host.sys}/block/{name}/device")
    return [place] if SCSI_DEVICE.fullmatch(os.path.basename(place)) else []


def _above(host: Host, name: str) -> list[str]:
    """Return the paths of what a disk hangs on, from its own device up to the bus."""
    real = os.path.realpath(f"{host.sys}/block/{name}")
    place = os.path.realpath(f"{real}/device") if os.path.exists(f"{real}/device") else real
    found = []
    while place.startswith(f"{os.path.realpath(host.sys)}/devices/") and place.count("/") > 2:
        found.append(place)
        place = os.path.dirname(place)
    return found
