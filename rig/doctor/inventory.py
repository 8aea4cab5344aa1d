# SPDX-License-Identifier: GPL-3.0-or-later
"""Check an inventory alone: what `rig` refuses in it, and what it would only find out at a host.

Each check takes a `Described` and yields findings; CHECKS has them by name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from joulerig.rig.common import host_library, paths
from joulerig.rig.common.errors import Problem, UserError, near_miss
from joulerig.rig.doctor.finding import Finding, Severity
from joulerig.rig.lab import inventory, model
from joulerig.rig.lab.meters import connections
from joulerig.rig.lab.model import Controller, Drive, Lab, Meter, Rail, TestHost

host_library.find()
from ansible.module_utils.joulerig.drives import serials  # noqa: E402

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
SECTOR_BYTES = 512
GB = 10**9
# More full writes than any drive is rated for: 60 a day for ten years.
MOST_DRIVE_WRITES = 220_000
LEAST_RETURN_SECONDS = 60
# What Ansible reads of a host to reach it: a name that is nearly one of these is a mistake.
CONNECTION_KEYS = (
    "ansible_become", "ansible_become_flags", "ansible_become_method", "ansible_become_password",
    "ansible_become_user", "ansible_connection", "ansible_control_path_dir", "ansible_host",
    "ansible_password", "ansible_port", "ansible_private_key_file", "ansible_python_interpreter",
    "ansible_remote_tmp", "ansible_ssh_common_args", "ansible_ssh_extra_args",
    "ansible_ssh_private_key_file", "ansible_user",
)  # fmt: skip
# What Ansible itself sets of every host, and older names.
ANSIBLES_OWN = frozenset(
    "ansible_config_file ansible_facts ansible_playbook_python ansible_version ansible_become_pass"
    " ansible_become_exe ansible_ssh_pass ansible_ssh_user ansible_ssh_host ansible_ssh_port"
    " ansible_ssh_args ansible_timeout ansible_pipelining".split()
)
READ_KEYS = frozenset({*model.KEYS, "quiet_units"})
# Where a value comes from, by the end of its key.
SOURCES = (
    (r"\.serial$", "'rig hosts discover {host}' writes it as the host reads it"),
    (r"\.wwn$", "'lsblk --output NAME,WWN' on {host} prints it, and 'rig hosts discover {host}' writes it"),
    (r"\.size_bytes$", "'lsblk --bytes --output NAME,SIZE' on {host} prints it, in bytes"),
    (r"\.rails\.[^.]+\.meter$", "the meters are in the controller's host_vars"),
    (r"\.rails\.[^.]+", "'rig meters scan' lists a meter's channels"),
    (r"\.driver$", "'sigrok-cli -L' lists libsigrok's drivers"),
    (r"\.connection$", "'ls -l /dev/serial/by-id' lists serial ports, 'rig meters scan' tries one"),
    (r"^meters\.", "docs/how-to/meters.md has the keys of a meter"),
)


@dataclass(frozen=True)
class Described:
    """An inventory: its variables, the lab that they describe, and what is wrong in them."""

    found: inventory.Inventory
    lab: Lab | None
    wrong: list[Problem]

    def finding(self, severity: Severity, check: str, host: str, key: str, text: str, remedy: str) -> Finding:
        """Return a finding about a key of a host's variables, with its file and line."""
        subject = self.found.source(host)
        if place := self.place(host, key):
            subject = f"{paths.short(place.file)}:{place.line}"
        return Finding(severity, check, subject, text, remedy, key)

    def place(self, host: str, key: str) -> inventory.Place | None:
        """Return where a key, or the nearest one above it, stands."""
        places = self.found.places.get(host, {})
        whole = {".".join(parts): place for parts, place in places.items()}
        while key:
            if key in whole:
                return whole[key]
            key = key.rpartition(".")[0]
        return None

    def physical(self) -> Iterator[tuple[str, TestHost]]:
        """Yield the test hosts that are machines."""
        for name, host in self.lab.hosts.items() if self.lab else ():
            if not host.virtual:
                yield name, host

    def drives(self) -> Iterator[tuple[str, str, Drive]]:
        """Yield (host, name, drive) of the drives of machines that are not made of memory."""
        for host, spec in self.physical():
            for name, drive in spec.drives.items():
                if not drive.in_memory and drive.interface != "nvdimm":
                    yield host, name, drive

    def rails(self) -> Iterator[tuple[str, str, Rail, Meter]]:
        """Yield (host, key, rail, meter) of the rails whose meter is right."""
        for host, name, drive in self.drives():
            for rail, wiring in drive.rails.items():
                if meter := self.lab and self.lab.controller.meters.get(wiring.meter):
                    yield host, f"drives.{name}.rails.{rail}", wiring, meter

    def meters(self) -> Iterator[tuple[str, Meter]]:
        """Yield the meters that are instruments."""
        for name, meter in self.lab.controller.meters.items() if self.lab else ():
            if not meter.virtual:
                yield name, meter


