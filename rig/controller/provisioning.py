# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether virtual hosts are provisioned already, as the lab and the rig's code ask for now."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.controller import services
from joulerig.rig.lab import packages, virtual
from joulerig.rig.lab.model import Lab

# Role `provisioned` writes it last; a boot, a release and retire.yml remove it.
MARK = "/run/joulerig/provisioned"
LOOK = f"systemctl is-active --quiet iod.service && cat {MARK}"
SECONDS = 30.0


def facts(lab: Lab, host: str) -> dict[str, Any]:
    """Return the facts that the roles of a test host need, with the mark that they leave."""
    found = {
        **services.deployment(lab, host),
        "rig_filesystem_packages": packages.for_filesystems(lab),
    }
    return {**found, "rig_provisioned": _mark(lab, found)}


def is_current(lab: Lab) -> bool:
    """Return whether every host has the mark that provisioning would leave now.

    Only virtual hosts can be: on a physical one others change things too.
    """
    return bool(lab.hosts) and all(
        spec.virtual and _found(host) == facts(lab, host)["rig_provisioned"]
        for host, spec in lab.hosts.items()
    )


def _found(host: str) -> str:
    try:
        done = subprocess.run(
            [*virtual.ssh_command(host), LOOK],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip()


def _mark(lab: Lab, found: dict[str, Any]) -> str:
    """Return the digest of all that provisioning depends on."""
    digest = hashlib.sha256(lab.model_dump_json().encode())
    digest.update(json.dumps(found, sort_keys=True).encode())
    share = paths.share()
    for path in [*_code(share / "ansible"), share / "playbooks" / "provision.yml", paths.programs() / "iod"]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _code(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".md", ".pyc"))
