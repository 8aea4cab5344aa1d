# SPDX-License-Identifier: GPL-3.0-or-later
"""Two campaigns compared: work per joule cell by cell, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics import LOG_ROUNDING
from joulerig.analysis.statistics.differences import limit_of_difference
from joulerig.analysis.statistics.ranking import ALPHA, sidak


@dataclass(frozen=True)
class Change:
    """The change of a cell that both campaigns have.

    `before`, `after`: AI in ops/J, ratio of sums. `ratio` = after / before - 1 of the runs' mean
    logarithms, from `low` to `high` (95 %, for all cells at once), `p` adjusted alike; None where
    `why` says that there is nothing to test by. `meter`: how far the two campaigns' meters can make
    the ratio differ from 1 where nothing changed; it is in `low`, `high` and `p`.
    """

    cell: str
    before: float
    after: float
    runs: tuple[int, int]
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    why: str = ""
    meter: float | None = None

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < ALPHA


def changes(before: Campaign, after: Campaign) -> list[Change]:
    """Compare each cell with an AI in both campaigns, in the order of the first.

    Welch's t test of the logarithms of the runs' AI (B. L. Welch, The generalization of "Student's"
    problem when several different population variances are involved, Biometrika 34, 1947, 28-35),
    at Šidák's level over the cells. What a meter did wrong in all runs of one campaign alike would
    look like a change: to the interval is added what is not the same in both, all of the meters'
    gain and offset where they rest on another calibration record, or on a class.
    """
    old, new = _counted(before), _counted(after)
    errors = MeterErrors(before), MeterErrors(after)
    common = [cell for cell in old if cell in new]
    return [_change(cell, old[cell], new[cell], len(common), errors) for cell in common]


def only_in(one: Campaign, other: Campaign) -> list[str]:
    """List the cells with an AI in one campaign and none in the other."""
    return [cell for cell in _counted(one) if cell not in _counted(other)]


def settings(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """List what differs between two flat mappings: (name, before, after).

    A value is empty where its mapping has no such name.
    """
    names = dict.fromkeys([*before, *after])
    pairs = [(name, before.get(name, ""), after.get(name, "")) for name in names]
    return [row for row in pairs if row[1] != row[2]]


def _counted(campaign: Campaign) -> dict[str, list[Run]]:
    found = {cell: [run for run in runs if run.counts] for cell, runs in campaign.cells().items()}
    return {cell: runs for cell, runs in found.items() if runs}


def _change(
    cell: str, old: Sequence[Run], new: Sequence[Run], cells: int, errors: tuple[MeterErrors, MeterErrors]
) -> Change:
    change = Change(cell, _ai(old), _ai(new), (len(old), len(new)))
    values = [[_ai([run]) for run in runs] for runs in (new, old)]
    if min(change.runs) < 2:
        return replace(change, why="one run: its spread is unknown")
    if min(map(min, values)) <= 0:
        return replace(change, why="a run without operations")
    logs = [np.log(each) for each in values]
    if max(map(np.std, logs)) <= LOG_ROUNDING:
        return replace(change, why="the runs are all alike")
    limit = limit_of_difference(
        *(known.of_cell(CellRuns(runs)) for known, runs in zip(errors, (old, new), strict=True))
    )
    if not math.isfinite(limit):
        return replace(change, why="what the meters did not measure may be as much as what they did")
    middle, reach, p = welch(logs[0], logs[1], limit, cells)
    ratio, low, high = (math.expm1(end) for end in (middle, middle - reach, middle + reach))
    return replace(change, ratio=ratio, low=low, high=high, p=p, meter=math.expm1(limit))


def welch(
    new: NDArray[np.float64], old: NDArray[np.float64], limit: float, cells: int
) -> tuple[float, float, float]:
    """Return mean(new) - mean(old), how far it reaches either way, and p, for one of `cells` tests.

    `limit`: by how much the difference can be off for what is wrong in all values of one side
    alike; it is added to the reach, and taken from the difference for p.
    """
    from scipy import stats  # takes longer to import than most campaigns to analyse

    test = stats.ttest_ind(new, old, equal_var=False)
    middle = float(np.mean(new) - np.mean(old))
    interval = test.confidence_interval((1 - ALPHA) ** (1 / cells))
    error = middle / float(test.statistic) if middle else math.inf
    beyond = max(abs(middle) - limit, 0.0)
    p = 2 * float(stats.t.sf(beyond / abs(error), test.df))
    return middle, float(interval.high - interval.low) / 2 + limit, sidak(p, cells)


def _ai(runs: Sequence[Run]) -> float:
    return math.fsum(run.performance.ops for run in runs) / math.fsum(run.result.ai_joules for run in runs)
