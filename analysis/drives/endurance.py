# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operation costs in joules and in wear: bytes at each level, and years of rated life.

NAND bytes are host bytes times the run's write amplification (analysis.runs.nand).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import derived
from joulerig.analysis.runs.nand import Rise, rise
from joulerig.analysis.statistics import pareto

GIVEN_RATE = 100.0  # operations a second, at which lives are compared
SECONDS_A_YEAR = 365.25 * 86_400
NO_NAND = "the drive's health report has no count of NAND bytes"
NO_RATING = "no rated_terabytes_written in the inventory"
TOO_COARSE = "its counts rose by too few units"

COLUMNS = {
    "campaign": pl.String,
    "cell": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "filesystem": pl.String,
    "scheduler": pl.String,
    "runs_counted": pl.Int64,
    "unit": pl.String,
    "joules_per_op": pl.Float64,
    "joules_per_op_low": pl.Float64,
    "joules_per_op_high": pl.Float64,
    "written_bytes_per_op": pl.Float64,
    "durable_bytes_per_op": pl.Float64,
    "host_bytes_per_op": pl.Float64,
    "nand_bytes_per_host_byte": pl.Float64,
    "nand_bytes_per_op": pl.Float64,
    "nand_missing": pl.String,
    "rated_bytes": pl.Float64,
    "ops_of_rated_life": pl.Float64,
    "years_at_load": pl.Float64,
    "years_at_given_rate": pl.Float64,
    "life_missing": pl.String,
    "pareto": pl.Boolean,
}


def amplification(runs: Sequence[Run]) -> tuple[float | None, str]:
    """Return NAND bytes over host bytes of these runs, as a ratio of sums; or None, and why."""
    found = [one for run in runs if (one := rise(run)) is not None]
    if not found or len(found) < len(runs):
        return None, NO_NAND
    whole = Rise(sum(one.host for one in found), sum(one.nand for one in found), found[0].unit)
    return (whole.nand / whole.host, "") if whole.is_fine else (None, TOO_COARSE)


def table(campaign: Campaign, cells: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return one row a cell that has a result. `cells`: rows of analysis.tables.runs_and_cells."""
    by_cell = campaign.cells()
    rows = []
    for cell in cells:
        counted = [run for run in by_cell[cell["cell"]] if run.counts]
        if counted:
            rows.append(_row(campaign, cell, counted))
    best = fronts(rows)
    return pl.DataFrame([{**row, "pareto": row["cell"] in best} for row in rows], schema=COLUMNS)


def _row(campaign: Campaign, cell: Mapping[str, Any], runs: Sequence[Run]) -> dict[str, Any]:
    amounts = [derived.amounts(campaign, run) for run in runs]

    def per_op(name: str) -> float | None:
        known = [(one[name], one["ops"]) for one in amounts]
        if any(value is None for value, _ in known):
            return None
        ops = math.fsum(count or 0.0 for _, count in known)
        return math.fsum(value or 0.0 for value, _ in known) / ops if ops > 0 else None

    low, high = (cell[f"ai_ops_per_joule_interval_{end}"] for end in ("high", "low"))
    host = per_op("block_write_bytes")
    factor, why_not = amplification(runs)
    return {
        "campaign": campaign.id,
        **{name: cell[name] for name in ("cell", "drive", "workload", "filesystem", "scheduler")},
        "runs_counted": len(runs),
        "unit": cell["unit"],
        "joules_per_op": per_op("joules"),
        "joules_per_op_low": 1 / low if low else None,
        "joules_per_op_high": 1 / high if high and high > 0 else None,
        "written_bytes_per_op": per_op("write_bytes"),
        "durable_bytes_per_op": per_op("durable_bytes"),
        "host_bytes_per_op": host,
        "nand_bytes_per_host_byte": factor,
        "nand_bytes_per_op": None if factor is None or host is None else factor * host,
        "nand_missing": why_not,
        **_life(campaign, runs[0], host, cell["ops_per_second"]),
    }


def _life(campaign: Campaign, run: Run, host: float | None, rate: float | None) -> dict[str, Any]:
    """Return how long the rated bytes last, which are those that the host may write."""
    declared = meters.subtree(campaign.lab, "hosts", run.host, "drives", run.drive)
    rated = declared.get("rated_terabytes_written")
    if not isinstance(rated, int | float) or campaign.drives(run) != [run.drive]:
        return {"life_missing": NO_RATING}
    found: dict[str, Any] = {"rated_bytes": rated * 1e12, "life_missing": ""}
    if not host:
        return {**found, "life_missing": "the load wrote nothing" if host == 0 else "writes not counted"}
    ops = rated * 1e12 / host
    return {
        **found,
        "ops_of_rated_life": ops,
        "years_at_load": ops / rate / SECONDS_A_YEAR if rate else None,
        "years_at_given_rate": ops / GIVEN_RATE / SECONDS_A_YEAR,
    }


def fronts(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the cells that no other of their drive and workload beats in joules and in wear.

    Wear is NAND bytes where all of these cells have them, else host bytes.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["drive"], row["workload"]), []).append(row)
    found: set[str] = set()
    for group in groups.values():
        key = wear_column(group)
        points = {
            row["cell"]: (-row[key], row["joules_per_op"])
            for row in group
            if row[key] is not None and row["joules_per_op"] is not None
        }
        found |= set(pareto.front(points))
    return found


def wear_column(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the column by which the wear of these cells is compared."""
    whole = all(row["nand_bytes_per_op"] is not None for row in rows)
    return "nand_bytes_per_op" if whole else "host_bytes_per_op"
