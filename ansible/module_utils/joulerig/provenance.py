# SPDX-License-Identifier: GPL-3.0-or-later
"""What a result was obtained with: kernel, tools, the drive's model, firmware and health."""

import os
import platform

from ansible.module_utils.joulerig import kernel
from ansible.module_utils.joulerig.drives import health_log
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.tools import run, run_json, version

TOOLS = {
    "fio": ["fio", "--version"],
    "nvme-cli": ["nvme", "version"],
    "smartmontools": ["smartctl", "--version"],
    "mdadm": ["mdadm", "--version"],
}


def host():
    """Describe this host: kernel, its command line, tools and processor."""
    system = Host()
    model = [
        line.split(":", 1)[1].strip()
        for line in (system.read("/proc/cpuinfo") or "").splitlines()
        if line.startswith("model name")
    ]
    return {
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "tick_hertz": kernel.tick_hertz(system, platform.release()),
        "command_line": system.read("/proc/cmdline"),
        "machine": platform.machine(),
        "cpu": model[0] if model else None,
        "cpus": os.cpu_count(),
        "virtualisation": system.read("/sys/class/dmi/id/sys_vendor"),
        "boot_id": system.read("/proc/sys/kernel/random/boot_id"),
        "tools": {name: version(command) for name, command in TOOLS.items()},
    }


def drive(name, interface):
    """Read the identity that a drive's firmware reports."""
    system = Host()
    base = f"{system.sys}/block/{name}/device"
    return {
        "device": f"/dev/{name}",
        "model": system.read(f"{base}/model"),
        "firmware": system.read(f"{base}/firmware_rev") or system.read(f"{base}/rev"),
        "serial": system.serial(name),
        "wwn": system.wwn(name),
        "size_bytes": system.size_bytes(name),
        "logical_block_bytes": int(system.read(f"{system.sys}/block/{name}/queue/logical_block_size", "0")),
        "interface": interface,
        **({"emulated": by} if (by := _emulated(system, name)) else {}),
        **({"paths": paths} if (paths := system.paths(name)) else {}),
        **({"protection": kind} if (kind := _protection(system, name)) else {}),
    }


def _protection(system, name):
    """Return the kind of protection information of a drive, as the kernel has it; None of most."""
    kind = system.read(f"{system.sys}/block/{name}/integrity/format", "none")
    return None if kind in ("", "none", "nop") else kind


def _emulated(system, name):
    """Return what plays a disk and how, as the kernel has it; None for a real one."""
    if system.debug_adapter(name) is None:
        return None
    delay = int(system.read(f"{system.sys}/module/scsi_debug/parameters/ndelay", "0"))
    return f"scsi_debug, {delay / 1e6:g} ms a request"


def array(name):
    """Describe an array as the kernel runs it, of md or of the device mapper.

    `sync_action` and `resync_start` are of an md array with redundancy. A table has no keys.
    """
    system = Host()
    base = f"{system.sys}/block/{name}/md"
    found = {
        key: system.read(f"{base}/{key}")
        for key in (
            "level", "raid_disks", "layout", "chunk_size", "consistency_policy", "degraded", "sync_action",
            "resync_start", "stripe_cache_size",
        )
    }  # fmt: skip
    found["bitmap"] = system.read(f"{base}/bitmap/location")
    mapped = system.read(f"{system.sys}/block/{name}/dm/name")
    if mapped:
        found["name"], found["table"] = mapped, run(["dmsetup", "table", mapped]).strip()
    return {key: value for key, value in found.items() if value is not None}


def health(name, interface):
    """Return the drive's own health report, or None where it has none.

    Of an NVMe drive its log by the names that nvme-cli gives the fields, with what is used of
    OCP's extended one where it has that; else smartctl's JSON.
    """
    if interface == "nvme":
        system = Host()
        try:
            with system.opened(name) as descriptor:
                found = health_log.parse(system.calls.nvme_health(descriptor))
                try:
                    extended = system.calls.nvme_extended_health(descriptor)
                except OSError:  # most drives
                    return found
                return {**found, **health_log.parse_extended(extended)}
        except OSError:
            return None
    if interface in ("sata-ssd", "hdd"):
        return run_json(["smartctl", "--json", "--all", "--log=devstat", f"/dev/{name}"])
    return None
