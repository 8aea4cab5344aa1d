# SPDX-License-Identifier: GPL-3.0-or-later
"""Report drives' health: from a virtual drive's twin, else as its host reported it last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from joulerig.analysis.results.influxdb.client import InfluxError, Queries, Unreachable, quote_string
from joulerig.plural import counted
from joulerig.rig.campaign import contents, drive_record
from joulerig.rig.campaign.contents import Contents
from joulerig.rig.cli.options import JsonOption, load_lab, out
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab
from joulerig.rig.lab.virtual import TruthSource

app = typer.Typer(no_args_is_help=True, help="Show the lab's drives, their health and their history.")

# Figures by name (docs/reference/influxdb.md), with the heading under which people see them. A twin
# counts bytes and seconds.
HEADINGS = {
    "temperature_celsius": "°C",
    "power_on_hours": "hours on",
    "host_bytes_written": "written",
    "nand_bytes_written": "to NAND",
    "erase_count_mean": "erases, mean",
    "erase_count_max": "most",
    "percentage_used": "% used",
    "media_errors": "media errors",
    "power_cycles": "power cycles",
    "unsafe_shutdowns": "unsafe shutdowns",
}


@dataclass(frozen=True)
class Health:
    """A drive's health. `source`: "twin", "host", or "" with the reason; `figures` by name."""

    host: str
    drive: str
    interface: str
    serial: str
    source: str
    reason: str
    figures: dict[str, float]


def health(lab: Lab, host: str | None = None, drive: str | None = None) -> list[Health]:
    """Return the health of the lab's drives, or of those of `host`, or of one.

    Raises UserError for a wrong name.
    """
    from joulerig.rig.campaign import measure
    from joulerig.rig.lab import virtual

    found = []
    meant = _meant(lab, host, drive)
    with measure.client(lab) as database:
        for name, key in meant:
            spec = lab.hosts[name]
            source = virtual.truth_source(lab, name) if key in spec.twins else None
            of = _read_twin(source, name, key) if source else _read_host(lab, database, name, key)
            found.append(Health(name, key, spec.drives[key].interface, spec.drives[key].serial, *of))
    return found


def _meant(lab: Lab, host: str | None, drive: str | None) -> list[tuple[str, str]]:
    """Return (host, drive) of all drives, of those of `host`, or of one.

    Raises UserError for a wrong name.
    """
    if host is not None and host not in lab.hosts:
        raise UserError(f"{host!r} is not a test host; allowed: {', '.join(lab.hosts)}")
    if drive is not None and drive not in lab.hosts[host].drives:
        raise UserError(f"{drive!r} is not a drive of {host}; allowed: {', '.join(lab.hosts[host].drives)}")
    hosts = [host] if host else lab.hosts
    return [(name, key) for name in hosts for key in ([drive] if drive else lab.hosts[name].drives)]


def _read_twin(source: TruthSource, host: str, drive: str) -> tuple[str, str, dict[str, float]]:
    try:
        page = source.state(host, drive)["health"]
    except UserError as error:
        return "", str(error), {}
    page["power_on_hours"] = page.pop("power_on_seconds") / 3600
    return "twin", "", page


def _read_host(lab: Lab, database: Queries, host: str, drive: str) -> tuple[str, str, dict[str, float]]:
    from joulerig.rig.controller import influxdb

    where = f"host = {quote_string(host)} AND drive = {quote_string(drive)}"
    try:
        frame = database.query(
            f"SELECT * FROM drive_health WHERE {where} ORDER BY time DESC LIMIT 1", host=host
        )
    except Unreachable as error:
        return "", f"{error}{influxdb.start_hint(lab)}", {}
    except InfluxError as error:
        return "", str(error), {}
    if frame.is_empty():
        return "", "its host has reported nothing yet", {}
    row: dict[str, Any] = frame.row(0, named=True)
    row["host_bytes_written"] = row.get("data_units_written_bytes")
    return "host", "", {key: row[key] for key in HEADINGS if row.get(key) is not None}


