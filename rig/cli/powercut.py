# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig powercut`: cut a drive's power, and check what it kept."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from joulerig.analysis.powercut import folder as folders
from joulerig.analysis.powercut import tables
from joulerig.rig.cli.options import JsonOption, out
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Power cuts: whether a drive keeps its word.")
SHOWN_VIOLATIONS = 10


@app.command("drive")
def drive(
    profile: Annotated[str, typer.Option(help="Drive profile of the twin.")],
    cuts: Annotated[int, typer.Option(min=1, help="How many times its power is cut.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the load and of the moments.")] = 1,
    twin: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Parameter of the twin, such as lie=flush; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Cut a twin at its own interface, seconds a cut: its NBD client writes, without a host."""
    from joulerig.rig.powercut import drive as drives

    for program in ("durawriter", "nbdkit-twin-plugin.so"):
        if not paths.program(program).exists():
            raise UserError(f"{paths.short(paths.program(program))}: not built; 'make build' builds it")
    quiet = as_json or not sys.stdout.isatty()
    folder = drives.campaign(profile, cuts, seed, twin or [], (lambda text: None) if quiet else out.print)
    _show(folder, as_json)


@app.command("show")
def show(
    campaign: Annotated[str | None, typer.Argument(help="Campaign id; the newest by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a campaign's ledgers and read-backs again, and show each verdict."""
    _show(_find(campaign), as_json)


@app.command("report")
def report(
    campaign: Annotated[str | None, typer.Argument(help="Campaign id; the newest by default.")] = None,
) -> None:
    """Check a campaign again, and write its report: HTML, PDF, tables."""
    from joulerig.analysis.report import powercut as reports

    for path in reports.write(_find(campaign)):
        out.print(paths.short(path))


def _find(campaign: str | None) -> Path:
    known = sorted(
        (path.parent for path in paths.results().glob(f"*/{folders.MANIFEST}")),
        key=lambda place: json.loads((place / folders.MANIFEST).read_text())["created_ns"],
    )
    if not known:
        raise UserError(
            f"{paths.short(paths.results())}: no power-cut campaign; 'rig powercut drive' makes one"
        )
    if campaign is None:
        return known[-1]
    for place in known:
        if place.name == campaign:
            return place
    raise UserError(f"{campaign!r}: no such power-cut campaign; allowed: {', '.join(p.name for p in known)}")


def _show(folder: Path, as_json: bool) -> None:
    campaign = folders.load(folder)
    if as_json:
        print(json.dumps(as_mapping(campaign, folder), indent=1))
        return
    out.print(f"[bold]{folder.name}[/]" + (" (virtual lab)" if campaign.manifest["virtual"] else ""))
    table = Table(
        "drive", "file system", "cuts", "flushes at risk", "promised writes", "promises broken",
        "unflushed lost", "torn", "reordered", "mJ per durable write",
    )  # fmt: skip
    verdicts = campaign.verdicts()
    for subject in campaign.subjects:
        found = verdicts[subject.name]
        joules = tables.joules_per_durable_write(campaign.cuts[subject.name])
        table.add_row(
            subject.drive, subject.filesystem or "none", str(found.cuts), str(found.flushes),
            str(found.promised_writes), str(found.broken_promises), str(found.acknowledged_lost),
            str(found.acknowledged_torn), str(found.reordered),
            "" if joules is None else f"{1e3 * joules:.3g}",
        )  # fmt: skip
    out.print(table)
    for subject in campaign.subjects:
        out.print(escape(verdicts[subject.name].statement))
        broken = [(cut, v) for cut in campaign.cuts[subject.name] for v in cut.findings.violations]
        for cut, violation in broken[:SHOWN_VIOLATIONS]:
            out.print(f"  cut {cut.number}: {escape(str(violation))}")
        if len(broken) > SHOWN_VIOLATIONS:
            out.print(
                f"  and {len(broken) - SHOWN_VIOLATIONS} more: 'rig powercut show {folder.name} --json'"
            )
        for reason in campaign.failed[subject.name]:
            out.print(f"  {escape(reason)}")


def as_mapping(campaign: folders.Campaign, folder: Path) -> dict[str, Any]:
    """The whole of it for programs: verdicts, cuts, every broken promise by sequence number."""
    verdicts = campaign.verdicts()
    return {
        "id": campaign.manifest["id"],
        "folder": paths.short(folder),
        "virtual": campaign.manifest["virtual"],
        "subjects": [
            {
                **dataclasses.asdict(subject),
                "verdict": dataclasses.asdict(verdicts[subject.name]),
                "joules_per_durable_write": tables.joules_per_durable_write(campaign.cuts[subject.name]),
                "failed": campaign.failed[subject.name],
                "cuts": [
                    {
                        "number": cut.number,
                        **cut.record,
                        "findings": dataclasses.asdict(cut.findings),
                        "durable": dataclasses.asdict(cut.durable),
                    }
                    for cut in campaign.cuts[subject.name]
                ],
            }
            for subject in campaign.subjects
        ],
    }