Check = Callable[[Described], Iterator[Finding]]


def examine(path: Path | None = None) -> tuple[Described | None, list[Finding]]:
    """Return an inventory as far as it can be read, and what the checks find in it."""
    path = path or paths.inventory()
    try:
        found = inventory.read(path, READ_KEYS, as_written=CONNECTION_KEYS)
        lab, wrong = model.examine(found)
    except UserError as error:
        text = str(error)
        subject = text.partition(": ")[0]
        remedy = f"edit {subject}; 'rig plan' then reads it"
        return None, [Finding(ERROR, "readable", subject, text.partition(": ")[2] or text, remedy)]
    described = Described(found, lab, wrong)
    return described, [finding for check in CHECKS.values() for finding in check(described)]


def refused(described: Described) -> Iterator[Finding]:
    """Yield what `rig` refuses, with where the right value comes from."""
    by_source = {
        described.found.source(host): host
        for host in (described.found.controller, *described.found.test_hosts)
    }
    for problem in described.wrong:
        host = by_source.get(problem.source, described.found.controller)
        key, text = problem.key, problem.text
        remedy = _remedy(described, host, key, text)
        yield described.finding(ERROR, "refused", host, key, text, remedy)


def _remedy(described: Described, host: str, key: str, text: str) -> str:
    """Return how a value that is refused comes right."""
    place = described.place(host, key)
    where = f"edit line {place.line} of {paths.short(place.file)}" if place else "add it"
    if meant := re.search(r"did you mean '([\w-]+)'", text):
        return f"{where}: write {meant[1]}"
    if "required" in text or "missing" in text:
        where = f"add {key} to {described.found.source(host)}"
    hint = next((hint for pattern, hint in SOURCES if re.search(pattern, key)), "")
    return f"{where}: {hint.format(host=host)}" if hint else where


def stray_files(described: Described) -> Iterator[Finding]:
    """Yield files of host_vars that no host reads, where a host of nearly that name has none."""
    folder = described.found.folder / "host_vars"
    hosts = {described.found.controller, *described.found.test_hosts}
    there = {path.stem if path.is_file() else path.name: path for path in sorted(folder.glob("[!.]*"))}
    for host in sorted(hosts - there.keys()):
        if name := near_miss(host, there.keys() - hosts):
            old = paths.short(there[name])
            text = f"is read by no host, and {host} has no file; allowed: host_vars/{host}.yml"
            new = there[name].with_name(f"{host}{there[name].suffix}")
            yield Finding(ERROR, "stray-files", old, text, f"mv {old} {paths.short(new)}", "file name")


def stray_keys(described: Described) -> Iterator[Finding]:
    """Yield keys of the controller in the file of a test host, and the other way round."""
    found = described.found
    for host in (found.controller, *found.test_hosts):
        both = found.controller in found.test_hosts
        mine, other = (Controller, TestHost) if host == found.controller else (TestHost, Controller)
        for key in found.values[host]:
            if both or key not in other.model_fields or key in mine.model_fields:
                continue
            place = described.place(host, key)
            if place and paths.short(place.file) == found.source(host):
                whose = "a test host" if other is TestHost else "the controller"
                to = found.source(found.controller if other is Controller else found.test_hosts[0])
                text = f"is read of {whose} alone; allowed here: {', '.join(sorted(mine.model_fields))}"
                remedy = f"move it from line {place.line} of {paths.short(place.file)} to {to}"
                yield described.finding(ERROR, "stray-keys", host, key, text, remedy)


def connection_keys(described: Described) -> Iterator[Finding]:
    """Yield variables whose names are nearly those by which Ansible reaches a host."""
    from ansible.constants import COMMON_CONNECTION_VARS, MAGIC_VARIABLE_MAPPING

    known = {*CONNECTION_KEYS, *COMMON_CONNECTION_VARS, *MAGIC_VARIABLE_MAPPING}
    for host, values in described.found.values.items():
        for key in values:
            meant = near_miss(key, CONNECTION_KEYS)
            if key.startswith("ansible") and key not in known and meant and key not in ANSIBLES_OWN:
                text = f"is no variable of Ansible's; allowed: {meant}"
                place = described.place(host, key)
                where = f"line {place.line} of {paths.short(place.file)}" if place else "it"
                remedy = f"edit {where}: write {meant}"
                yield described.finding(ERROR, "connection-keys", host, key, text, remedy)


