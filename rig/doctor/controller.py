# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the controller and its meters: what is installed, what may be opened, what replies."""

from __future__ import annotations

import functools
import grp
import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from joulerig.analysis.results.influxdb.client import InfluxError
from joulerig.rig import power
from joulerig.rig.campaign import measure
from joulerig.rig.common import host_library, paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb as databases
from joulerig.rig.controller import services
from joulerig.rig.doctor.finding import Finding, Severity
from joulerig.rig.lab.meters import connections, discovery, source
from joulerig.rig.lab.model import Lab, Meter

host_library.find()
from ansible.module_utils.joulerig.drives.host import Host  # noqa: E402
from ansible.module_utils.joulerig.facts import machine  # noqa: E402

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
CONTROLLER = "controller"
PROGRAMS = ("srcap", "powerd", "iod", "flowop", "durawriter")
RULES = "60-joulerig-meters.rules"
RULES_FOLDERS = ("etc/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d")
SCAN_SECONDS = 5.0
# With fewer readings, the shortest phases of campaigns have few or none.
LEAST_READINGS_PER_SECOND = 1.0
GOOD_FREE_BYTES = 5 << 30
PRIVATE = 0o077  # rights of others that a secret has none of


@dataclass(frozen=True)
class Seen:
    """A lab, the root of the controller's files, and how a meter is asked: by `scan`."""

    lab: Lab
    root: Path = Path("/")
    running: frozenset[str] = frozenset()
    scan: Callable[[Lab, str], list[dict[str, Any]]] = field(default=lambda lab, name: scan(lab, name))
    connection_keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def meters(self) -> Iterator[tuple[str, Meter]]:
        """Yield the meters that are instruments."""
        for name, meter in self.lab.controller.meters.items():
            if not meter.virtual:
                yield name, meter

    def below(self, path: str) -> Path:
        """Return a path of the controller, below the root."""
        return self.root / path.lstrip("/")


Check = Callable[[Seen], Iterator[Finding]]


def examine(seen: Seen) -> list[Finding]:
    """Return what the checks find at the controller and its meters."""
    return [finding for check in CHECKS.values() for finding in check(seen)]


def running_meters() -> frozenset[str]:
    """Return the meters that powerd has now: no other program can ask them."""
    try:
        return frozenset(meter["name"] for meter in services.powerd_status()["meters"])
    except UserError:
        return frozenset()


def scan(lab: Lab, name: str) -> list[dict[str, Any]]:
    """Return the instruments that reply where a meter is declared. Raises UserError."""
    meter = lab.controller.meters[name]
    return source.scan(source.driver(lab, name), meter.family, SCAN_SECONDS, meter)


def programs(seen: Seen) -> Iterator[Finding]:
    missing = [name for name in PROGRAMS if not paths.program(name).is_file()]
    if missing:
        text = f"{paths.short(paths.programs())} has no {', '.join(missing)}"
        yield Finding(ERROR, "programs", CONTROLLER, text, "make build")
    of_libsigrok = any(not meter.family.capturer for _, meter in seen.meters())
    if of_libsigrok and not shutil.which("sigrok-cli"):
        text = "no sigrok-cli: drivers' names in the inventory are not checked"
        yield Finding(WARNING, "programs", CONTROLLER, text, "sudo apt-get install sigrok-cli")


def clock(seen: Seen) -> Iterator[Finding]:
    found = machine.clock(machine.programs(Host(proc=str(seen.below("/proc")))))
    if not found["kept_by"] or not found.get("synchronised", True):
        text = "its clock, which all test hosts follow, is not set by any other"
        remedy = "sudo apt-get install chrony; 'chronyc tracking' shows what it follows"
        yield Finding(NOTE, "clock", CONTROLLER, text, remedy)


def secrets(seen: Seen) -> Iterator[Finding]:
    influx = seen.lab.controller.influxdb
    if influx.url and influx.token_file:
        yield from _secret(influx.token_file.expanduser(), "influxdb.token_file")
    if influx.host_token_file:
        named = {str(influx.host_token_file).replace("{host}", host) for host in seen.lab.hosts}
        for one in sorted(named):
            yield from _secret(Path(one).expanduser(), "influxdb.host_token_file")
    if grafana := seen.lab.controller.grafana:
        yield from _secret(grafana.token_file.expanduser(), "grafana.token_file")
        if grafana.influxdb_token_file:
            yield from _secret(grafana.influxdb_token_file.expanduser(), "grafana.influxdb_token_file")
    keys = {
        str(values["ansible_ssh_private_key_file"])
        for values in seen.connection_keys.values()
        if values.get("ansible_ssh_private_key_file")
    }
    for key in sorted(keys):
        if "{{" not in key:
            yield from _secret(Path(key).expanduser(), "ansible_ssh_private_key_file")


