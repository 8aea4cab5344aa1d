# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's results for a person's terminal and, as JSON, for a program."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from analysis import results, tables
from rig.journal import Journal


def not_ok(journal: Journal) -> list[dict[str, Any]]:
    """Runs that were to be done and are not ok: excluded ones are not among them."""
    return [
        run
        for run in journal.runs()
        if run["status"] != "ok"
        and not (run["status"] == "not-run" and run["reason"].startswith("excluded:"))
    ]


def write_tables(folder: Path) -> list[Path]:
    """runs.csv and cells.csv of a campaign, in its report folder."""
    return tables.write(results.load(folder), folder / "report")


def as_json(folder: Path) -> dict[str, Any]:
    """Every run: id, cell, status with reason, phases, performance, joules measured and true, error, AI."""
    campaign = results.load(folder)
    runs = []
    for run in campaign.runs:
        done, result = run.performance, run.result
        runs.append(
            {
                "id": run.id,
                "cell": run.cell,
                "host": run.host,
                "replicate": run.replicate,
                "status": run.status,
                "reason": run.reason,
                "phases": [
                    {"phase": p.phase, "start_ns": p.start_ns, "end_ns": p.end_ns, "seconds": p.seconds}
                    for p in run.phases.values()
                ],
                "performance": vars(done) if done else None,
                "joules": result.joules if result else None,
                "true_joules": result.true_joules if result else None,
                "error_percent": result.error_percent if result else None,
                "mean_watts": result.mean_watts if result else None,
                "ai_ops_per_joule": result.ai_ops_per_joule if result else None,
                "ai_mb_per_joule": result.ai_mb_per_joule if result else None,
                "energy": [vars(rail) for rail in run.energy],
                "io": [vars(count) for count in run.io.values()],
            }
        )
    return {
        "campaign": campaign.id,
        "question": campaign.question,
        "virtual_lab": campaign.virtual,
        "finished": campaign.finished_ns is not None,
        "runs": runs,
    }


def ai_table_text(folder: Path, width: int = 110) -> str:
    """The AI table of a campaign: a file system a row, a scheduler a column, for each drive and workload."""
    campaign = results.load(folder)
    cells = tables.cells(campaign)
    console = Console(width=width, record=True, file=io.StringIO())
    mark = " · VIRTUAL LAB" if campaign.virtual else ""
    for (drive, workload), of_both in cells.group_by("drive", "workload", maintain_order=True):
        schedulers = _in_order(campaign.definition["factors"]["scheduler"], of_both["scheduler"])
        console.print(f"AI in ops/J · {drive} · {workload}{mark}")
        table = Table()
        table.add_column("file system")
        for scheduler in schedulers:
            table.add_column(scheduler, justify="right")
        best = of_both["ai_ops_per_joule"].max()
        for filesystem in _in_order(campaign.definition["factors"]["filesystem"], of_both["filesystem"]):
            row = of_both.filter(pl.col("filesystem") == filesystem)
            table.add_row(
                filesystem, *(_cell(row.filter(pl.col("scheduler") == s), best) for s in schedulers)
            )
        console.print(table)
    runs = tables.runs(campaign)
    errors = runs["error_percent"].drop_nulls()
    if len(errors):
        console.print(
            f"measured against true joules, {len(errors)} runs:"
            f" worst {errors.abs().max():.3f} %, mean {errors.mean():+.3f} %"
        )
    counts = ", ".join(
        f"{count} {status}" for status, count in runs["status"].value_counts(sort=True).iter_rows()
    )
    console.print(
        f"{campaign.id}: {counts}; * is the best of its table"
        + (" (one run a cell: its spread is unknown)" if cells["runs_counted"].max() == 1 else "")
    )
    return console.export_text().rstrip()


def _in_order(wanted: list[str], present: pl.Series) -> list[str]:
    return [level for level in wanted if level in set(present)]


def _cell(cell: pl.DataFrame, best: float | None) -> str:
    if cell.is_empty():
        return "–"
    row = cell.row(0, named=True)
    if row["ai_ops_per_joule"] is None:
        return row["status"]
    text = f"{row['ai_ops_per_joule']:.1f}"
    if row["ai_ops_per_joule_standard_deviation"] is not None:
        text += f" ± {row['ai_ops_per_joule_standard_deviation']:.1f}"
    return text + (" *" if row["ai_ops_per_joule"] == best else "  ")
