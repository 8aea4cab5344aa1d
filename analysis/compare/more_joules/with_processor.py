# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether cells rank alike by AI and by work over the joules of drives and processors together.

A file system or scheduler that saves the drive's joules may take more of the processor's. Those are
of all packages of the test host, whatever ran there (RAPL), so that they have its idle power in
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.cells import AI, Comparison
from joulerig.analysis.compare.more_joules.rank_differences import difference, places, with_joules
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics.ranking import Ranking

COLUMNS = {
    "campaign": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "further": pl.String,
    "cell": pl.String,
    "rank": pl.Int64,
    "rank_with_processor": pl.Int64,
    "may_be_best": pl.Boolean,
    "may_be_best_with_processor": pl.Boolean,
    "ai_ops_per_joule": pl.Float64,
    "ops_per_joule_with_processor": pl.Float64,
    "cpu_joules": pl.Float64,
    "cpu_joules_per_op": pl.Float64,
    "runs_counted": pl.Int64,
    "ranks_differ": pl.String,
}


@dataclass(frozen=True)
class CellWithProcessor:
    """A cell's runs: all work over all joules of its drives, and over the processors' as well.

    `cpu_joules`: the sum of its runs', None where one has none; `ops`: of all of them.
    """

    cell: str
    ai: float
    with_processor: float | None
    cpu_joules: float | None
    ops: int
    runs: int

    @property
    def cpu_joules_per_op(self) -> float | None:
        return self.cpu_joules / self.ops if self.cpu_joules is not None and self.ops else None


@dataclass(frozen=True)
class WithProcessor:
    """A comparison by AI, and with the joules of the processors.

    `ranking`: with them, by the tests of the other; None where they are not known of every run.
    `differs`: how the two rankings differ, in words; empty where they agree.
    """

    comparison: Comparison
    cells: tuple[CellWithProcessor, ...]
    ranking: Ranking | None
    differs: str


def compare(campaign: Campaign, compared: Sequence[Comparison]) -> list[WithProcessor]:
    """Rank the cells of each comparison that has an AI with the processors' joules as well.

    Empty where no run has them.
    """
    if not any(run.result and run.result.cpu_joules is not None for run in campaign.runs):
        return []
    ranked = comparison.rank_groups(replace(campaign, runs=tuple(map(_with_processor, campaign.runs))))
    cells = campaign.cells()
    return [
        _compared(one, ranked[one.drive, one.workload, one.further].ranking, cells)
        for one in compared
        if one.quantity == AI
    ]


def _with_processor(run: Run) -> Run:
    """Return a run whose joules are those of its drives and of the processors."""
    if run.result is None:
        return run
    own, cpu = run.result.ai_joules, run.result.cpu_joules
    return with_joules(run, None if own is None or cpu is None else own + cpu)


def _compared(one: Comparison, ranking: Ranking, cells: Mapping[str, list[Run]]) -> WithProcessor:
    found = tuple(
        _cell(cell, one.points[cell].ai, [run for run in cells[cell] if run.counts])
        for cell in one.ranking.order
    )
    if any(cell.with_processor is None for cell in found):
        return WithProcessor(one, found, None, "")
    return WithProcessor(one, found, ranking, difference(one, ranking, "with the processor"))


def _cell(cell: str, ai: float, runs: Sequence[Run]) -> CellWithProcessor:
    results = [run.result for run in runs if run.result]
    ops = sum(run.performance.ops for run in runs if run.performance)
    cpu = [one.cpu_joules for one in results if one.cpu_joules is not None]
    own = [one.ai_joules for one in results if one.ai_joules is not None]
    if len(cpu) < len(runs) or len(own) < len(runs):
        return CellWithProcessor(cell, ai, None, None, ops, len(runs))
    total = math.fsum(cpu)
    return CellWithProcessor(cell, ai, ops / (math.fsum(own) + total), total, ops, len(runs))


def table(campaign: Campaign, found: Sequence[WithProcessor]) -> pl.DataFrame:
    """Return one row for each cell that has an AI. Columns: `COLUMNS`."""
    rows = []
    for one in found:
        for cell in one.cells:
            rows.append(
                {
                    "campaign": campaign.id,
                    **places(one.comparison, one.ranking, cell.cell, "with_processor"),
                    "ai_ops_per_joule": cell.ai,
                    "ops_per_joule_with_processor": cell.with_processor,
                    "cpu_joules": cell.cpu_joules,
                    "cpu_joules_per_op": cell.cpu_joules_per_op,
                    "runs_counted": cell.runs,
                    "ranks_differ": one.differs,
                }
            )
    return pl.DataFrame(rows, schema=COLUMNS)
