# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the inventory entry of an instrument that a scan found."""

from __future__ import annotations

import itertools
from typing import Any

import yaml

from joulerig.rig.common.errors import UserError, validate
from joulerig.rig.lab.meters import Families
from joulerig.rig.lab.model import Lab, Meter

# What the user corrects where the family of a driver has no default.
TIMING, RATE_HZ = "poll", 1


def entry(
    families: Families, driver: str, connection: str | None, serialcomm: str | None = None
) -> dict[str, Any]:
    """Return the keys of a meter: those that say how it is reached, and those without a default.

    Raises UserError where no inventory can declare that.
    """
    family = families.family(driver)
    found: dict[str, Any] = {"driver": driver}
    if family.transports:
        found["connection"] = connection
    if serialcomm:
        found["serialcomm"] = serialcomm
    if family.timing is None:
        found["timing"] = TIMING
    meter = validate(Meter, {**found, "sample_rate_hz": RATE_HZ}, "scan", context=families)
    if family.rate(1, meter) is None:
        found["sample_rate_hz"] = RATE_HZ
    return found


def free_name(lab: Lab) -> str:
    """Return a name that no meter of the lab has: meter1, or the next that is free."""
    names = (f"meter{number}" for number in itertools.count(1))
    return next(name for name in names if name not in lab.controller.meters)


def declared(lab: Lab, connection: str | None) -> str | None:
    """Return the meter of the inventory that has this connection."""
    meters = lab.controller.meters if connection else {}
    return next((name for name in meters if lab.connection(name) == connection), None)


def advice(
    lab: Lab, families: Families, driver: str, connection: str | None, serialcomm: str | None
) -> list[str]:
    """Return the lines that say what to do with an instrument that answered a scan."""
    if known := declared(lab, connection):
        return [f"this is {known} of the inventory; 'rig meters show {known}' shows its readings"]
    name = free_name(lab)
    try:
        keys = entry(families, driver, connection, serialcomm)
    except UserError as error:
        return [f"an inventory cannot declare it so: {error}"]
    lines = ["to use it, write below 'meters:' in the controller's host_vars:"]
    lines += [f"  {line}" for line in yaml.safe_dump({name: keys}, sort_keys=False).splitlines()]
    if guessed := [key for key in ("timing", "sample_rate_hz") if key in keys]:
        lines.append(f"{' and '.join(guessed)}: as it samples; driver {driver} has no default")
    family = families.family(driver)
    if (why := family.refuse_rail("volts")) and family.refuse_rail("watts"):
        lines.append(f"it {why}")
    else:
        lines.append(
            f"then name its channels in a drive's rails: {{ meter: {name}, volts: CHANNEL, amps: CHANNEL }}"
        )
    return [*lines, f"and check it: 'rig meters show {name}'"]
