# SPDX-License-Identifier: GPL-3.0-or-later
"""md arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.wipe_lease import Lease
from ansible.module_utils.joulerig.tools import Failed, Unable, run

WITHOUT_REDUNDANCY = ("linear", "raid0")
WITHOUT_CHUNKS = ("linear", "raid1")


def check(level: str, host: Host) -> None:
    """Refuse a level that this kernel cannot do, loading its module if need be: 6.8 lost linear."""
    if not _knows(level, host):
        with contextlib.suppress(Failed):
            run(["modprobe", "--quiet", f"md-{level}"])
        if not _knows(level, host):
            raise Unable(f"this kernel has no md arrays of level {level}")


def _knows(level: str, host: Host) -> bool:
    text = host.read(f"{host.proc}/mdstat", "")
    return f"[{level}]" in text.partition("\n")[0]


def device(name: str, host: Host) -> str:
    return f"{host.dev}/md/{name}"


def start(_asked: Mapping[str, Any], _host: Host) -> None:
    """Do nothing: udev assembles md arrays."""


def difference(asked: Mapping[str, Any], kernel_name: str, host: Host) -> str:
    base = f"{host.sys}/block/{kernel_name}/md"
    if (found := host.read(f"{base}/level")) != asked["level"]:
        return f"is {found}, the inventory says {asked['level']}"
    if asked["level"] in WITHOUT_CHUNKS:
        return ""
    chunk = int(host.read(f"{base}/chunk_size", "0")) // 1024
    if chunk != asked["chunk_kib"]:
        return f"has chunks of {chunk} KiB, the inventory says {asked['chunk_kib']}"
    return ""


def create(asked: Mapping[str, Any], leases: Sequence[Lease], identifiers: Sequence[str]) -> None:
    """Create an array; one with redundancy as clean."""
    level, name = asked["level"], asked["name"]
    chunk = [] if level in WITHOUT_CHUNKS else [f"--chunk={asked['chunk_kib']}"]
    clean = [] if level in WITHOUT_REDUNDANCY else ["--assume-clean"]
    # mdadm gets the open devices: a name may lead elsewhere by now.
    run(
        ["mdadm", "--create", f"/dev/md/{name}", "--run", "--quiet", "--homehost=any", f"--name={name}",
         f"--uuid={identifiers[0]}", f"--level={level}", *chunk, *clean, f"--raid-devices={len(leases)}",
         *(f"/proc/self/fd/{lease.descriptor}" for lease in leases)],
        pass_fds=[lease.descriptor for lease in leases],
    )  # fmt: skip


def stop(_name: str, path: str) -> None:
    run(["mdadm", "--stop", path])


def unmark(path: str) -> None:
    run(["mdadm", "--zero-superblock", path])