def sizes(described: Described) -> Iterator[Finding]:
    """Yield sizes that no drive has: half sectors, and the round ones of advertisements."""
    for host, name, drive in described.drives():
        key, size = f"drives.{name}.size_bytes", drive.size_bytes
        remedy = f"'lsblk --bytes --output NAME,SERIAL,SIZE' on {host} prints it"
        if size % SECTOR_BYTES:
            text = f"{size} is no multiple of {SECTOR_BYTES}; allowed: the drive's exact size in bytes"
            yield described.finding(ERROR, "sizes", host, key, text, remedy)
        elif size % GB == 0 and drive.interface != "nvdimm":
            text = f"{size} is a round number of GB, which few drives have; allowed: the exact size in bytes"
            yield described.finding(WARNING, "sizes", host, key, text, remedy)


def placeholder_serials(described: Described) -> Iterator[Finding]:
    """Yield serials that firmware reports which has none."""
    for host, name, drive in described.drives():
        if serials.is_placeholder(drive.serial):
            text = (
                f"{drive.serial!r} is no serial: makers put it where they give none; allowed: a drive's own"
            )
            remedy = f"'rig hosts discover {host}' writes what the host reads; such a drive is refused"
            yield described.finding(ERROR, "placeholder-serials", host, f"drives.{name}.serial", text, remedy)


def missing_wwns(described: Described) -> Iterator[Finding]:
    """Yield drives without a WWN: a host refuses one that has a WWN which is not declared."""
    for host, name, drive in described.drives():
        if drive.wwn is None:
            text = "no wwn; a drive that has one is refused without it"
            remedy = f"'lsblk --output NAME,SERIAL,WWN' on {host} prints it; leave it out if there is none"
            yield described.finding(WARNING, "missing-wwns", host, f"drives.{name}", text, remedy)


def endurance(described: Described) -> Iterator[Finding]:
    """Yield ratings that are no terabytes."""
    for host, name, drive in described.drives():
        rated = drive.rated_terabytes_written
        if rated and rated * 1e12 / drive.size_bytes > MOST_DRIVE_WRITES:
            text = (
                f"{rated:g} TB is {rated * 1e12 / drive.size_bytes:.2g} times the drive;"
                " allowed: TB (10^12 bytes) of its data sheet"
            )
            key = f"drives.{name}.rated_terabytes_written"
            yield described.finding(ERROR, "endurance", host, key, text, "divide it: 600 TBW is 600")


def rails_without_bounds(described: Described) -> Iterator[Finding]:
    """Yield rails whose joules have no bounds for want of a `supply`."""
    for host, key, rail, meter in described.rails():
        windowed = meter.samples == "window-mean"
        text = ""
        if rail.supply is None and (windowed or not meter.sees_all) and rail.kind != "watt_hours":
            text = "no supply: its joules have no bounds; allowed: supply: { volts, amps, ohms }"
        elif rail.supply is not None and rail.supply.ohms is None and windowed and rail.kind == "volts":
            text = "no ohms: joules of windows' means have no bounds; allowed: ohms from supply to meter"
            key = f"{key}.supply"
        if text:
            remedy = "docs/how-to/meters.md, 'What feeds a rail', says how to find them"
            yield described.finding(WARNING, "rails-without-bounds", host, key, text, remedy)


def supplies(described: Described) -> Iterator[Finding]:
    """Yield supplies whose volts are not those in the rail's name, such as 3v3 or 12v."""
    for host, key, rail, _ in described.rails():
        named = re.match(r"^(\d+)v(\d*)$", key.rpartition(".")[2])
        if not named or not rail.supply:
            continue
        nominal = float(f"{named[1]}.{named[2] or 0}")
        if not 0.98 * nominal <= rail.supply.volts <= 1.2 * nominal:
            low, high = nominal, 1.1 * nominal
            text = f"{rail.supply.volts:g} V feed a rail of that name; allowed: about {low:g} to {high:.4g} V"
            remedy = "write the supply's greatest volts without a load, or rename the rail"
            yield described.finding(WARNING, "supplies", host, f"{key}.supply.volts", text, remedy)


def drives_without_rails(described: Described) -> Iterator[Finding]:
    """Yield drives that no meter measures."""
    for host, name, drive in described.drives():
        if not drive.rails:
            remedy = f"add rails to it, as docs/how-to/own-bench.md shows; 'rig doctor {host}' checks them"
            text = "no rails: its runs have no joules"
            yield described.finding(NOTE, "drives-without-rails", host, f"drives.{name}", text, remedy)


