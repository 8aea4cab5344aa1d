# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is, how its processor's and its buses' power is managed, and who else uses it."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import socket
import struct
import sys
import time
from collections.abc import Sequence, Set
from typing import Any, Dict

from ansible.module_utils.joulerig import distribution, paths, reservation
from ansible.module_utils.joulerig.changes import units
from ansible.module_utils.joulerig.detached import calls
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.facts import checks
from ansible.module_utils.joulerig.settings import record
from ansible.module_utils.joulerig.tools import Failed, Refused

Facts = Dict[str, Any]
# struct timex of <linux/timex.h>, as 64-bit processors have it: where the fields are that are read.
TIMEX_BYTES, MAXERROR, STATUS = 208, 24, 40
UNSYNCHRONISED = 0x40  # STA_UNSYNC
CLOCK_PROGRAMS = ("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys")  # as /proc names them
# struct utmp of <bits/utmp.h>: a record's size, and where its fields are.
UTMP_BYTES, USER_PROCESS = 384, 7
CONNECT_SECONDS = 3.0


def look(host: Host, names: Sequence[str], addresses: Sequence[str], logins: str = "/run/utmp") -> Facts:
    """Return the facts of this host.

    `names`: background units to ask for. `addresses`: HOST:PORT (TCP) that it has to reach.
    """
    running = programs(host)
    return {
        "system": system(host),
        "clock": clock(running),
        "processor": record.processor(host),
        "buses": record.buses(host),
        "interrupts": {"balanced": "irqbalance" in running},
        "units": background(names),
        "space": space(("/", _existing(paths.STATE), "/tmp")),
        "users": users(host, logins, running),
        "lacking": {"checks": checks.lacking(host), "fence": checks.fence_problem()},
        "unreached": {one: why for one in addresses if (why := unreached(one))},
    }


def system(host: Host) -> Facts:
    """Return what runs here, and as whom this code does."""
    release = distribution.release(host.etc)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", host.read(f"{host.proc}/meminfo") or "", re.MULTILINE)
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": list(sys.version_info[:2]),
        "distribution": release.get("ID", ""),
        "family": distribution.family(host.etc),
        "version": release.get("VERSION_ID", ""),
        "user": os.geteuid(),
        "systemd": os.path.isdir("/run/systemd/system"),
        "memory_bytes": int(memory[1]) * 1024 if memory else 0,
        "controller": client_address(host),
        "command_line": host.read(f"{host.proc}/cmdline") or "",
    }


def client_address(host: Host, process: int | None = None) -> str:
    """Return the address from which the controller came here by SSH; "" for another way.

    sudo takes it away from the environment of what it starts: a process above has it.
    """
    process = process or os.getpid()
    while process > 1:
        try:
            with open(f"{host.proc}/{process}/environ", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            return ""
        for word in words:
            if word.startswith(b"SSH_CONNECTION="):
                return word.decode("ascii", "replace").partition("=")[2].split(" ")[0]
        fields = (host.read(f"{host.proc}/{process}/stat") or "").rpartition(")")[2].split()
        process = int(fields[1]) if len(fields) > 1 else 0
    return ""


def programs(host: Host) -> set[str]:
    """Return the names of all processes, as the kernel cuts them: 15 letters."""
    numbers = (name for name in os.listdir(host.proc) if name.isdigit())
    return {host.read(f"{host.proc}/{number}/comm") or "" for number in numbers}


def clock(running: Set[str]) -> Facts:
    """Return the time, which of the programs `running` keeps it, and its error by the kernel."""
    found = {"now_ns": time.time_ns(), "kept_by": sorted(running & set(CLOCK_PROGRAMS))}
    state = ctypes.create_string_buffer(TIMEX_BYTES)
    try:
        ctypes.CDLL(None).adjtimex(state)
    except (OSError, AttributeError):
        return found
    (error,) = struct.unpack_from("@q", state.raw, MAXERROR)
    (status,) = struct.unpack_from("@i", state.raw, STATUS)
    return {**found, "synchronised": not status & UNSYNCHRONISED, "error_microseconds": error}


def background(names: Sequence[str]) -> dict[str, str]:
    """Return the state of those units that this host has and does not mask."""
    try:
        found = units.look(names) if names else {}
    except Failed:
        return {}
    there = {name: one for name, one in found.items() if one["file"]}
    return {name: one["active"] for name, one in there.items() if not one["file"].startswith(units.MASKED)}


def users(host: Host, logins: str, running: Set[str]) -> Facts:
    """Return who has the host, what of the rig's is in progress, who is logged in, and its load."""
    try:
        held = [{key: one[key] for key in ("owner", "purpose", "campaign")} for one in reservation.held()]
        runs = [one["name"] for one in calls.listed() if one["runs"]]
    except (Refused, Failed, OSError, KeyError):
        held, runs = [], []
    load = (host.read(f"{host.proc}/loadavg") or "0").split()[0]
    machines = sorted({name for name in running if name.startswith(("qemu-system", "kvm"))})
    return {
        "reservations": held,
        "runs": runs,
        "logged_in": logged_in(logins),
        "load": float(load),
        "processors": os.cpu_count(),
        "machines": machines,
    }


def logged_in(path: str) -> list[str]:
    """Return who is logged in at a terminal, from the system's record of logins."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    found = set()
    for start in range(0, len(data) - UTMP_BYTES + 1, UTMP_BYTES):
        (kind,) = struct.unpack_from("@h", data, start)
        if kind == USER_PROCESS:
            found.add(data[start + 44 : start + 76].split(b"\0")[0].decode("utf-8", "replace"))
    return sorted(found)


def space(places: Sequence[str]) -> dict[str, int]:
    """Return the free bytes of the file systems on which paths lie, each by the first of them."""
    found: dict[int, tuple[str, int]] = {}
    for place in places:
        state = os.statvfs(place)
        found.setdefault(os.stat(place).st_dev, (place, state.f_bavail * state.f_frsize))
    return dict(found.values())


def unreached(address: str) -> str:
    """Return why HOST:PORT is not reached by TCP, or an empty text."""
    name, _, port = address.rpartition(":")
    try:
        socket.create_connection((name.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _existing(path: str) -> str:
    """Return a path, or the nearest folder above it that there is."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path
