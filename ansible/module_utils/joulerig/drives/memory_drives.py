# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that the kernel makes of memory: a RAM block device (brd) and emulated disks (scsi_debug).

Each is a module with parameters. One that is loaded already is never reloaded here: it may hold
another program's data.
"""

import os
import time

from ansible.module_utils.joulerig.drives import identity, wipe_lease
from ansible.module_utils.joulerig.drives.host import SCSI_DEBUG
from ansible.module_utils.joulerig.tools import Refused, run

MIB = 1 << 20
# scsi_debug counts the hosts that it has yet to add: it reads 0 once they are there.
COUNTED_DOWN = ("add_host",)
# What a host must keep for itself in addition to the drives' memory.
SPARE_BYTES = 256 * MIB
APPEAR_SECONDS = 30.0


def wanted(drives, emulated):
    """Return what the declared `drives` (by name) ask for: {module: (parameters, drives)}.

    `emulated`: the host's {access_milliseconds}, or None.
    """
    specs = [{**spec, "name": name} for name, spec in drives.items()]
    ram = [spec for spec in specs if spec["interface"] == "ram"]
    disks = [spec for spec in specs if spec["serial"].startswith(SCSI_DEBUG)]
    found = {}
    if ram:
        found["brd"] = ({"rd_nr": 1, "rd_size": ram[0]["size_bytes"] // 1024}, ram)
    if disks:
        parameters = {
            "add_host": len(disks),
            "per_host_store": "Y",  # else all disks would be one and the same memory
            "dev_size_mb": disks[0]["size_bytes"] // MIB,
            "ndelay": round(emulated["access_milliseconds"] * 1e6),
        }
        found["scsi_debug"] = (parameters, disks)
    return found


def is_loaded(module, parameters, specs, host):
    """Check whether the module is loaded with these parameters and drives.

    Raises Refused where it has others.
    """
    base = f"{host.sys}/module/{module}"
    if not os.path.isdir(base):
        return False
    for key, value in parameters.items():
        now = host.read(f"{base}/parameters/{key}", str(value))
        if now != str(value) and key not in COUNTED_DOWN:
            raise Refused(
                f"{specs[0]['name']}: {module} is loaded with {key}={now}, the inventory says {value};"
                f" take it down first (modprobe --remove {module})"
            )
    for spec in specs:
        identity.find(spec, host)
    return True


def load(module, parameters, specs, host):
    """Load the module and see that every drive is there.

    Raises Refused where there is not the memory.
    """
    size = sum(spec["size_bytes"] for spec in specs)
    available = _available_bytes(host)
    if size + SPARE_BYTES > available:
        raise Refused(
            f"{specs[0]['name']}: {module} would take {size // MIB} MiB; this host has"
            f" {available // MIB} MiB available and keeps {SPARE_BYTES // MIB} MiB"
        )
    run(["modprobe", module, *(f"{key}={value}" for key, value in parameters.items())])
    _await_all(specs, host)
    _set_one_at_a_time(specs, host)


def _set_one_at_a_time(specs, host):
    """Limit each disk to one request at a time: a disk has one actuator.

    Not by max_queue: scsi_debug aborts the excess, and md drops members.
    """
    for spec in specs:
        path = f"{host.sys}/block/{identity.find(spec, host)}/device/queue_depth"
        if os.path.exists(path):
            with open(path, "w") as file:
                file.write("1")


def _await_all(specs, host):
    """Wait until every drive is found: a disk is there some time before its size is."""
    end = time.monotonic() + APPEAR_SECONDS
    while True:
        try:
            run(["udevadm", "settle", "--timeout=30"])
            for spec in specs:
                identity.find(spec, host)
            return
        except Refused:
            if time.monotonic() >= end:
                raise
        time.sleep(0.2)


def unload(module, specs, host):
    """Take the module away, and its drives' content with it.

    Each drive is under a wipe lease. Raises Refused.
    """
    with wipe_lease.together([wipe_lease.lease_drive(spec, host) for spec in specs]):
        pass  # the module stays while its drives are open
    run(["modprobe", "--remove", module])


def _available_bytes(host):
    for line in (host.read(f"{host.proc}/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise Refused("/proc/meminfo: has no MemAvailable")