def volatile_ports(described: Described) -> Iterator[Finding]:
    """Yield meters at a port whose name changes with the order in which ports are found."""
    for name, meter in described.meters():
        port = meter.connection or ""
        key, host = f"meters.{name}.connection", described.found.controller
        if not connections.is_numbered(port):
            continue
        if port.startswith("/dev/"):
            text = f"{port!r} may be another port after a boot; allowed: its name in /dev/serial/by-id"
            remedy = f"'udevadm info --query=symlink {port}' prints its names"
            yield described.finding(WARNING, "volatile-ports", host, key, text, remedy)
        else:
            text = f"{port!r} changes when it is plugged in; allowed: that, or its LAN address (tcp-raw/)"
            remedy = "connect it by LAN where it has a port, else 'rig meters scan' after each boot"
            yield described.finding(NOTE, "volatile-ports", host, key, text, remedy)


def unused_meters(described: Described) -> Iterator[Finding]:
    """Yield meters that no rail names."""
    named = {
        one.get("meter")
        for host in described.found.test_hosts
        for drive in _mappings(described.found.values[host].get("drives"))
        for rail in _mappings(drive.get("rails"))
        for one in (rail, *_mappings(rail))  # volts may be another meter's
    }
    for name, meter in described.meters():
        if name not in named and not meter.family.refuse_rail("volts"):
            text = "no rail names it; allowed: that, for a reference"
            remedy = f"name it in a drive's rails: {{ meter: {name}, volts: CHANNEL, amps: CHANNEL }}"
            host = described.found.controller
            yield described.finding(NOTE, "unused-meters", host, f"meters.{name}", text, remedy)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings below a mapping that may be wrong."""
    below = value.values() if isinstance(value, Mapping) else ()
    return [one for one in below if isinstance(one, Mapping)]


def addresses(described: Described) -> Iterator[Finding]:
    """Yield addresses by which machines cannot reach each other."""
    seen: dict[tuple[Any, Any], str] = {}
    for host, spec in described.physical():
        values = described.found.values[host]
        if _is_loopback(spec.controller_address) and values.get("ansible_connection") != "local":
            text = f"{spec.controller_address!r} is the host itself; allowed: the controller's address there"
            remedy = f"'ip -brief address' on the controller prints it; it is what {host} reaches"
            yield described.finding(ERROR, "addresses", host, "controller_address", text, remedy)
        own = values.get("ansible_host")
        if own and own == spec.controller_address:
            text = f"{own!r} is {host}'s own address (ansible_host); allowed: the controller's"
            remedy = "'ip -brief address' on the controller prints it"
            yield described.finding(ERROR, "addresses", host, "controller_address", text, remedy)
        if own and (first := seen.setdefault((own, values.get("ansible_port")), host)) != host:
            text = f"{own!r} is also that of {first}; allowed: an address that no other has"
            remedy = "edit the inventory: one machine is one test host"
            yield described.finding(ERROR, "addresses", host, "ansible_host", text, remedy)


def influx_address(described: Described) -> Iterator[Finding]:
    """Yield an InfluxDB that test hosts cannot reach."""
    influx = described.lab.controller.influxdb if described.lab else None
    hosts = ", ".join(name for name, _ in described.physical())
    if not influx or not influx.url or influx.url_from_hosts or not hosts:
        return
    parts = urlsplit(influx.url)
    if _is_loopback(parts.hostname or ""):
        text = (
            f"{influx.url!r} is the controller alone; {hosts} cannot reach it; allowed: an address"
            " of the lab's network, or url_from_hosts in addition"
        )
        remedy = f"add url_from_hosts: http://ADDRESS:{parts.port or 8086}"
        host = described.found.controller
        yield described.finding(ERROR, "influx-address", host, "influxdb.url", text, remedy)


def return_times(described: Described) -> Iterator[Finding]:
    """Yield hosts that would be given up before they have started."""
    for host, spec in described.physical():
        if spec.return_seconds and spec.return_seconds < LEAST_RETURN_SECONDS:
            text = f"{spec.return_seconds} s is less than a machine takes to start; allowed: 600 for servers"
            remedy = "leave it out, which is 600 s, or time a boot and double that"
            yield described.finding(WARNING, "return-times", host, "return_seconds", text, remedy)


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address == "localhost"
    return found.is_loopback or found.is_unspecified


CHECKS: Mapping[str, Check] = {
    check.__name__.replace("_", "-"): check
    for check in (
        refused, stray_files, stray_keys, connection_keys, sizes, placeholder_serials,
        missing_wwns, endurance, rails_without_bounds, supplies, drives_without_rails, volatile_ports,
        unused_meters, addresses, influx_address, return_times,
    )
}  # fmt: skip
