# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the host_vars of a test host from what the host itself reads, for a person to review.

No drive in it is wiped before a person adopted it: each has `wipe_blank: false`.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from joulerig.rig.common import files, host_library, paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.doctor import asking
from joulerig.rig.lab import forms, inventory, model

host_library.find()
from ansible.module_utils.joulerig.drives import serials  # noqa: E402


@dataclass(frozen=True)
class Discovery:
    """What was found: the text of the file, names of the drives in it, and disks left out."""

    text: str
    drives: list[str]
    left_out: list[str]


def file_of(path: Path | None, host: str) -> tuple[inventory.Inventory, Path]:
    """Return the inventory, and the file of a host's variables. Raises UserError."""
    found = inventory.read(path or paths.inventory(), model.KEYS)
    if host not in found.test_hosts:
        allowed = ", ".join(found.test_hosts)
        raise UserError(
            f"{host!r} is not a test host of {paths.short(found.path)}; allowed: {allowed}; a new one is a"
            " line below [test_hosts]"
        )
    return found, found.folder / "host_vars" / f"{host}.yml"


def discover(found: inventory.Inventory, host: str) -> Discovery:
    """Ask a host, and return the file that describes it. Raises UserError."""
    answer = asking.ask(found.path, {host: {}})[host]
    if isinstance(answer, str):
        raise UserError(f"{host}: {answer}")
    return described(host, answer, datetime.datetime.now(datetime.UTC).date())


def write(path: Path, one: Discovery, *, force: bool) -> None:
    """Write the file. Raises UserError where there is one, unless it is to be replaced."""
    others = [path.with_suffix(suffix) for suffix in (".yml", ".yaml", "")]
    there = next((other for other in others if other.exists()), None)
    if there and not (force and there == path):
        ways = "--print shows what would be in it" + (", --force replaces it" if there == path else "")
        raise UserError(f"{paths.short(there)}: describes the host already; {ways}")
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, one.text)


def described(host: str, facts: asking.Facts, on: datetime.date) -> Discovery:
    """Return the file for a host with these facts."""
    counts = Counter(disk["serial"] for disk in facts.disks)
    drives: dict[str, dict[str, Any]] = {}
    left_out = []
    of_memory = {device for one in facts.nvdimms for device in one["devices"]}
    for disk in facts.disks:
        if disk["device"] in of_memory:
            continue
        if why := _unfit(disk, counts):
            left_out.append(f"{disk['device']} ({_shown(disk)}): {why}")
        else:
            kind = interface(disk)
            drives[_free_name(kind, drives)] = _entry(disk, kind)
    for one in facts.nvdimms:
        if one["use"]:
            left_out.append(f"NVDIMM {one['serial']} ({one['size_bytes']} bytes): {one['use']}")
            continue
        keys = {"interface": "nvdimm", "serial": one["serial"], "size_bytes": one["size_bytes"]}
        drives[_free_name("nvdimm", drives)] = {**keys, "plp": False, "wipe_blank": False}
    lines = [
        f"# Test host {host}, as 'rig hosts discover {host}' found it on {on}. Look through it and correct",
        "# it: names and descriptions are yours to choose. wipe_blank: false keeps a drive, also a blank",
        f"# one, until a person released it: 'rig drives adopt {host} DRIVE'.",
        *_address(facts.machine),
        "",
        "# Declare plp: true of drives with power-loss protection, and the supply rails of each, as",
        "# docs/how-to/own-bench.md shows: without rails a run has no joules.",
        *(yaml.safe_dump({"drives": _quoted(drives)}, sort_keys=False, width=1000).splitlines()),
    ]
    if left_out:
        lines += ["", "# Left out:", *(f"# - {line}" for line in left_out)]
    return Discovery("\n".join(lines) + "\n", list(drives), left_out)


def interface(disk: Mapping[str, Any]) -> str:
    """Return the kind of drive that a disk is, as an inventory has it."""
    if disk["transport"] == "nvme":
        return "nvme"
    return "hdd" if disk["rotates"] else "sata-ssd"


def _unfit(disk: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return why a disk is no drive under test, or an empty text."""
    serial = disk["serial"]
    if disk["use"]:
        return str(disk["use"])
    if disk["removable"] or disk["read_only"]:
        return "removable" if disk["removable"] else "read-only"
    if disk["transport"] == "usb":
        return "behind a USB bridge, whose serial may not be the drive's"
    if not disk["size_bytes"]:
        return "has no size"
    if not serial:
        return "reports no serial, by which it would be known"
    if serials.is_placeholder(serial):
        return "its serial is what makers put where they give none"
    if counts[serial] > 1:
        return "its serial is that of several disks: namespaces, or paths to one drive"
    return ""


def _shown(disk: Mapping[str, Any]) -> str:
    words = [disk["model"] or "", f"serial {disk['serial']}" if disk["serial"] else ""]
    return ", ".join([*filter(None, words), f"{disk['size_bytes']} bytes"])


def _free_name(kind: str, taken: Iterable[str]) -> str:
    number = 1 + sum(name.rpartition("-")[0] == kind for name in taken)
    return f"{kind}-{number}"


def _entry(disk: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the keys of a drive, in the order in which people read them."""
    found: dict[str, Any] = {"interface": kind, "serial": disk["serial"]}
    if disk["wwn"] and str(disk["wwn"]).startswith(serials.WWNS):
        found["wwn"] = forms.as_wwn(disk["wwn"], kind)
    found |= {"size_bytes": disk["size_bytes"]}
    if disk["model"]:
        found["model"] = disk["model"]
    return {**found, "plp": False, "wipe_blank": False}


class _Quoted(str):
    """A text that is quoted: a serial such as 0012 is a number to YAML."""

    __slots__ = ()


def _quoted(drives: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    texts = ("serial", "wwn", "model")
    return {
        name: {key: _Quoted(value) if key in texts else value for key, value in keys.items()}
        for name, keys in drives.items()
    }


yaml.SafeDumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="'")
)


def _address(machine: Mapping[str, Any]) -> list[str]:
    """Return the line of the controller's address as the host sees it."""
    address = machine["system"]["controller"] or "127.0.0.1"
    return [f"controller_address: '{address}' # from where this host was reached"]
