# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole disks of a host, as its kernel and they themselves describe them."""

from __future__ import annotations

import glob
import os
import re
import struct
from collections.abc import Mapping
from typing import Any, Dict

from ansible.module_utils.joulerig.drives import identity, usage
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.uses import processes
from ansible.module_utils.joulerig.settings import features, places
from ansible.module_utils.joulerig.tools import Refused, run_json

Facts = Dict[str, Any]
# Bytes of NVMe's Identify Controller (NVM Express 2.0).
MULTIPATH, WRITE_CACHE = 76, 525


def look(host: Host) -> list[Facts]:
    """Return the facts of each whole disk, in order of their names; no two need be alike."""
    opened = _opened(host)
    return [disk(host, name, opened) for name in host.block_devices()]


def nvdimms(host: Host) -> list[Facts]:
    """Return the facts of each region of persistent memory: an NVDIMM, or an interleaved set."""
    found, opened = [], _opened(host)
    for region, serial in identity.regions(host):
        devices = identity.region_devices(region, host)
        uses = [f"/dev/{name}: {use}" for name in devices if (use := in_use(host, name, opened))]
        size = identity.region_bytes(region, host)
        found.append({"serial": serial, "size_bytes": size, "devices": devices, "use": "; ".join(uses)})
    return found


def declared(host: Host, drives: Mapping[str, Mapping[str, Any]]) -> dict[str, Facts]:
    """Return, of each declared drive, its kernel name and why a campaign would refuse it."""
    found, opened = {}, _opened(host) if drives else None
    for name, spec in drives.items():
        device = ""
        try:
            device = identity.find({**spec, "name": name}, host)
            _check(name, device, host, opened)
            problem = ""
        except Refused as refusal:
            problem = str(refusal).partition(": ")[2]
        found[name] = {"device": device, "problem": problem}
    return found


def disk(host: Host, name: str, opened: processes.Opened | None = None) -> Facts:
    """Return what identifies a disk, who uses it, and how its power and its queue are set.

    What cannot be read is None, or left out of a mapping. `opened`: what processes have open.
    """
    base = f"{host.sys}/block/{name}"
    real = os.path.realpath(base)
    bus = transport(name, real)
    return {
        "device": name,
        "transport": bus,
        "model": host.read(f"{base}/device/model"),
        "serial": host.serial(name),
        "wwn": host.wwn(name),
        "size_bytes": host.size_bytes(name),
        "sector_bytes": _number(host.read(f"{base}/queue/logical_block_size")),
        "rotates": host.read(f"{base}/queue/rotational") == "1",
        "removable": host.read(f"{base}/removable") == "1",
        "read_only": host.read(f"{base}/ro") == "1",
        "use": in_use(host, name, opened),
        "schedulers": (host.read(f"{base}/queue/scheduler") or "").replace("[", "").replace("]", "").split(),
        "write_cache": host.read(f"{base}/queue/write_cache"),
        "paths": host.paths(name),
        "namespaces": _namespaces(host, name),
        "runtime_pm": places.runtime_pm(host, name),
        "link_power": host.read(link) if (link := places.link_power_file(host, name)) else None,
        "own": _own(host, name, bus),
    }


def transport(name: str, real: str) -> str:
    """Return how a disk is reached: "nvme", "ata", "usb", "sas", "virtual" or "scsi"."""
    words = real.split("/")
    if name.startswith("nvme"):
        return "nvme"
    if "/usb" in real:
        return "usb"
    if any(re.fullmatch(r"ata\d+", word) for word in words):
        return "ata"
    if any(re.fullmatch(r"end_device-.*", word) for word in words):
        return "sas"
    return "virtual" if "virtual" in words or any(word.startswith("virtio") for word in words) else "scsi"


def in_use(host: Host, name: str, opened: processes.Opened | None = None) -> str:
    """Return what uses a disk now, or that it could not be found out; "" where nothing does."""
    try:
        _check("disk", name, host, opened)
    except Refused as refusal:
        return str(refusal).partition(": ")[2]
    return ""


def _opened(host: Host) -> processes.Opened | None:
    """Return what processes have open, once for all disks; None where they cannot be looked at.

    Each disk's check says why, then.
    """
    try:
        return processes.Opened(host)
    except Refused:
        return None


def _check(what: str, name: str, host: Host, opened: processes.Opened | None) -> None:
    usage.check_unused(what, name, host)
    usage.check_unopened([(what, name)], host, opened)
    usage.check_unnamed([(what, name, ())], host)


def _namespaces(host: Host, name: str) -> int:
    """Return how many namespaces the NVMe drive of a disk has; 1 for any other disk."""
    found = re.fullmatch(r"nvme(\d+)n\d+", name)
    if not found:
        return 1
    pattern = re.compile(rf"nvme{found[1]}n\d+")
    return sum(pattern.fullmatch(one) is not None for one in os.listdir(f"{host.sys}/block"))


def _own(host: Host, name: str, bus: str) -> Facts:
    """Return what a disk says of itself: its power states, timers and health.

    Empty where it gives no answer.
    """
    found: Facts = {}
    try:
        descriptor = host.calls.open(f"{host.dev}/{name}")
    except OSError:
        return found
    try:
        if bus == "nvme":
            _read_nvme(host, descriptor, name, found)
        elif bus == "ata":
            _read_ata(host, descriptor, found)
    except (OSError, struct.error, IndexError):
        pass
    finally:
        host.calls.close(descriptor)
    if bus in ("ata", "sas"):  # the tool is there once the host is provisioned
        report = run_json(["smartctl", "--json", "--health", "--nocheck=standby", f"{host.dev}/{name}"])
        if (verdict := passed(report)) is not None:
            found["passed"] = verdict
    return found


def passed(report: Any) -> bool | None:
    """Return a disk's own verdict on its health, from smartctl's JSON; None where it has none."""
    status = report.get("smart_status") if isinstance(report, dict) else None
    return bool(status["passed"]) if isinstance(status, dict) and "passed" in status else None


def _read_nvme(host: Host, descriptor: int, name: str, found: Facts) -> None:
    controller = host.calls.nvme_controller(descriptor)
    found["power_states"] = controller[features.STATES] + 1
    found["autonomous"] = features.has_autonomous(controller)
    found["several_ports"] = bool(controller[MULTIPATH] & 1)
    found["write_cache"] = bool(controller[WRITE_CACHE] & 1)
    for path in sorted(glob.glob(f"{host.sys}/block/{name}/device/power/pm_qos_latency_tolerance_us")):
        found["latency_tolerance"] = host.read(path)
    health = host.calls.nvme_health(descriptor)
    found["critical_warning"] = health[0]
    found["temperature_celsius"] = int.from_bytes(health[1:3], "little") - 273
    found["available_spare"], found["spare_threshold"], found["percentage_used"] = health[3:6]
    found["media_errors"] = int.from_bytes(health[160:176], "little")


def _read_ata(host: Host, descriptor: int, found: Facts) -> None:
    words = features.ata_words(host.calls.kept_ata_identity(descriptor))
    found["apm"] = features.apm(words)
    found["extended_power"] = features.has_extended_power(words)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
