# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of test hosts, as module joulerig_facts gives them, of a host that has nothing wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from joulerig.rig.doctor.asking import Facts

GIB = 1 << 30
NOW_NS = 1_764_072_000 * 10**9  # 2025-11-25 12:00 UTC, by the clocks of host and controller


def disk(device: str = "nvme0n1", **more: Any) -> dict[str, Any]:
    """Facts of a disk: of an NVMe drive, or as `more` says."""
    found: dict[str, Any] = {
        "device": device, "transport": "nvme", "model": "FAST 960", "serial": "S3HCNX0K401234",
        "wwn": "eui.36344830584012340025384300000001", "size_bytes": 960197124096, "sector_bytes": 512,
        "rotates": False, "removable": False, "read_only": False, "use": "", "schedulers": ["none", "bfq"],
        "write_cache": "write back", "paths": [], "namespaces": 1, "runtime_pm": {"0000:01:00.0": "on"},
        "link_power": None,
        "own": {
            "power_states": 5, "autonomous": True, "several_ports": False, "write_cache": True,
            "critical_warning": 0, "temperature_celsius": 38, "available_spare": 100, "spare_threshold": 10,
            "percentage_used": 2, "media_errors": 0,
        },
    }  # fmt: skip
    return {**found, **more}


def hard_disk(device: str = "sda", **more: Any) -> dict[str, Any]:
    """Facts of a hard disk on SATA."""
    own = {"apm": None, "extended_power": False, "passed": True}
    kind = {
        "transport": "ata", "rotates": True, "link_power": "max_performance", "own": own,
        "runtime_pm": {"0:0:0:0": "on"}, "model": "SLOW 4000", "serial": "ZC10A1B2",
        "wwn": "naa.5000c500a1b2c3d4", "size_bytes": 4000787030016,
    }  # fmt: skip
    return disk(device, **{**kind, **more})


def machine(**more: dict[str, Any]) -> dict[str, Any]:
    """Facts of a machine; `more` changes keys of its subjects."""
    found: dict[str, Any] = {
        "system": {
            "kernel": "6.1.0-31-amd64", "machine": "x86_64", "python": [3, 11], "distribution": "debian",
            "family": "debian", "version": "12", "user": 0, "systemd": True, "memory_bytes": 32 * GIB,
            "controller": "192.0.2.1", "command_line": "quiet",
        },
        "clock": {
            "now_ns": NOW_NS, "kept_by": ["chronyd"], "synchronised": True, "error_microseconds": 90,
        },
        "processor": {
            "driver": "intel_pstate", "governors": {"performance": 8}, "turbo": False,
            "idle_driver": "intel_idle",
            "idle_states": [
                {"name": "POLL", "latency_microseconds": 0, "disabled": False},
                {"name": "C6", "latency_microseconds": 133, "disabled": True},
            ],
        },
        "buses": {"aspm": "performance", "apst_latency": "0", "nvme_multipath": False},
        "interrupts": {"balanced": False},
        "units": {"fstrim.timer": "active"},
        "space": {"/": 40 * GIB, "/var/lib": 40 * GIB, "/tmp": 40 * GIB},
        "users": {
            "reservations": [], "runs": [], "logged_in": [], "load": 0.05, "processors": 8, "machines": [],
        },
        "lacking": {"checks": [], "fence": ""},
        "unreached": {},
    }  # fmt: skip
    return {subject: {**values, **more.get(subject, {})} for subject, values in found.items()}


def facts(
    *disks: dict[str, Any],
    problems: dict[str, str] | None = None,
    nvdimms: Sequence[dict[str, Any]] = (),
    **subjects: dict[str, Any],
) -> Facts:
    """Facts of a host with these disks, which are its declared drives `fast` and `hdd-1`.

    `problems`: why a declared drive is refused, by name.
    """
    there = list(disks) or [disk(), hard_disk()]
    names = {"nvme0n1": "fast", "sda": "hdd-1"}
    known = [one["device"] for one in there if one["device"] in names]
    declared = {names[device]: {"device": device, "problem": ""} for device in known}
    for name, problem in (problems or {}).items():
        declared[name] = {"device": "", "problem": problem}
    return Facts(machine(**subjects), there, declared, list(nvdimms))
