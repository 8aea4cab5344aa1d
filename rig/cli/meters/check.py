# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters check`: a resistor on a rail shows whether its meter reads as it did."""

from __future__ import annotations

import getpass
import json
import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from joulerig.rig.cli.meters.command import MeterArgument, free, lab_with
from joulerig.rig.cli.options import JsonOption, finite, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.rig.lab.meters.checks import Check

OUT_OF_CONTROL = 1  # exit code
SHOWN = 10  # checks before this one


def check(
    name: MeterArgument,
    resistor: Annotated[
        float | None,
        typer.Option(metavar="OHMS", min=0, max=1e9, callback=finite, help="The resistor on the rail."),
    ] = None,
    resistor_uncertainty: Annotated[
        str | None,
        typer.Option(metavar="U|U%", help="Its standard uncertainty, in ohms or in percent."),
    ] = None,
    rail: Annotated[
        str | None,
        typer.Option(metavar="HOST/DRIVE/RAIL", help="The rail that it is on (default: the only one)."),
    ] = None,
    supply: Annotated[
        str | None,
        typer.Option(
            metavar="VOLTS[+-U|U%]",
            help="Volts of a supply that is known, with their standard uncertainty. Without them the"
            " meter's own volts are squared.",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, callback=finite, help="Seconds to measure.")
    ] = 100.0,
    steps: Annotated[
        int,
        typer.Option(
            min=0,
            max=100,
            help="Switch the rail off and on as often, by its power tap, to see how late its samples are.",
        ),
    ] = 0,
    celsius: Annotated[
        float | None, typer.Option(min=-273.15, max=1000, callback=finite, help="Temperature at the bench.")
    ] = None,
    operator: Annotated[str | None, typer.Option(help="Who checked (default: you).")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the check without storing it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure V²t/R of a resistor on a rail, and keep it on the meter's control chart.

    Without --resistor, show the chart. Exit code 1: the meter is out of control.
    """
    from joulerig.rig.common import paths
    from joulerig.rig.lab.meters import checks

    described = lab_with(name)
    earlier = checks.load(described, name)
    if resistor is None:
        _show(name, earlier, as_json=as_json)
        return
    if not (math.isfinite(resistor) and resistor > 0):
        raise UserError(f"--resistor: {resistor:g}; allowed: ohms, above 0")
    known = None if supply is None else _supply(supply)
    free(name, "so its resistor cannot be measured now")
    taken = checks.take(
        described,
        name,
        rail,
        resistor,
        seconds=seconds,
        ohms_standard=(
            None
            if resistor_uncertainty is None
            else _relative("--resistor-uncertainty", resistor_uncertainty, resistor)
        ),
        supply=known,
        celsius=celsius,
        operator=operator or getpass.getuser(),
        steps=steps,
    )
    found = checks.judged(taken, earlier)
    file = None if dry_run else checks.store(described, name, found)
    if as_json:
        print(json.dumps(found.model_dump(mode="json"), indent=1))
    else:
        for line in _lines(name, found, earlier):
            out.print(line, soft_wrap=True)
        out.print(f"stored in {paths.short(file)}" if file else "nothing was stored")
    if found.state == "out of control":
        raise typer.Exit(OUT_OF_CONTROL)


def _supply(text: str) -> tuple[float, float]:
    """Parse VOLTS[+-U|U%]; return volts and their relative standard uncertainty."""
    volts, _, uncertain = text.partition("+-")
    try:
        value = float(volts)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UserError(f"--supply: {text!r}; allowed: volts, such as 12.000 or 12.000+-0.02%")
    return value, _relative("--supply", uncertain, value) if uncertain else 0.0


def _relative(option: str, text: str, of: float) -> float:
    """Parse U or U%; return it relative to `of`."""
    from joulerig.rig.lab.meters import bench

    absolute, relative = bench.parse_uncertainty(option, text)
    return relative + absolute / of


def _percent(value: float | None) -> str:
    return "not known" if value is None else f"{100 * value:+.4f} %"


def _within(check: Check) -> str:
    if check.low is None or check.high is None:
        return "no limits yet"
    by = "by the earlier checks" if check.of == "chart" else "by meter and resistor, k = 2"
    return f"{_percent(check.low)} to {_percent(check.high)}, {by}"


def _lines(name: str, check: Check, earlier: list[Check]) -> list[str]:
    """Return what a person needs to know of a check."""
    from joulerig.analysis.energy import check_standard

    lines = [
        f"{name} {check.rail}: {check.joules:.6g} J in {check.seconds:g} s, V²t/R is"
        f" {check.expected_joules:.6g} J: {_percent(check.deviation)}",
        f"limits: {_within(check)}; {check.state}",
    ]
    if (error := check_standard.normalised_error(check.deviation, check.standard)) is not None and error > 1:
        lines.append(
            f"it is {error:.1f} times what meter and resistor explain (k = 2): calibrate, or look at the"
            " wiring"
        )
    if late := check.lateness:
        lines.append(
            f"{late.steps} steps: samples are {1e3 * late.late:+.2f} ms late (± {1e3 * late.reach:.2f} ms;"
            f" {1e3 * late.allowed:g} ms are allowed for), amps {1e3 * late.skew:+.2f} ms after volts"
        )
        lines += late.faults
    if check.state == "out of control":
        good = [one for one in earlier if one.kind == check.kind and one.state == "in control"]
        since = f"since {good[-1].at:%Y-%m-%d %H:%M} UTC, the last check in control," if good else "before it"
        lines.append(f"joules of this meter {since} are in doubt")
    if check.state == "no limits yet":
        before = sum(one.kind == check.kind for one in earlier)
        lines.append(
            f"limits come with {check_standard.LEAST_BASELINE} checks (this is number {before + 1}), or with"
            " the meter's class or calibration and --resistor-uncertainty"
        )
    return lines


def _show(name: str, checks: list[Check], *, as_json: bool) -> None:
    """Show the chart: the newest checks, a line each."""
    if as_json:
        print(json.dumps([one.model_dump(mode="json") for one in checks], indent=1))
        return
    if not checks:
        out.print(f"meter {name}: no check yet; give --resistor OHMS")
        return
    table = Table("UTC", "rail", "ohms", "J measured", "V²t/R", "off", "limits", "state")
    for one in checks[-SHOWN:]:
        table.add_row(
            f"{one.at:%Y-%m-%d %H:%M}", one.rail, f"{one.ohms:g}", f"{one.joules:.6g}",
            f"{one.expected_joules:.6g}", _percent(one.deviation), _within(one), one.state,
        )  # fmt: skip
    out.print(table)
    if len(checks) > SHOWN:
        out.print(f"{len(checks) - SHOWN} before them: --json shows all")
