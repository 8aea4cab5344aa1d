# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters scan`: what answers at the inventory's meters, and what is not declared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joulerig.rig.cli.meters.command import free, lab_with, running_meters
from joulerig.rig.cli.options import JsonOption, finite, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.rig.lab.meters import Families
    from joulerig.rig.lab.model import Lab


def scan(
    driver: Annotated[str | None, typer.Option(help="libsigrok's driver, such as scpi-pps.")] = None,
    connection: Annotated[
        str | None, typer.Option(help="libsigrok's conn, such as tcp-raw/HOST/PORT or /dev/ttyUSB0.")
    ] = None,
    serialcomm: Annotated[str | None, typer.Option(help="Serial line settings, such as 9600/8n1.")] = None,
    seconds: Annotated[
        float,
        typer.Option(min=0.2, max=600, callback=finite, help="How long to wait for each reply, in seconds."),
    ] = 5.0,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Ask at undeclared serial ports too. Sends bytes to what is there."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the inventory's instruments and undeclared ones, or ask at --driver and --connection."""
    from joulerig.rig.lab import meters
    from joulerig.rig.lab.meters import connections, declaration, source

    described = lab_with()
    running = running_meters()
    families = meters.available(described.folder)
    if driver is None:
        if connection or serialcomm:
            raise UserError("--driver: missing; with --connection it names libsigrok's driver")
        asked = dict.fromkeys(described.controller.meters, "")
        unplugged: dict[str, str] = {}
        for name in asked:
            try:
                asked[name] = "" if name in running else source.driver(described, name)
            except UserError as error:
                unplugged[name] = str(error)
    else:
        there = meters.other.drivers()
        if there and driver not in there and driver not in families.by_driver:
            raise UserError(
                f"--driver: {driver!r} is not a driver of this libsigrok, and no capturer"
                f"{families.hint(driver)} allowed: those that 'sigrok-cli -L' lists,"
                f" {', '.join(name for name, one in families.by_driver.items() if one.capturer)}"
            )
        for name, meter in described.controller.meters.items():
            if connection and meter.connection == connection:
                free(name, "so it cannot be asked now")
        options = families.family(driver).options
        port = connections.port(connection)
        asked = {driver: source.specification(driver, port, serialcomm, options)}
    found = []
    for name, specification in asked.items():
        row: dict[str, Any] = {
            "asked": name,
            "specification": specification,
            "problem": "",
            "instruments": [],
        }
        try:
            if driver is None and name in unplugged:
                row["problem"] = unplugged[name]
            elif specification:
                family = families.family(specification.partition(":")[0])
                meter = described.controller.meters[name] if driver is None else None
                row["instruments"] = source.scan(specification, family, seconds, meter)
            else:
                row["problem"] = "not asked: in use by powerd"
        except UserError as error:
            row["problem"] = str(error)
        found.append(row)
    others = _undeclared(described, families, seconds if probe else None) if driver is None else []
    if as_json:
        print(json.dumps([*found, *others], indent=1))
    else:
        for line in _scan_lines(found, declared=driver is None):
            out.print(line, soft_wrap=True)
        for line in _undeclared_lines(described, families, others, probed=probe):
            out.print(line, soft_wrap=True)
    if driver is not None:
        if found[0]["problem"]:
            raise UserError(f"{found[0]['problem']}; check its power, its cable and --connection")
        if not as_json:
            for one in found[0]["instruments"]:
                at = connection or one["connection"] or None
                for line in declaration.advice(described, families, driver, at, serialcomm):
                    out.print(line, soft_wrap=True)


def _undeclared(described: Lab, families: Families, probe_seconds: float | None) -> list[dict[str, Any]]:
    """Return what no inventory names, a row each as of the inventory's meters."""
    from joulerig.rig.lab.meters import discovery

    found = discovery.instruments(described)
    rows = [
        {"asked": one["driver"], "specification": "", "problem": "", "instruments": [one], "port": ""}
        for one in found
    ]
    for port in discovery.ports(described, found):
        answered = [] if probe_seconds is None else discovery.probe(port, families, probe_seconds)
        rows.append(
            {
                "asked": answered[0]["driver"] if answered else "",
                "specification": "",
                "problem": "" if answered else port.what,
                "instruments": answered,
                "port": port.connection,
            }
        )
    return rows


def _undeclared_lines(
    described: Lab, families: Families, rows: list[dict[str, Any]], *, probed: bool
) -> Iterator[str]:
    """Yield what was found, and how an inventory declares it."""
    from joulerig.rig.lab.meters import declaration

    for row in rows:
        for one in row["instruments"]:
            yield (
                f"not in the inventory: {one['driver']} at {one['connection']}:"
                f" {' '.join(filter(None, (one['vendor'], one['model'], one['serial'])))}"
            )
            yield from declaration.advice(described, families, one["driver"], one["connection"] or None, None)
        if row["port"] and not row["instruments"]:
            yield f"not in the inventory: {row['port']}: {row['problem']}"
    if any(row["port"] and not row["instruments"] for row in rows):
        yield (
            "nothing known answers there; --driver and --connection ask as another driver"
            if probed
            else "'rig meters scan --probe' asks there as each known family of serial instruments"
        )


def _scan_lines(found: list[dict[str, Any]], *, declared: bool) -> Iterator[str]:
    """Yield what answered, a line each; of `declared` meters also what to do next."""
    for row in found:
        if row["problem"] and declared:
            yield f"{row['asked']}: {row['problem']}"
        for one in row["instruments"]:
            identity = " ".join(filter(None, (one["vendor"], one["model"], one["version"])))
            serial = f", serial {one['serial']}" if one["serial"] else ""
            analog = [ch["name"] for ch in one["channels"] if ch["type"] == "analog"]
            yield f"{row['asked']}: {identity}{serial}; channels {', '.join(analog)}"
    if not declared:
        return
    if not found:
        yield "the inventory declares no meter; ask another instrument with --driver and --connection"
    if any(row["instruments"] for row in found):
        yield "next: 'rig meters show METER' shows a meter's readings, rates and accuracy"
    if any(row["problem"] and row["specification"] for row in found):
        yield (
            "where none answers: check the meter's power and cable, and its 'connection' in the controller's"
            " host_vars; 'rig up' starts a virtual tap"
        )
    if any(not row["specification"] for row in found):
        yield "a meter that powerd reads: 'rig meters show METER', or 'rig down' and scan again"
