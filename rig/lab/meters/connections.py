# SPDX-License-Identifier: GPL-3.0-or-later
"""Reach the same instrument after each plug and each start: links, serials, and what it reports."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters.family import Family


class Declared(Protocol):
    """A meter of an inventory."""

    @property
    def driver(self) -> str: ...
    @property
    def connection(self) -> str | None: ...
    @property
    def serial(self) -> str | None: ...
    @property
    def family(self) -> Family: ...


LINK = "{link}"
"""In a driver's specification: where powerd puts the port that a link leads to."""
_NUMBERED = re.compile(r"/dev/tty(USB|ACM)\d+|usbtmc/\d+\.\d+")


def is_link(connection: str | None) -> bool:
    """Return whether a connection is a link to a port, such as /dev/serial/by-id/..."""
    return bool(connection) and str(connection).startswith("/dev/") and not is_kernels(str(connection))


def is_kernels(connection: str) -> bool:
    """Return whether a connection is a name that the kernel itself gives a port."""
    return re.fullmatch(r"/dev/(tty|pts/)\w+", connection) is not None


def port(connection: str | None) -> str | None:
    """Return the port that a connection leads to now. Raises UserError where that is nowhere."""
    if not is_link(connection):
        return connection
    assert connection
    if not os.path.exists(connection):
        raise UserError(f"{connection}: is not there: unplugged? 'ls /dev/serial/by-id' shows the ports")
    return os.path.realpath(connection)


def is_numbered(connection: str | None) -> bool:
    """Return whether the kernel gives out a connection in the order in which devices come."""
    return bool(connection) and _NUMBERED.fullmatch(str(connection)) is not None


def alike(meters: Mapping[str, Declared]) -> Iterator[tuple[str, str]]:
    """Yield each meter that could be another one after the next plug, and why.

    Two instruments of one driver on ports that the kernel numbers as they come cannot be kept
    apart, unless the driver reports their serials and both are declared.
    """
    first: dict[str, tuple[str, bool]] = {}
    for name, meter in meters.items():
        if not is_numbered(meter.connection):
            continue
        known = bool(meter.serial) and meter.family.reports_serial
        other, other_known = first.setdefault(meter.driver, (name, known))
        if other != name and not (known and other_known):
            serials = ", or the serial of each" if meter.family.reports_serial else ""
            yield (
                name,
                (
                    f"{meter.connection!r}: {other} is another {meter.driver}, and the kernel numbers"
                    " such ports as they come; allowed: /dev/serial/by-id/... or /dev/serial/by-path/..."
                    f"{serials}"
                ),
            )


def expected(meter: Declared) -> dict[str, str]:
    """Return what the instrument has to report of itself, as powerd takes it."""
    found = {"serial": meter.serial} if meter.serial and meter.family.reports_serial else {}
    if meter.family.serial_pattern:
        found |= {"serial_pattern": meter.family.serial_pattern, "otherwise": meter.family.otherwise}
    return found


def check(meter: Declared, reported: Mapping[str, Any]) -> None:
    """Raise UserError where an instrument is not the declared one."""
    serial, wanted = str(reported.get("serial") or ""), expected(meter)
    if serial and serial != wanted.get("serial", serial):
        raise UserError(f"the instrument is serial {serial!r}, and serial {wanted['serial']!r} is declared")
    if "serial_pattern" in wanted and not re.search(wanted["serial_pattern"], serial):
        identity = " ".join(str(reported.get(key) or "") for key in ("vendor", "model"))
        raise UserError(f"{identity}, serial {serial!r}, is not what is declared: {wanted['otherwise']}")
