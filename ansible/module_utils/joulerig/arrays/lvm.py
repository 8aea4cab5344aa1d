# SPDX-License-Identifier: GPL-3.0-or-later
"""One logical volume of LVM over all of its drives, linear or striped."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.wipe_lease import Lease
from ansible.module_utils.joulerig.tools import Failed, Unable, run

VOLUME = "array"
TARGETS = {"lvm-linear": "linear", "lvm-striped": "striped"}
# A host's list of devices that LVM may use does not have the drives under test.
ANY_DEVICE = ["--config", "devices { use_devicesfile = 0 }"]


def check(_level: str, _host: Host) -> None:
    if not shutil.which("lvcreate"):
        raise Unable("lvcreate: not found on this host")


def group(name: str) -> str:
    """Return the name of an array's volume group."""
    return f"joulerig_{name}"


def device(name: str, host: Host) -> str:
    return f"{host.dev}/{group(name)}/{VOLUME}"


def start(asked: Mapping[str, Any], host: Host) -> None:
    """Activate the volume, which udev may not have done."""
    if not os.path.exists(device(asked["name"], host)):
        try:
            _lvm("vgchange", "--activate", "y", group(asked["name"]))
        except Failed:
            return  # there is none


def difference(asked: Mapping[str, Any], kernel_name: str, host: Host) -> str:
    table = run(["dmsetup", "table", host.read(f"{host.sys}/block/{kernel_name}/dm/name", "")])
    targets = {line.split()[2] for line in table.splitlines() if len(line.split()) > 2}
    if targets != {TARGETS[asked["level"]]}:
        return f"is {' and '.join(sorted(targets))}, the inventory says {asked['level']}"
    if asked["level"] == "lvm-striped":
        chunk = int(table.split()[4]) // 2
        if chunk != asked["chunk_kib"]:
            return f"has stripes of {chunk} KiB, the inventory says {asked['chunk_kib']}"
    return ""


def create(asked: Mapping[str, Any], leases: Sequence[Lease], identifiers: Sequence[str]) -> None:
    paths = [lease.path for lease in leases]
    stripes = ["--stripes", str(len(paths)), "--stripesize", f"{asked['chunk_kib']}k"]
    for path, identifier in zip(paths, identifiers):
        digits = re.fullmatch(r"(.{6})(.{4})(.{4})(.{4})(.{4})(.{4})(.{6})", identifier)
        assert digits is not None
        uuid = "-".join(digits.groups())
        _lvm("pvcreate", "--yes", "--force", "--norestorefile", "--uuid", uuid, path)
    _lvm("vgcreate", "--yes", group(asked["name"]), *paths)
    _lvm(
        "lvcreate", "--yes", "--wipesignatures", "y", "--extents", "100%FREE", "--name", VOLUME,
        *(stripes if asked["level"] == "lvm-striped" else []), group(asked["name"]),
    )  # fmt: skip


def stop(name: str, _path: str) -> None:
    _lvm("vgremove", "--yes", "--force", group(name))


def unmark(path: str) -> None:
    _lvm("pvremove", "--yes", "--force", path)


def _lvm(command: str, *words: str) -> None:
    run([command, *ANY_DEVICE, *words], env={**os.environ, "LVM_SUPPRESS_FD_WARNINGS": "1"})
