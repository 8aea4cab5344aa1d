# SPDX-License-Identifier: GPL-3.0-or-later
"""How power is managed on a host and on its drives, for each run's settings and for the doctor.

What a kernel or a drive does not have is None, or left out of a mapping.
"""

from __future__ import annotations

import collections
import glob
import os
import re
import struct
from typing import Any, Dict

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.settings import features, places

Facts = Dict[str, Any]


def host(system: Host) -> Facts:
    """Return how the power of the host's processors and links is managed."""
    return {"processor": processor(system), **buses(system)}


def processor(system: Host) -> Facts:
    """Return governors, whether it may go above its base clock, its idle states and their limit."""
    base = f"{system.sys}/devices/system/cpu"
    governors: collections.Counter[str] = collections.Counter()
    limits: set[str] = set()
    for name in _numbered(base, "cpu"):
        if governor := system.read(f"{base}/{name}/cpufreq/scaling_governor"):
            governors[governor] += 1
        if limit := system.read(f"{base}/{name}/power/pm_qos_resume_latency_us"):
            limits.add(limit)
    states = []
    for name in _numbered(f"{base}/cpu0/cpuidle", "state"):
        place = f"{base}/cpu0/cpuidle/{name}"
        states.append(
            {
                "name": system.read(f"{place}/name"),
                "latency_microseconds": int(system.read(f"{place}/latency", "0")),
                "disabled": system.read(f"{place}/disable") == "1",
            }
        )
    turbo = None
    if (without := system.read(f"{base}/intel_pstate/no_turbo")) is not None:
        turbo = without == "0"
    elif (boost := system.read(f"{base}/cpufreq/boost")) is not None:
        turbo = boost == "1"
    return {
        "driver": system.read(f"{base}/cpu0/cpufreq/scaling_driver"),
        "governors": dict(governors),
        "turbo": turbo,
        "idle_driver": system.read(f"{base}/cpuidle/current_driver"),
        "idle_states": states,
        "idle_latency_limits": sorted(limits),  # the kernel's: "0" is none, "n/a" allows no sleep
    }


def buses(system: Host) -> Facts:
    """Return how links of PCIe and states of NVMe drives are managed, for the whole host."""
    modules = f"{system.sys}/module"
    policy = system.read(f"{modules}/pcie_aspm/parameters/policy") or ""
    chosen = re.search(r"\[(\w+)\]", policy)
    return {
        "aspm": chosen[1] if chosen else None,
        "apst_latency": system.read(f"{modules}/nvme_core/parameters/default_ps_max_latency_us"),
        "nvme_multipath": system.read(f"{modules}/nvme_core/parameters/multipath") == "Y",
    }


def drive(system: Host, name: str) -> Facts:
    """Return how the power of a disk, of its link and of what it hangs on is managed."""
    link = places.link_power_file(system, name)
    found: Facts = {
        "runtime_pm": places.runtime_pm(system, name),
        "pcie_link": _pcie_link(system, name),
        "link_power": system.read(link) if link else None,
    }
    try:
        descriptor = system.calls.open(f"{system.dev}/{name}")
    except OSError:
        return found
    try:
        if name.startswith("nvme"):
            found.update(_nvme(system, descriptor, name))
        elif places.is_ata(system, name):
            found.update(_ata(system, descriptor))
    except (OSError, struct.error, IndexError) as error:
        found["problem"] = f"it gave no answer: {error}"
    finally:
        system.calls.close(descriptor)
    return found


def _nvme(system: Host, descriptor: int, name: str) -> Facts:
    """Return power states by their number, the one it is in, and how it rests by itself."""
    controller = system.calls.nvme_controller(descriptor)
    found: Facts = {
        "power_states": features.power_states(controller),
        "power_state": features.power_state(system, descriptor),
    }
    if features.limits_power(controller):
        value, _ = system.calls.nvme_feature(descriptor, features.POWER_LIMIT)
        found["power_limit_watts"] = features.limit_watts(value)
    if features.has_autonomous(controller):
        found["autonomous"] = features.autonomous(system, descriptor, len(found["power_states"]))
    for one in places.controllers(system, name):
        path = f"{system.sys}/class/nvme/{one}/power/pm_qos_latency_tolerance_us"
        if (tolerance := system.read(path)) is not None:
            found["latency_tolerance"] = tolerance
    return found


def _ata(system: Host, descriptor: int) -> Facts:
    """Return an ATA disk's level of advanced power management, and whether it has timers (EPC).

    A disk has no command by which its standby timer could be read.
    """
    words = features.ata_words(system.calls.ata_identity(descriptor))
    return {"apm": features.apm(words), "extended_power": features.has_extended_power(words)}


def _pcie_link(system: Host, name: str) -> dict[str, str]:
    """Return which sleeps of its PCIe link are on: {"l1_aspm": "1"}; empty on older kernels."""
    for place in places.pci_functions(system, name)[:1]:
        files = sorted(glob.glob(f"{glob.escape(place)}/link/*"))
        return {os.path.basename(one): text for one in files if (text := system.read(one)) is not None}
    return {}


def _numbered(folder: str, kind: str) -> list[str]:
    """List names of a kind with a number, in order: cpu0, cpu1, cpu10."""
    try:
        names = [name for name in os.listdir(folder) if re.fullmatch(kind + r"\d+", name)]
    except OSError:
        return []
    return sorted(names, key=lambda name: int(name[len(kind) :]))
