# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig lake`: the results of many campaigns in one place, asked in SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from joulerig.rig.cli.options import out
from joulerig.rig.common.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Results of many campaigns as Parquet files, asked in SQL.")

LakeOption = Annotated[
    Path | None, typer.Option("--lake", help="Folder of the lake; results/lake by default.")
]


@app.command()
def add(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CAMPAIGN]...", help="Campaign ids or results folders; all by default."),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Put campaigns into the lake; one that is in it already is replaced."""
    from joulerig.analysis import results
    from joulerig.analysis.tables import lake as lakes
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    if campaigns:
        folders = [journal.find(paths.results(), campaign) for campaign in campaigns]
    else:
        folders = sorted(path.parent for path in paths.results().glob("*/journal.sqlite"))
    if not folders:
        raise UserError(f"{paths.short(paths.results())}: no campaign yet")
    place = lake or paths.results() / "lake"
    for folder in folders:
        campaign = results.load(folder)
        try:
            rows = lakes.add(campaign, place)
        except lakes.LakeError as error:
            raise UserError(str(error)) from None
        counts = ", ".join(f"{count} {table}" for table, count in rows.items() if table != "campaigns")
        out.print(f"{campaign.id}: {counts}", markup=False, soft_wrap=True)
    out.print(f"lake: {paths.short(place)}", markup=False, soft_wrap=True)


@app.command()
def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="Over campaigns, runs, cells, phases, energy, series.")
    ],
    lake: LakeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask the lake in DuckDB's SQL."""
    from joulerig.analysis.tables import lake as lakes
    from joulerig.rig.common import paths

    try:
        answer = lakes.query(lake or paths.results() / "lake", sql)
    except lakes.LakeError as error:
        raise UserError(str(error)) from None
    if as_json:
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        print(json.dumps(rows, indent=1, default=str))
        return
    table = Table(*map(escape, answer.columns))
    for row in answer.rows:
        table.add_row(*("–" if value is None else escape(str(value)) for value in row))
    out.print(table)
    out.print(f"{len(answer.rows)} row{'' if len(answer.rows) == 1 else 's'}")
