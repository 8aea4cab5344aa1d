# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig twin`: fit a virtual drive's profile to a measured drive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from joulerig import atomic
from joulerig.plural import counted
from joulerig.rig.cli.options import JsonOption, complain, out
from joulerig.rig.common.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Fit twins, the virtual lab's drives, to measured ones.")


@app.callback()
def _group() -> None:
    """Keep `fit` a command of the group though it is the only one."""


@app.command("fit")
def fit(
    source: Annotated[str, typer.Argument(help="Table (FILE.csv), or a campaign's id or results folder.")],
    base: Annotated[
        str, typer.Option(metavar="PROFILE", help="Profile, or FILE.yml, for what the data leave open.")
    ] = "nvme-consumer",
    drive: Annotated[str, typer.Option(help="Drive of the campaign (default: its only one).")] = "",
    description: Annotated[str, typer.Option(help="What the fitted drive is.")] = "",
    into: Annotated[Path | None, typer.Option(metavar="FILE.yml", help="Write the profile there.")] = None,
    print_json: JsonOption = False,
) -> None:
    """Fit a profile to a drive's rates and watts; show residuals and errors on rows left out."""
    if into is not None:
        _check_target(into)
    found = _fit_table(source, base, description) if source.endswith(".csv") else None
    if found is None:
        found = _fit_campaign(source, drive, base, description)
    if into is not None:
        _write(into, found["profile"])
    if print_json:
        print(json.dumps(found, indent=1))
        return
    show(found)
    if into is not None:
        out.print(f"{into}: written", soft_wrap=True)
    else:
        out.print(found["profile"], soft_wrap=True)


def show(found: dict[str, Any]) -> None:
    """Print a fit: parameters, residuals by row, and the greatest errors."""
    parameters = Table("parameter", "value", "standard uncertainty", "unit", "")
    for one in found["parameters"]:
        uncertain = "" if one["uncertainty"] is None else f"{one['uncertainty']:.2g}"
        how = "fitted" if one["fitted"] else "of the base: the data leave it open"
        parameters.add_row(one["key"], f"{one['value']:.4g}", uncertain, one["unit"], how)
    out.print(parameters)
    rows = Table("operation", "bytes", "depth", "ampl.", "MB/s", "W", *HEADINGS)
    for row in found["rows"]:
        errors = [_percent(row[name]) for name in HEADINGS.values()]
        depth, amplification = row["queue_depth"] or "", f"{row['amplification']:.3g}"
        rate, watts = f"{row['bytes_per_second'] / 1e6:.4g}", f"{row['watts']:.3f}"
        rows.add_row(
            row["operation"], f"{row['request_bytes']}", f"{depth}", amplification, rate, watts, *errors
        )
    out.print(rows)
    out.print(f"errors: model over measurement; held out: {found['hold_out']}", soft_wrap=True)
    for kind in ("worst", "rms"):
        parts = [f"{name} {_percent(found[kind][key]) or '-'}" for name, key in HEADINGS.items()]
        out.print(f"{kind}: {', '.join(parts)}", soft_wrap=True)


HEADINGS = {
    "rate, %": "rate_error",
    "watts, %": "watts_error",
    "held out: rate, %": "held_out_rate_error",
    "held out: watts, %": "held_out_watts_error",
}


def _percent(error: float | None) -> str:
    return "" if error is None else f"{100 * error:.1f}"


def _check_target(into: Path) -> None:
    if into.suffix != ".yml":
        raise UserError(f"--into: {into}: allowed: a file NAME.yml")
    if into.exists():
        raise UserError(f"--into: {into}: is there already; it is not replaced")


def _write(into: Path, text: str) -> None:
    try:
        atomic.write(into, text.encode())
    except OSError as error:
        raise UserError(f"--into: {into}: cannot be written: {error.strerror}") from None


def _fit_table(source: str, base: str, description: str) -> dict[str, Any]:
    from joulerig.rig.lab import virtual

    return virtual.fit_table(Path(source), base, description or f"drive of {Path(source).name}")


def _fit_campaign(source: str, drive: str, base: str, description: str) -> dict[str, Any]:
    from joulerig.analysis import results
    from joulerig.analysis.runs import loads
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths
    from joulerig.rig.lab import virtual

    campaign = results.load(journal.find(paths.results(), source))
    drives = sorted({run.drive for run in campaign.runs})
    drive = drive or (drives[0] if len(drives) == 1 else "")
    if drive not in drives:
        raise UserError(f"--drive: {drive!r} is no drive of {campaign.id}; allowed: {', '.join(drives)}")
    found, left_out = loads.loads(campaign, drive)
    for why, runs in left_out.items():
        complain(f"left out: {counted(runs, 'run')}: {why}")
    name = f"{drive} of {campaign.id}"
    rows = [
        (
            {
                "operation": one.operation,
                "request_bytes": one.request_bytes,
                "bytes_per_second": one.bytes_per_second,
            }
            | ({"queue_depth": one.queue_depth} if one.queue_depth else {}),
            one.watts,
        )
        for one in found
    ]
    return virtual.fit_loads(rows, base, description or f"drive like {name}", name)