@app.command()
def show(
    host: Annotated[str | None, typer.Argument(metavar="[HOST", help="A test host (default: all).")] = None,
    drive: Annotated[str | None, typer.Argument(metavar="[DRIVE]]", help="A drive of that host.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show bytes written, power cycles, unsafe shutdowns, hours, temperature of drives."""
    from joulerig.rig.lab import model as lab

    found = health(lab.load(), host, drive)
    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=1))
        return
    shown = [name for name in HEADINGS if any(name in one.figures for one in found)]
    table = Table()
    for heading in ("drive", "serial", "source"):
        table.add_column(heading, no_wrap=True)
    for name in shown:
        table.add_column(HEADINGS[name], justify="right")
    for one in found:
        figures = (_text(name, one.figures.get(name)) for name in shown)
        table.add_row(f"{one.host}/{one.drive}", one.serial, one.source or "-", *figures)
    out.print(table)
    for one in found:
        if one.reason:
            out.print(f"{one.host}/{one.drive}: {one.reason}")


DriveArgument = Annotated[str, typer.Argument(metavar="DRIVE", help="A drive or array of that host.")]
HostArgument = Annotated[str, typer.Argument(metavar="HOST", help="A test host.")]


@app.command()
def look(
    host: HostArgument,
    drive: Annotated[str | None, typer.Argument(metavar="[DRIVE]", help="One drive (default: all).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is on drives, as their host reads it, and whether a campaign may wipe it."""
    found = _ask(load_lab(), host, drive)
    if as_json:
        print(json.dumps({name: one.model_dump() for name, one in found.items()}, indent=1))
        return
    for name, one in found.items():
        _show_contents(name, one)


@app.command()
def adopt(
    host: HostArgument,
    drive: DriveArgument,
    yes_wipe: Annotated[
        str | None, typer.Option(metavar="SERIAL", help="The drive's serial: adopt it without a question.")
    ] = None,
) -> None:
    """Release what a drive holds now, for a day: the next campaign may wipe it."""
    described = load_lab()
    (name, one), *more = _ask(described, host, drive).items()
    if more:
        members = ", ".join([name, *(other for other, _ in more)])
        raise UserError(f"{drive}: is not made yet; adopt each of its members: {members}")
    if one.problem:
        raise UserError(one.problem)
    _show_contents(name, one)
    if one.free:
        out.print(f"{host}/{name} may be wiped already: {one.free}")
        return
    expected = one.serial or name
    kind = "serial" if one.serial else "name"
    typed = yes_wipe or typer.prompt(f"All of it will be lost. To release it, type its {kind}, {expected}")
    if typed != expected:
        raise UserError(f"{host}/{name}: {typed!r} is not its {kind}; nothing was changed")
    asked = {**contents.arguments(described, host, [name]), "adopt": one.identity.model_dump(mode="json")}
    answer = contents.ask(described, {host: asked})[host]
    if isinstance(answer, str):
        raise UserError(f"{host}: {answer}")
    out.print(
        f"{host}/{name} is adopted: within a day, the next campaign may wipe what it holds now,"
        " and nothing that is stored there since"
    )


def _ask(described: Lab, host: str, drive: str | None) -> dict[str, Contents]:
    """Return what a host finds on its drives, or on one. Raises UserError."""
    if host not in described.hosts:
        raise UserError(f"{host!r} is not a test host; allowed: {', '.join(described.hosts)}")
    spec = described.hosts[host]
    known = [*spec.drives, *spec.arrays]
    if drive is not None and drive not in known:
        raise UserError(f"{drive!r} is not a drive or array of {host}; allowed: {', '.join(known)}")
    asked = contents.arguments(described, host, [drive] if drive else spec.drives)
    if not asked["names"]:
        raise UserError(f"{drive}: is made of memory by the rig: there is nothing to look at")
    answer = contents.ask(described, {host: asked})[host]
    if isinstance(answer, str):
        raise UserError(f"{host}: {answer}")
    return answer


def _show_contents(name: str, one: Contents) -> None:
    from joulerig import text

    if one.device:
        size = text.size(one.size_bytes) if one.size_bytes else ""
        words = [one.device, one.model or "", f"serial {one.serial}" if one.serial else "", size]
        out.print(Text.assemble((name, "bold"), f"  {'  '.join(filter(None, words))}"))
        out.print(f"  holds {one.holds}")
        for line in one.details:
            out.print(f"  {line}")
    why_not = "this rig did not make what it holds"
    if one.holds == contents.NOTHING:
        why_not = "the inventory has wipe_blank: false"
    verdict = f"may be wiped: {one.free}" if one.free else f"is not wiped: {why_not}"
    out.print(f"  {one.problem or verdict}")


@app.command()
def state(
    host: Annotated[str | None, typer.Argument(metavar="[HOST", help="A test host (default: all).")] = None,
    drive: Annotated[str | None, typer.Argument(metavar="[DRIVE]]", help="A drive of that host.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what was done to drives: purge, passes, precondition, and what was written since."""
    from joulerig.rig.lab import model as lab

    found = {
        (name, key, serial): drive_record.state_after(events)
        for name, key, serial, events in _records(lab.load(), host, drive)
    }
    if as_json:
        rows = ({"host": h, "drive": d, "serial": s, **asdict(one)} for (h, d, s), one in found.items())
        print(json.dumps(list(rows), indent=1))
        return
    columns = ("purged", "passes", "preconditioned", "GB written since", "file system made")
    table = Table("drive", "serial", *columns)
    for (name, key, serial), one in found.items():
        table.add_row(f"{name}/{key}", serial, *_state_texts(one))
    out.print(table)
    for (name, key, _), one in found.items():
        if before := one.preconditioned:
            line = f"{name}/{key}: {before['verdict']['reason']}; before run {before['by']}"
            out.print(line, soft_wrap=True)


def _records(
    described: Lab, host: str | None, drive: str | None
) -> Iterator[tuple[str, str, str, list[dict[str, Any]]]]:
    """Yield (host, drive, serial, events) of the selected drives."""
    with drive_record.DriveRecord() as record:
        for name, key in _meant(described, host, drive):
            serial = described.hosts[name].drives[key].serial
            yield name, key, serial, record.events(serial)


def _state_texts(one: drive_record.State) -> tuple[str, ...]:
    def when(event: Mapping[str, Any] | None, text: str) -> str:
        if event is None:
            return "-"
        return f"{datetime.fromtimestamp(event['time_ns'] // 10**9, UTC):%Y-%m-%d %H:%MZ} {text}"

    before, made = one.preconditioned, one.made
    since = "-" if before is None else f"not known: {one.unknown}"
    if one.written_bytes is not None:
        since = f"{one.written_bytes / 1e9:.2f}"
    return (
        when(one.purged, one.purged["method"] if one.purged else ""),
        f"written from end to end, {counted(one.filled['times'], 'time')}" if one.filled else "-",
        when(before, "steady" if before and before["verdict"]["steady"] else "not steady"),
        since,
        when(made, made["command"].split()[0] if made else ""),
    )


def _text(name: str, figure: float | None) -> str:
    from joulerig import text

    if figure is None:
        return "-"
    if "bytes" in name:
        return text.size(round(figure)) if figure else "0"
    return str(figure) if isinstance(figure, int) else f"{figure:.1f}"
