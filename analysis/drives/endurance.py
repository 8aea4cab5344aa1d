# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operation costs in joules and in wear: bytes at each level, and years of rated life.

NAND bytes are host bytes times the run's write amplification (analysis.runs.modes.nand).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import derived
from joulerig.analysis.runs.modes.nand import Rise, rise
from joulerig.analysis.statistics import pareto
from joulerig.analysis.statistics.interval import Interval, fieller

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
    "nand_bytes_per_host_byte_low": pl.Float64,
    "nand_bytes_per_host_byte_high": pl.Float64,
    "nand_bytes_per_op": pl.Float64,
    "nand_missing": pl.String,
    "rated_bytes": pl.Float64,
    "ops_of_rated_life": pl.Float64,
    "years_at_load": pl.Float64,
    "years_at_given_rate": pl.Float64,
    "life_missing": pl.String,
    "pareto": pl.Boolean,
}


@dataclass(frozen=True)
class Amplification:
    """NAND bytes over host bytes of some runs, as a ratio of sums.

    `interval`: 95 %; None with one run, whose scatter is not known. `missing`: why there is no
    value.
    """

    value: float | None = None
    interval: Interval | None = None
    missing: str = ""


def amplification(runs: Sequence[Run]) -> Amplification:
    """Return NAND bytes over host bytes of these runs.

    Notes
    -----
    A rise of a count is right to one unit either way, and a sum of rises to one a run. The interval
    is that of the runs' scatter (Fieller's), widened by these units at their worst.
    """
    found = [one for one in map(rise, runs) if one is not None]
    if not found or len(found) < len(runs):
        return Amplification(missing=NO_NAND)
    host, nand = math.fsum(one.host for one in found), math.fsum(one.nand for one in found)
    if not Rise(host, nand, found[0].host_unit, found[0].nand_unit).is_fine:
        return Amplification(missing=TOO_COARSE)
    host_open, nand_open = len(found) * found[0].host_unit, len(found) * found[0].nand_unit
    value = nand / host
    scatter = fieller([one.nand for one in found], [one.host for one in found])
    if scatter is None or host <= host_open:
        return Amplification(value)
    low = min((nand - nand_open) / (host + host_open), value)
    high = max((nand + nand_open) / (host - host_open), value)
    interval = Interval(max(scatter.low - (value - low), 0.0), scatter.high + (high - value))
    return Amplification(value, interval)


def table(campaign: Campaign, cells: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return one row a cell that has a result. `cells`: rows of analysis.tables.runs_and_cells."""
    by_cell = campaign.cells()
    rows = []
    for cell in cells:
        counted = [run for run in by_cell[cell["cell"]] if run.counts]
        if counted:
            rows.append(_row(campaign, cell, counted))
    best = fronts(rows)
    for row in rows:
        row["pareto"] = row["cell"] in best if row["runs_counted"] >= pareto.FEWEST_RUNS else None
    return pl.DataFrame(rows, schema=COLUMNS)


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
    nand = amplification(runs)
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
        "nand_bytes_per_host_byte": nand.value,
        "nand_bytes_per_host_byte_low": nand.interval.low if nand.interval else None,
        "nand_bytes_per_host_byte_high": nand.interval.high if nand.interval else None,
        "nand_bytes_per_op": None if nand.value is None or host is None else nand.value * host,
        "nand_missing": nand.missing,
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

    Cells of one run are left out (`pareto.named`). Wear is NAND bytes where all of these cells have
    them, else host bytes.
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
        found |= set(pareto.named(points, {row["cell"]: row["runs_counted"] for row in group}))
    return found


def wear_column(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the column by which the wear of these cells is compared."""
    whole = all(row["nand_bytes_per_op"] is not None for row in rows)
    return "nand_bytes_per_op" if whole else "host_bytes_per_op"
