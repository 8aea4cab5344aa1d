# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether cells rank alike by AI and by AI to quiescence.

Work per joule of the load alone favours a file system that leaves its writing for later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.cells import AI, Comparison, Ranked
from joulerig.analysis.compare.more_joules.rank_differences import difference, places, with_joules
from joulerig.analysis.energy import indicator
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import quiescence
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.runs.over_time import PowerOverTime
from joulerig.analysis.runs.quiescence import ALARM, AfterLoad, State
from joulerig.analysis.statistics.ranking import Ranking

COLUMNS = {
    "campaign": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "further": pl.String,
    "cell": pl.String,
    "rank": pl.Int64,
    "rank_to_quiescence": pl.Int64,
    "may_be_best": pl.Boolean,
    "may_be_best_to_quiescence": pl.Boolean,
    "ai_ops_per_joule": pl.Float64,
    "ai_ops_per_joule_to_quiescence": pl.Float64,
    "joules_after_load": pl.Float64,
    "runs_counted": pl.Int64,
    "runs_settled": pl.Int64,
    "ranks_differ": pl.String,
    "joules_after_load_low": pl.Float64,
    "joules_after_load_high": pl.Float64,
}


@dataclass(frozen=True)
class CellAfterLoad:
    """A cell's runs, with what they drew above idle after their loads.

    `ai`: all work over all joules of the loads; `to_quiescence` with what came after, None where a
    run's is not known; `joules` that were drawn then, from `low` to `high`; `settled`: how many of
    the `runs` came back to idle. `why`: of each of the others, its state and the reason.
    """

    cell: str
    ai: float
    to_quiescence: float | None
    joules: float | None
    low: float | None
    high: float | None
    runs: int
    settled: int
    why: tuple[str, ...]


@dataclass(frozen=True)
class Quiescent:
    """A comparison by AI, and by AI to quiescence.

    `cells` in the order of the comparison. `ranking`: by AI to quiescence, with the tests of the
    other; None where it is not known of every run, so that the two would be of different runs.
    `differs`: how the two rankings differ, in words; empty where they agree.
    """

    comparison: Comparison
    cells: tuple[CellAfterLoad, ...]
    ranking: Ranking | None
    differs: str

    @property
    def known(self) -> bool:
        """Return whether AI to quiescence is known of any cell."""
        return any(cell.to_quiescence is not None for cell in self.cells)

    @property
    def reasons(self) -> list[str]:
        """Return why runs are not settled or not known: the three most frequent reasons."""
        return [why for why, _ in Counter(why for cell in self.cells for why in cell.why).most_common(3)]


def compare(
    campaign: Campaign,
    compared: Sequence[Comparison],
    over: Mapping[str, PowerOverTime],
    idles: Mapping[str, Idle],
) -> list[Quiescent]:
    """Rank the cells of each comparison that has an AI by AI to quiescence.

    `over`, `idles`: power over time, and at rest, by run.
    """
    after = quiescence.by_run(campaign, over, idles)
    runs = tuple(_to_quiescence(run, after[run.id]) if run.id in after else run for run in campaign.runs)
    ranked = comparison.rank_groups(replace(campaign, runs=runs))
    cells = campaign.cells()
    return [
        _quiescent(one, ranked[one.drive, one.workload, one.further], cells, after)
        for one in compared
        if one.quantity == AI
    ]


def _to_quiescence(run: Run, after: AfterLoad) -> Run:
    """Return a run whose joules are those of the load and what came after it."""
    assert run.result is not None
    return with_joules(run, after.total(run.result.ai_joules))


def _quiescent(
    one: Comparison, ranked: Ranked, cells: Mapping[str, list[Run]], after: Mapping[str, AfterLoad]
) -> Quiescent:
    counting = {cell: [run for run in cells[cell] if run.counts] for cell in one.ranking.order}
    found = tuple(cell_after_load(cell, one.points[cell].ai, runs, after) for cell, runs in counting.items())
    if any(cell.to_quiescence is None for cell in found):
        return Quiescent(one, found, None, "")
    return Quiescent(one, found, ranked.ranking, difference(one, ranked.ranking, "to quiescence"))


def cell_after_load(
    cell: str, ai: float, runs: Sequence[Run], after: Mapping[str, AfterLoad]
) -> CellAfterLoad:
    """Return a cell of which `runs` count, each with what it drew `after` its load."""
    own = [after[run.id] for run in runs]
    why = [f"{one.state}: {one.why}" for one in own if one.state != State.SETTLED]
    return CellAfterLoad(
        cell,
        ai,
        work_over(runs, own),
        indicator.total([one.joules for one in own]),
        indicator.total([one.low for one in own]),
        indicator.total([one.high for one in own]),
        len(runs),
        sum(one.state == State.SETTLED for one in own),
        tuple(why),
    )


def work_over(runs: Sequence[Run], after: Sequence[AfterLoad]) -> float | None:
    """Return all work over all joules to quiescence; None where those of a run are not known."""
    work, joules = 0, 0.0
    for run, one in zip(runs, after, strict=True):
        assert run.performance is not None
        assert run.result is not None
        total = one.total(run.result.ai_joules)
        if total is None:
            return None
        work, joules = work + run.performance.ops, joules + total
    return work / joules


def warnings(found: Sequence[Quiescent]) -> list[str]:
    """Return what is to be said before any figure: alarms, and where the two rank differently."""
    alarms = [
        f"{one.comparison.name}: {why}"
        for one in found
        for why in dict.fromkeys(why for cell in one.cells for why in cell.why if ALARM in why)
    ]
    return alarms + [
        f"{one.comparison.name}: AI and AI to quiescence rank differently: {one.differs}"
        for one in found
        if one.differs
    ]


def table(campaign: Campaign, found: Sequence[Quiescent]) -> pl.DataFrame:
    """Return one row for each cell that has an AI. Columns: `COLUMNS`."""
    rows = []
    for one in found:
        for cell in one.cells:
            rows.append(
                {
                    "campaign": campaign.id,
                    **places(one.comparison, one.ranking, cell.cell, "to_quiescence"),
                    "ai_ops_per_joule": cell.ai,
                    "ai_ops_per_joule_to_quiescence": cell.to_quiescence,
                    "joules_after_load": cell.joules,
                    "joules_after_load_low": cell.low,
                    "joules_after_load_high": cell.high,
                    "runs_counted": cell.runs,
                    "runs_settled": cell.settled,
                    "ranks_differ": one.differs,
                }
            )
    return pl.DataFrame(rows, schema=COLUMNS)
