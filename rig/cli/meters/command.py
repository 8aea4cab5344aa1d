# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters`: what a person at the bench asks of meters."""

from __future__ import annotations

import datetime
import getpass
import json
import math
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from joulerig.rig.cli.options import JsonOption, errors, finite, out
from joulerig.rig.common.errors import RIG_UP, UserError

app = typer.Typer(no_args_is_help=True, help="Find, read, check and calibrate the lab's meters.")

MeterArgument = Annotated[str, typer.Argument(metavar="METER", help="A meter of the inventory.")]
UNITS = {"volts": "V", "amps": "A", "watts": "W"}


def lab_with(name: str | None = None):
    """Return the lab; raises UserError unless it has a meter `name`."""
    from joulerig.rig.lab import model as lab

    described = lab.load()
    if name is not None and name not in described.controller.meters:
        allowed = ", ".join(described.controller.meters) or "none is declared"
        raise UserError(f"{name!r} is not a meter of the controller; allowed: {allowed}")
    return described


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def running_meters() -> dict[str, dict[str, Any]]:
    """Return powerd's status of its meters, by name; empty where powerd does not run."""
    from joulerig.rig.controller import services

    try:
        return {meter["name"]: meter for meter in services.powerd_status()["meters"]}
    except UserError:
        return {}


def _identity(status: dict[str, Any]) -> dict[str, str] | None:
    """Return the instrument's identity as powerd received it; None where it sent none."""
    identity = status.get("instrument") or {}
    return identity if any(identity.values()) else None


def free(name: str, why: str) -> None:
    """Raise UserError where powerd has the meter: two readers would take one another's answers."""
    if name in running_meters():
        raise UserError(f"meter {name}: in use by powerd, {why}; 'rig down' stops it")


def _connection(described, name: str) -> str:
    meter = described.controller.meters[name]
    if meter.virtual:
        return f"virtual tap {meter.virtual.tap}, port {meter.virtual.port}"
    return described.connection(name) or "-"


def _in_words(held: dict[str, Any]) -> str:
    """Describe a calibration's state, and why or until when."""
    return f"{held['state']}, {held['reason'] or 'until ' + held['expires']}"


def _rails(described, name: str) -> list[dict[str, Any]]:
    return [
        {"rail": rail, "host": host, "drive": drive, "channels": wiring.channels, **_other_volts(wiring)}
        for host, drive, rail, wiring in described.meter_rails(name)
    ]


def _other_volts(wiring: Any) -> dict[str, Any]:
    """Return where a rail's volts come from, if they are not its meter's."""
    if wiring.stated:
        return {"stated": wiring.stated.model_dump()}
    return {"volts_of": f"{wiring.volts_meter}:{wiring.volts}"} if wiring.volts_meter else {}


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """Show the inventory's meters: driver, connection, rails, state, calibration."""
    from joulerig.rig.lab.meters import calibration

    described = lab_with()
    running = running_meters()
    rows = []
    for name, meter in described.controller.meters.items():
        status = running.get(name, {})
        rows.append(
            {
                "meter": name,
                "driver": meter.driver,
                "connection": _connection(described, name),
                "timing": meter.timing,
                "sample_rate_hz": meter.sample_rate_hz,
                "rails": _rails(described, name),
                "state": status.get("state", "not running"),
                "reason": status.get("reason", ""),
                "calibration": calibration.summary(described, name, _today(), _identity(status)),
            }
        )
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table("meter", "driver", "connection", "rails", "state", "calibration")
    for row in rows:
        rails = ", ".join(f"{r['host']}/{r['drive']}/{r['rail']}" for r in row["rails"])
        held = row["calibration"]
        table.add_row(
            row["meter"], row["driver"], row["connection"], rails or "none (a reference)",
            row["state"], _in_words(held),
        )  # fmt: skip
    out.print(table if rows else "the inventory declares no meter")
    for line in calibration.warnings(described, _today()):
        out.print(line)


