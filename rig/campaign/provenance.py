# SPDX-License-Identifier: GPL-3.0-or-later
"""What a campaign was run with, on the controller's side: versions, revision."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import re
import subprocess
from typing import Any

import httpx

import joulerig
from joulerig import __version__
from joulerig.rig.common import paths
from joulerig.rig.controller import influxdb
from joulerig.rig.lab import virtual
from joulerig.rig.lab.meters import calibration as calibrations
from joulerig.rig.lab.meters import checks as meter_checks
from joulerig.rig.lab.model import Lab

TOOLS = {
    "libsigrok": ["sigrok-cli", "--version"],
    "qemu": ["qemu-system-x86_64", "--version"],
    "nbdkit": ["nbdkit", "--version"],
}


def controller(lab: Lab) -> dict[str, str | None]:
    """Name and version of everything on the controller that had a part in the numbers."""
    found: dict[str, str | None] = {
        "joulerig": __version__,
        "revision": revision(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "ansible-core": importlib.metadata.version("ansible-core"),
        "influxdb": _influxdb(lab),
    }
    for name, command in TOOLS.items():
        if name != "libsigrok" and not lab.virtual:
            continue
        found[name] = _libsigrok(command) if name == "libsigrok" else _first_line(command)
    return found


def revision() -> str | None:
    """Return the checkout's revision, -dirty where files differ from it; installed, the version.

    None where git gives none.
    """
    if not paths.IN_CHECKOUT:
        return joulerig.__version__
    return _first_line(["git", "-C", str(paths.ROOT), "describe", "--always", "--dirty", "--abbrev=12"])


def calibration(lab: Lab) -> dict[str, Any]:
    """Return today's calibration of each meter on a rail (`rig.lab.meters.calibration.summary`)."""
    return calibrations.provenance(lab, datetime.datetime.now(datetime.UTC).date())


def checks(lab: Lab) -> dict[str, Any]:
    """Return {"checks": each meter's newest check with a resistor}; empty where none was made."""
    found = meter_checks.newest(lab)
    return {"checks": found} if found else {}


def processors(lab: Lab) -> dict[str, Any]:
    """Return {"processors": how fast each virtual host's is}; empty for a physical lab."""
    found = virtual.processors(lab)
    return {"processors": found} if found else {}


def emulated(lab: Lab) -> dict[str, dict[str, str]]:
    """Return what emulates each emulated drive, by host and drive."""
    found: dict[str, dict[str, str]] = {}
    for host, spec in lab.hosts.items():
        for name, drive in spec.drives.items():
            if by := drive.emulated_by:
                how = f", {spec.emulated.access_milliseconds:g} ms a request" if by == "scsi_debug" else ""
                found.setdefault(host, {})[name] = by + how
    return found


def _influxdb(lab: Lab) -> str | None:
    try:
        url = f"{influxdb.access(lab, 'reader').url}/ping"
        return httpx.get(url, timeout=5, trust_env=False).headers.get("X-Influxdb-Version")
    except httpx.HTTPError:
        return None


def _libsigrok(command: list[str]) -> str | None:
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except OSError:
        return None
    match = re.search(r"libsigrok (\S+?)/", text)
    return match[1] if match else None


def _first_line(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except OSError:
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None