def _secret(path: Path, key: str) -> Iterator[Finding]:
    """Yield what is wrong with a file that holds a secret."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        remedy = f"write it, and 'chmod 600 {path}'"
        yield Finding(ERROR, "secrets", CONTROLLER, f"{path}: {error.strerror}", remedy, key)
        return
    if not os.access(path, os.R_OK):
        text = f"{path}: may not be read by this user"
        yield Finding(ERROR, "secrets", CONTROLLER, text, f"sudo chown $USER {path}", key)
    elif mode & PRIVATE:
        text = f"{path}: has mode {mode:04o}; allowed: 0600"
        yield Finding(WARNING, "secrets", CONTROLLER, text, f"chmod 600 {path}", key)


def influxdb(seen: Seen) -> Iterator[Finding]:
    if not (url := seen.lab.controller.influxdb.url):
        return
    if why := machine.unreached(endpoint(url)):
        remedy = "start it, or correct influxdb.url in the controller's host_vars"
        yield Finding(ERROR, "influxdb", CONTROLLER, f"{url}: {why}", remedy, "influxdb.url")


def accounts(seen: Seen) -> Iterator[Finding]:
    """Yield test hosts' accounts that can write what is not theirs, and points of such writers."""
    if not databases.is_made(seen.lab):
        return
    try:
        for problem in databases.wrong_rights(seen.lab):
            remedy = (
                "grant each account its own database alone: docs/how-to/own-bench.md#influxdb"
                if seen.lab.controller.influxdb.url
                else "rig up"
            )
            yield Finding(ERROR, "accounts", CONTROLLER, problem, remedy, "influxdb.host_token_file")
        for problem in measure.strange_points(seen.lab):
            remedy = "see who has powerd's account; these points are left out of each energy"
            yield Finding(WARNING, "accounts", CONTROLLER, problem, remedy)
    except (InfluxError, UserError):
        return  # that it does not answer, or lacks a secret, is another check's


def endpoint(url: str) -> str:
    """Return HOST:PORT of a URL."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def serial_ports(seen: Seen) -> Iterator[Finding]:
    for name, meter in seen.meters():
        ports = [meter.connection, meter.control.connection if meter.control else None]
        for port in filter(None, ports):
            if port.startswith("/dev/"):
                yield from _port(seen, f"meter {name}", port)


def _port(seen: Seen, subject: str, port: str) -> Iterator[Finding]:
    """Yield what is wrong with a serial port."""
    path = seen.below(port)
    if not path.exists():
        names = [one.connection for one in discovery.serial_ports()]
        text = f"{port}: no such port; present: {', '.join(names) or 'none'}"
        remedy = "plug it in and switch it on; 'dmesg | tail' shows what the kernel sees"
        yield Finding(ERROR, "serial-ports", subject, text, remedy)
    elif not os.access(path, os.R_OK | os.W_OK):
        group = _group(path)
        text = f"{port}: this user may not read and write it (group {group})"
        remedy = f"sudo usermod --append --groups {group} $USER, and log in again"
        yield Finding(ERROR, "serial-ports", subject, text, remedy)


def _group(path: Path) -> str:
    number = path.stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def usb(seen: Seen) -> Iterator[Finding]:
    wanted = [name for name, meter in seen.meters() if (meter.connection or "").startswith("usbtmc")]
    instruments = list(discovery.usbtmc())
    for instrument in instruments:
        bus, number = map(int, instrument.connection.partition("/")[2].split("."))
        node = seen.below(f"/dev/bus/usb/{bus:03d}/{number:03d}")
        if node.exists() and not os.access(node, os.R_OK | os.W_OK):
            text = f"{instrument.what}: this user may not open the instrument ({node})"
            remedy = f"{_install(seen)}; sudo usermod --append --groups plugdev $USER, and log in again"
            yield Finding(ERROR, "usb", CONTROLLER, text, remedy)
    if wanted and not any(seen.below(f"{folder}/{RULES}").exists() for folder in RULES_FOLDERS):
        text = f"{', '.join(wanted)} on USB, and the udev rules are not installed"
        yield Finding(NOTE, "usb", CONTROLLER, text, _install(seen))
    if wanted and not instruments:
        text = f"no instrument of the USBTMC class is plugged in, for {', '.join(wanted)}"
        yield Finding(ERROR, "usb", CONTROLLER, text, "'lsusb' lists what is; check its cable and power")


def _install(seen: Seen) -> str:
    rules = Path(source.__file__).resolve().with_name(RULES)
    return (
        f"sudo install --mode 644 {paths.short(rules)} /etc/udev/rules.d/ && sudo udevadm control --reload"
        " && sudo udevadm trigger"
    )


def replies(seen: Seen) -> Iterator[Finding]:
    """Ask each meter what it is, but for those that powerd has or that no port leads to."""
    for name, meter in seen.meters():
        port = meter.connection or ""
        if name in seen.running or (port.startswith("/dev/") and not seen.below(port).exists()):
            continue
        subject = f"meter {name}"
        if port.startswith("tcp") and (why := _refuses(port)):
            text = f"{port}: {why}"
            remedy = "switch it on, enable its LAN port for SCPI, and check its address"
            yield Finding(ERROR, "replies", subject, text, remedy)
            continue
        try:
            found = seen.scan(seen.lab, name)
        except UserError as error:
            other = "" if meter.family.capturer else ", or a model that this libsigrok does not have"
            text = f"no reply to {meter.driver}{other}: {error}"
            yield Finding(ERROR, "replies", subject, text, _scan_hint(meter))
            continue
        [first, *_] = found
        channels = {channel["name"] for channel in first["channels"]}
        for channel in seen.lab.meter_channels(name):
            if channel not in channels:
                text = f"{first['vendor']} {first['model']} has no channel {channel}"
                remedy = f"name one of {', '.join(sorted(channels))} in the rails of drives"
                yield Finding(ERROR, "replies", subject, text, remedy)
        try:
            connections.check(meter, first)
        except UserError as error:
            remedy = "swap the cables, or correct the inventory"
            yield Finding(ERROR, "replies", subject, str(error), remedy)


def _scan_hint(meter: Meter) -> str:
    if meter.command:
        return shlex.join(meter.command)
    at = f" --connection {meter.connection}" if meter.connection else ""
    return f"rig meters scan --driver {meter.driver}{at}"


def _refuses(connection: str) -> str:
    """Return why libsigrok's tcp-raw/HOST/PORT is not reached, or an empty text."""
    found = re.fullmatch(r"tcp(?:-raw)?/([^/]+)/(\d+)", connection)
    return machine.unreached(f"{found[1]}:{found[2]}") if found else ""