def _measured(described, name: str, status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the newest volts, amps, watts and joules of each rail from powerd."""
    wired = {
        (r["host"], r["drive"], r["rail"]): {
            *r["channels"],
            *(["volts"] if r.keys() & {"stated", "volts_of"} else []),
        }
        for r in _rails(described, name)
    }
    rows = []
    for rail in status["rails"]:
        key = (rail["host"], rail["drive"], rail["rail"])
        has = {"watts", *wired.get(key, set())}
        figures = {quantity: rail.get(quantity) if quantity in has else None for quantity in UNITS}
        rows.append(
            {**dict(zip(("host", "drive", "rail"), key, strict=True)), **figures, "joules": rail["joules"]}
        )
    return rows


def _sample_rows(described, name: str, samples: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows like `_measured`, from uncorrected samples (n,) of channels."""
    import numpy as np

    from joulerig.rig.lab.meters import calibration, source

    corrections = calibration.corrections(described, name)
    meter = described.controller.meters[name]
    rows = []
    for rail in _rails(described, name):
        values = {
            quantity: calibration.corrected(np.asarray(samples[channel]), corrections.get(channel))
            for quantity, channel in rail["channels"].items()
            if channel in samples
        }
        if "stated" in rail and "amps" in values:
            values["volts"] = np.full(len(values["amps"]), rail["stated"]["volts"])
        if {"volts", "amps"} <= set(values):
            values["watts"] = source.power(meter, values["volts"], values["amps"])
        row = {
            quantity: float(values[quantity].mean()) if len(values.get(quantity, ())) else None
            for quantity in UNITS
        }
        row["joules"] = None
        rows.append({**{key: rail[key] for key in ("host", "drive", "rail")}, **row})
    return rows


def _budgets(
    described, name: str, readings: list[dict[str, Any]], held: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the uncertainty budget of each rail at its present reading."""
    from joulerig.rig.lab.meters import uncertainty

    classes = described.controller.meters[name].accuracy
    rails = {(r["host"], r["drive"], r["rail"]): r for r in _rails(described, name)}
    rows = []
    for reading in readings:
        key = (reading["host"], reading["drive"], reading["rail"])
        budgets = {}
        rail = rails.get(key, {"channels": {}})
        if stated := rail.get("stated"):
            budgets["volts"] = uncertainty.stated_budget(stated["volts"], stated["tolerance"])
        for quantity, channel in rail["channels"].items():
            if quantity in UNITS and reading.get(quantity) is not None:
                correction = held["channels"].get(channel)
                budgets[quantity] = uncertainty.reading_budget(
                    reading[quantity], classes.get(quantity), correction, _today()
                )
        if {"volts", "amps"} <= set(budgets):
            watts = uncertainty.power_uncertainty(budgets["volts"], budgets["amps"])
        else:
            watts = budgets["watts"].standard if "watts" in budgets else math.nan
        rows.append(
            {
                **dict(zip(("host", "drive", "rail"), key, strict=True)),
                **{quantity: budget.as_dict() for quantity, budget in budgets.items()},
                "watts_value": reading.get("watts"),
                "watts_standard": None if math.isnan(watts) else watts,
            }
        )
    return rows


LEDGER = (
    "expected",
    "samples",
    "lost",
    "duplicate",
    "repeated",
    "over_range",
    "impossible",
    "surplus",
    "gap_seconds",
    "worst_gap_seconds",
    "restarts",
)


@app.command()
def show(name: MeterArgument, as_json: JsonOption = False) -> None:
    """Show a meter: identity, channels, rates, ledger, clock, calibration, uncertainty budget."""
    from joulerig.rig.lab.meters import calibration, source

    described = lab_with(name)
    meter = described.controller.meters[name]
    status = running_meters().get(name, {})
    problem = ""
    instrument = _identity(status)
    readings = _measured(described, name, status) if status else []
    if not status:
        try:
            channels = list(described.meter_channels(name))
            if channels:
                means, instrument = source.average(described, name, channels, 1.0)
                readings = _sample_rows(described, name, {ch: [mean.value] for ch, mean in means.items()})
            else:
                instrument = source.scan(
                    source.driver(described, name), described.controller.meters[name].family
                )[0]
        except UserError as error:
            problem = str(error)
    held = calibration.summary(described, name, _today(), instrument)
    row = {
        "meter": name,
        "driver": meter.driver,
        "connection": _connection(described, name),
        "instrument": {k: instrument.get(k, "") for k in ("vendor", "model", "version", "serial")}
        if instrument
        else None,
        "problem": problem,
        "state": status.get("state", "not running"),
        "reason": status.get("reason", ""),
        "timing": meter.timing,
        "samples": meter.samples,
        "channels": described.meter_channels(name),
        "sample_rate_hz": meter.sample_rate_hz,
        "observed_rate_hz": status.get("observed_rate_hz"),
        "ledger": {key: status[key] for key in LEDGER if key in status},
        "clock_residual_seconds": status.get("clock_residual_seconds"),
        "readings": readings,
        "calibration": held,
        "uncertainty": _budgets(described, name, readings, held),
    }
    if as_json:
        print(json.dumps(row, indent=1))
        return
    _print_meter(row)


def _number(value: float | None, unit: str = "", digits: int = 4) -> str:
    return "not known" if value is None else f"{value:.{digits}g} {unit}".strip()


def _print_meter(row: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    identity = row["instrument"]
    instrument = ", ".join(f"{k} {v}" for k, v in identity.items() if v) if identity else "unknown"
    table.add_row("driver", f"{row['driver']} at {row['connection']}")
    table.add_row("instrument", row["problem"] or instrument)
    table.add_row("state", " ".join(filter(None, (row["state"], row["reason"]))))
    table.add_row("channels", ", ".join(f"{ch} {q}" for ch, q in row["channels"].items()) or "none in use")
    observed = f", observed {row['observed_rate_hz']:.6g} Hz" if row["observed_rate_hz"] else ""
    table.add_row("rate", f"{row['timing']}, declared {row['sample_rate_hz']:.6g} Hz{observed}")
    if row["ledger"]:
        table.add_row("ledger", ", ".join(f"{key} {value:.6g}" for key, value in row["ledger"].items()))
    if row["clock_residual_seconds"] is not None:
        table.add_row("clock residual", f"{row['clock_residual_seconds'] * 1e6:.1f} us")
    held = row["calibration"]
    words = [_in_words(held), held.get("certificate", "")]
    table.add_row("calibration", ", ".join(filter(None, words)))
    for channel, one in held["channels"].items():
        unit = UNITS[one["quantity"]]
        table.add_row(
            f"  {channel}",
            f"gain {one['gain']:.6f} (u {_number(one['u_gain'])}), offset {one['offset']:.3e} {unit}"
            f" (u {_number(one['u_offset'], unit)}), {one['state']} until {one['expires']}",
        )
    out.print(table)
    if not row["uncertainty"]:
        return
    budget = Table(
        "rail", "quantity", "value", "class", "calibration", "reference", "since", "last digit", "u (k=1)"
    )
    for rail in row["uncertainty"]:
        where = f"{rail['host']}/{rail['drive']}/{rail['rail']}"
        for quantity, unit in UNITS.items():
            if quantity in rail:
                one = rail[quantity]
                parts = [
                    _number(one[k], unit, 2)
                    for k in ("meter_class", "calibration", "reference", "since", "quantisation", "standard")
                ]
                budget.add_row(where, quantity, _number(one["value"], unit, 6), *parts)
        if "watts" not in rail and rail["watts_value"] is not None:
            standard = _number(rail["watts_standard"], "W", 2)
            budget.add_row(where, "watts", _number(rail["watts_value"], "W", 6), "", "", "", "", "", standard)
    out.print(budget)


@app.command()
def watch(
    name: MeterArgument,
    interval: Annotated[
        float, typer.Option(min=0.1, max=60, callback=finite, help="Seconds between two lines.")
    ] = 1.0,
    count: Annotated[int, typer.Option(min=0, max=10**9, help="Stop after this many lines (0: never).")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show live volts, amps and watts of a meter's rails, from powerd or else from the meter."""
    described = lab_with(name)
    if not _rails(described, name):
        raise UserError(f"meter {name}: measures no rail; 'rig meters show {name}' lists its channels")
    rows = (
        _powerd_rows(described, name, interval)
        if name in running_meters()
        else _own_rows(described, name, interval)
    )
    with Live(console=out, auto_refresh=False, transient=False) as live:
        for number, readings in enumerate(rows, start=1):
            if as_json:
                print(json.dumps({"time_ns": time.time_ns(), "meter": name, "rails": readings}), flush=True)
            else:
                live.update(_rail_table(name, readings), refresh=True)
            if number == count:
                break


def _powerd_rows(described, name: str, interval: float) -> Iterator[list[dict[str, Any]]]:
    while True:
        status = running_meters().get(name)
        if status is None:
            raise UserError(f"meter {name}: powerd has ended; {RIG_UP}")
        yield _measured(described, name, status)
        time.sleep(interval)


def _own_rows(described, name: str, interval: float) -> Iterator[list[dict[str, Any]]]:
    from joulerig.rig.lab.meters import source

    with source.Reading(described, name, list(described.meter_channels(name))) as reading:
        parts: dict[str, list] = {}
        last: dict[str, list] = {}
        due = time.monotonic() + interval
        for block in reading.blocks():
            parts.setdefault(block.channel, []).extend(block.samples)
            if time.monotonic() >= due:
                due = max(due + interval, time.monotonic())
                # A slow channel keeps what it read last.
                last |= parts
                parts = {}
                yield _sample_rows(described, name, last)


def _rail_table(name: str, readings: list[dict[str, Any]]) -> Table:
    table = Table("host", "drive", "rail", "volts", "amps", "watts", "joules", title=f"meter {name}")
    for row in readings:
        figures = (
            "-" if row[key] is None else f"{row[key]:.{digits}f}"
            for key, digits in (("volts", 4), ("amps", 5), ("watts", 4), ("joules", 2))
        )
        table.add_row(row["host"], row["drive"], row["rail"], *figures)
    return table


@app.command()
def calibrate(
    name: MeterArgument,
    channel: Annotated[str, typer.Option(help="The channel, by libsigrok's name.")],
    point: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REFERENCE[=READING]",
            help="A reference value and the meter's reading, two or more times. Without READING, the"
            " reading is averaged now.",
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="METER:CHANNEL", help="Read the reference values from this meter.")
    ] = None,
    points: Annotated[int, typer.Option(min=2, max=100, help="Number of points, with --reference.")] = 3,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, callback=finite, help="Seconds to average over.")
    ] = 5.0,
    reference_uncertainty: Annotated[
        str,
        typer.Option(metavar="U|U%", help="The reference's standard uncertainty, in V or A, or in percent."),
    ] = "0",
    reference_instrument: Annotated[str, typer.Option(help="The reference instrument.")] = "",
    certificate: Annotated[str, typer.Option(help="Number of the certificate.")] = "",
    laboratory: Annotated[str, typer.Option(help="Issuer of the certificate.")] = "",
    operator: Annotated[str | None, typer.Option(help="Who calibrated (default: you).")] = None,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Date of the calibration (default: today).")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DD", help="Last valid day (default: a year after the date)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the fit without storing it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a channel's gain and offset to reference points, and store them next to the inventory."""
    from joulerig.rig.common import paths
    from joulerig.rig.lab.meters import bench, calibration

    described = lab_with(name)
    if bool(point) == bool(reference):
        raise UserError("calibrate: needs either --point (twice or more) or --reference METER:CHANNEL")
    done = _day("--date", date) or _today()
    until = _day("--expires", expires) or bench.a_year_after(done)
    if until < done:
        raise UserError(f"--expires: {until} is before the calibration's date, {done}")
    offset_uncertainty, gain_uncertainty = bench.parse_uncertainty(
        "--reference-uncertainty", reference_uncertainty
    )
    if reference:
        other, _, other_channel = reference.partition(":")
        lab_with(other)
        if other == name or not other_channel:
            raise UserError(f"--reference: {reference!r} is not METER:CHANNEL of another meter")
        for one in (name, other):
            free(one, "so it cannot be calibrated or a reference now")
        taken = bench.from_reference(described, name, channel, other, other_channel, points, seconds, _ask)
        if not (offset_uncertainty or gain_uncertainty) or not math.isnan(taken.reference_uncertainty):
            offset_uncertainty = math.hypot(offset_uncertainty, taken.reference_uncertainty)
        reference_instrument = reference_instrument or taken.reference_instrument
    else:
        typed = [bench.parse_point(text) for text in point]
        if any(reading is None for _, reading in typed):
            free(name, "so its reading cannot be averaged now; give REFERENCE=READING")
        status = running_meters().get(name)
        known = _identity(status or {})
        taken = bench.from_points(described, name, channel, typed, seconds, _ask, known, ask=status is None)
    record = bench.record(
        described, name, channel, taken, offset_uncertainty, gain_uncertainty,
        date=done, expires=until, certificate=certificate, laboratory=laboratory,
        reference_instrument=reference_instrument, operator=operator or getpass.getuser(),
    )  # fmt: skip
    before = calibration.load(described, name)
    replaced = before.records.get(channel) if before else None
    if not dry_run:
        file = calibration.store(described, name, channel, record)
    if as_json:
        print(json.dumps(record.model_dump(mode="json"), indent=1))
        return
    _print_record(name, channel, record)
    if replaced and (why := calibration.differs(replaced.instrument, record.instrument)):
        out.print(f"the previous calibration is not this instrument's: {why}")
    if dry_run:
        out.print("nothing was stored")
    else:
        out.print(f"stored in {paths.short(file)}; it takes effect at the next 'rig up'")


def _day(option: str, text: str | None) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        raise UserError(f"{option}: {text!r} is not a date; allowed: YYYY-MM-DD") from None


def _ask(text: str) -> None:
    """Wait until the person at the bench has set what `text` says."""
    errors.print(f"{text}, then press Enter: ", end="", soft_wrap=True)
    if not sys.stdin.readline():
        raise UserError("standard input ended before all points were set")


def _print_record(name: str, channel: str, record: Any) -> None:
    unit = UNITS[record.quantity]
    table = Table(f"reference ({unit})", f"reading ({unit})", f"residual ({unit})")
    for one in record.points:
        table.add_row(f"{one.reference:.7g}", f"{one.reading:.7g}", f"{one.residual:+.2e}")
    out.print(table)
    out.print(
        f"{name} {channel}: gain {record.gain:.7f} (u {_number(record.u_gain)}),"
        f" offset {record.offset:+.4e} {unit} (u {_number(record.u_offset, unit)}),"
        f" residuals {record.residual_rms:.2e} {unit} rms; valid until {record.expires}"
    )
