# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the host_vars of a test host from what the host itself reads, for a person to review.

No drive in it is wiped before a person adopted it: each has `wipe_blank: false`. The host's own
text is data there: Ansible evaluates nothing that is `!unsafe`, and no comment has any of it.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from joulerig.rig.common import files, host_library, paths
from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError
from joulerig.rig.doctor import asking
from joulerig.rig.lab import forms, inventory, model

host_library.find()
from ansible.module_utils.joulerig.drives import serials  # noqa: E402

ADDRESSLESS = "controller_address: the host was reached by no address; write the controller's into the file"


@dataclass(frozen=True)
class Discovery:
    """A discovery: the text of the file, names of the drives in it, and the disks left out."""

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
        kind = interface(disk)
        entry = _entry(disk, kind)
        if why := _unfit(disk, counts) or _misfit(entry):
            left_out.append(f"{disk['device']} ({_shown(disk)}): {why}")
        else:
            drives[_free_name(kind, drives)] = entry
    for one in facts.nvdimms:
        if one["use"]:
            left_out.append(f"NVDIMM {one['serial']} ({one['size_bytes']} bytes): {one['use']}")
            continue
        keys = {"interface": "nvdimm", "serial": one["serial"], "size_bytes": one["size_bytes"]}
        entry = {**keys, "plp": False, "wipe_blank": False}
        if why := _misfit(entry):
            left_out.append(f"NVDIMM {one['serial']} ({one['size_bytes']} bytes): {why}")
        else:
            drives[_free_name("nvdimm", drives)] = entry
    address = _address(facts.machine)
    left_out += [] if address else [ADDRESSLESS]
    lines = [
        f"# Test host {host}, as 'rig hosts discover {host}' found it on {on}. Look through it and correct",
        "# it: names and descriptions are yours to choose. wipe_blank: false keeps a drive, also a blank",
        f"# one, until a person released it: 'rig drives adopt {host} DRIVE'.",
        "# controller_address: from where this host was reached.",
        *(_yaml({"controller_address": Unsafe(address)}) if address else []),
        "",
        "# Declare plp: true of drives with power-loss protection, and the supply rails of each, as",
        "# docs/how-to/own-bench.md shows: without rails a run has no joules.",
        *_yaml({"drives": {name: _unsafe(keys) for name, keys in drives.items()}}),
    ]
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


def _misfit(entry: Mapping[str, Any]) -> str:
    """Return why an inventory cannot have this entry of a drive, or an empty text."""
    try:
        model.Drive.model_validate(dict(entry))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"its {one_line('.'.join(map(str, first['loc'])) or 'wwn')} cannot be declared: {first['msg']}"
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
        found["wwn"] = _wwn(disk["wwn"], kind)
    found |= {"size_bytes": disk["size_bytes"]}
    if disk["model"]:
        found["model"] = disk["model"]
    return {**found, "plp": False, "wipe_blank": False}


def _wwn(text: str, kind: str) -> str:
    """Return a WWN as an inventory has it; an invalid one unchanged, for the model to refuse."""
    try:
        return str(forms.as_wwn(text, kind))
    except ValueError:
        return text


class Unsafe(str):
    """A text of the host's: in the file it is quoted, on one line, and never a template."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which also writes Unsafe."""


_Dumper.add_representer(Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"'))


def _unsafe(keys: Mapping[str, Any]) -> dict[str, Any]:
    texts = ("serial", "wwn", "model")
    return {key: Unsafe(value) if key in texts else value for key, value in keys.items()}


def _yaml(content: Mapping[str, Any]) -> list[str]:
    """Return a mapping as lines of YAML, a key each."""
    return yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, width=float("inf")).splitlines()


def _address(machine: Mapping[str, Any]) -> str:
    """Return the controller's address as the host sees it; empty where it is no address."""
    address = machine["system"]["controller"] or "127.0.0.1"
    try:
        number, _, zone = address.partition("%")
        ipaddress.ip_address(number)
    except ValueError:
        return ""
    return address if not zone or (zone.isascii() and zone.replace("-", "").isalnum()) else ""