def rates(seen: Seen) -> Iterator[Finding]:
    points = seen.lab.controller.points_per_second
    for name, meter in seen.meters():
        rate = meter.sample_rate_hz
        if rate is None or not seen.lab.meter_rails(name):
            continue
        if rate < LEAST_READINGS_PER_SECOND:
            text = f"{rate:.3g} readings a second of each channel: phases of seconds have few or none"
            remedy = "give each rail its own meter, or make phases longer (workload_seconds)"
            yield Finding(WARNING, "rates", f"meter {name}", text, remedy)
        elif rate < points:
            text = f"{rate:.3g} readings a second; {points} points a second are stored, most of them copies"
            remedy = "nothing has to be done; points_per_second may be lower"
            yield Finding(NOTE, "rates", f"meter {name}", text, remedy)


def switches(seen: Seen) -> Iterator[Finding]:
    """Ask each switch that is no tap what it has now: nothing is switched."""
    for host, spec in seen.lab.hosts.items():
        if spec.virtual:
            continue
        if spec.switch:
            yield from _switch(host, host, functools.partial(power.host_switch, seen.lab, host))
        for drive, described in spec.drives.items():
            if described.switch and described.switch.by not in ("host", "tap"):
                make = functools.partial(power.drive_switch, seen.lab, host, drive)
                yield from _switch(host, f"{host}: {drive}", make)


def _switch(host: str, subject: str, make: Callable[[], power.Switch | None]) -> Iterator[Finding]:
    """Yield what is wrong with the switch of a host, or of a drive."""
    try:
        made = make()
        state = made.state() if made else None
    except UserError as error:
        remedy = f"correct it in the host_vars of {host}, or what stands between it and the controller"
        yield Finding(ERROR, "switches", subject, str(error), remedy)
        return
    if state is None:
        text = "it cannot be asked whether it has switched: that a power cut was one is not checked"
        yield Finding(NOTE, "switches", subject, text, "nothing has to be done", "switch")
    elif state == "off":
        text = "it reports that it is off"
        powered = subject.partition(": ")[2] or host
        remedy = f"if {powered} has power, the outlet is another's: correct its number; else switch it on"
        yield Finding(WARNING, "switches", subject, text, remedy, "switch")


def free_space(seen: Seen) -> Iterator[Finding]:
    for folder in (paths.results(), paths.cache()):
        place = next(one for one in (folder, *folder.parents) if one.exists())
        free = shutil.disk_usage(place).free
        if free < GOOD_FREE_BYTES:
            text = f"{place}: {free / 2**30:.1f} GiB free; allowed: {GOOD_FREE_BYTES >> 30} GiB or more"
            remedy = "'rig export --bundle' keeps a campaign in one file; JOULERIG_RESULTS names another disk"
            yield Finding(WARNING, "free-space", CONTROLLER, text, remedy)


CHECKS: Mapping[str, Check] = {
    check.__name__.replace("_", "-"): check
    for check in (
        programs,
        clock,
        secrets,
        influxdb,
        accounts,
        serial_ports,
        usb,
        replies,
        rates,
        switches,
        free_space,
    )
}
