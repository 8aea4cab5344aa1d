# SPDX-License-Identifier: GPL-3.0-or-later
"""Find instruments and ports that no inventory names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig import capturers
from joulerig.capturers import serial_line, sysfs
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import Families, source
from joulerig.rig.lab.model import Lab

FIND_SECONDS = 30.0
USBTMC = ("fe", "03")  # class and sub-class of an interface


@dataclass(frozen=True)
class Port:
    """A port of the controller: how an inventory names it, and what is behind it."""

    connection: str
    what: str


def instruments(lab: Lab) -> list[dict[str, Any]]:
    """Return the instruments that capturers find by themselves, without the inventory's.

    Raises UserError where they cannot be asked.
    """
    command = [sys.executable, "-m", capturers.__name__, "--find"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=FIND_SECONDS, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        raise UserError(f"the capturers cannot be asked what is there: {error}") from None
    taken = _taken(lab)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [one for one in found if _real(one["connection"]) not in taken]


def ports(lab: Lab, without: list[dict[str, Any]]) -> Iterator[Port]:
    """Yield the USB ports that neither the inventory nor an instrument that was found has."""
    taken = _taken(lab) | {_real(one["connection"]) for one in without}
    for port in (*serial_ports(), *usbtmc()):
        if _real(port.connection) not in taken:
            yield port


def serial_ports() -> Iterator[Port]:
    """Yield the USB serial ports, each by the name that stays the same."""
    for port in serial_line.ports():
        serial = f", serial {port.serial}" if port.serial else ""
        what = f"{port.product or 'no name'}, USB {port.vendor_id}:{port.product_id}{serial}"
        yield Port(serial_line.lasting(port.path), what)


def usbtmc() -> Iterator[Port]:
    """Yield the USB devices with an interface for test and measurement."""
    devices = Path(os.environ.get(sysfs.ROOT, "/sys"), "bus/usb/devices")
    for interface in sorted(devices.glob("*:*")):
        kind = tuple(sysfs.text(interface / name) for name in ("bInterfaceClass", "bInterfaceSubClass"))
        if kind == USBTMC:
            device = devices / interface.name.partition(":")[0]
            what = " ".join(filter(None, (sysfs.text(device / key) for key in ("manufacturer", "product"))))
            bus, number = (int(sysfs.text(device / name) or 0) for name in ("busnum", "devnum"))
            yield Port(f"usbtmc/{bus}.{number}", what or device.name)


def probe(port: Port, families: Families, seconds: float) -> list[dict[str, Any]]:
    """Return what answers at a serial port, asked as each family of serial instruments is asked."""
    if not port.connection.startswith("/dev/"):
        return []
    serial = (one for one in families.by_driver.values() if "serial" in one.transports and not one.capturer)
    found: list[dict[str, Any]] = []
    for family in serial:
        specified = source.specification(family.driver, os.path.realpath(port.connection), family.serialcomm)
        try:
            found += source.scan(specified, family, seconds)
        except UserError:
            continue
        break  # two drivers do not share an instrument
    return [{**one, "connection": port.connection} for one in found]


def _taken(lab: Lab) -> set[str]:
    return {_real(lab.connection(name) or "") for name in lab.controller.meters}


def _real(connection: str) -> str:
    return os.path.realpath(connection) if connection.startswith("/dev/") else connection
