# SPDX-License-Identifier: GPL-3.0-or-later
"""Two campaigns compared: work per joule cell by cell, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics import LOG_ROUNDING
from joulerig.analysis.statistics.ranking import ALPHA, sidak


@dataclass(frozen=True)
class Change:
    """The change of a cell that both campaigns have.

    `before`, `after`: AI in ops/J, ratio of sums. `ratio` = after / before - 1 of the runs' mean
    logarithms, from `low` to `high` (95 %, for all cells at once), `p` adjusted alike; None where
    `why` says that there is nothing to test by.
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

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < ALPHA


def changes(before: Campaign, after: Campaign) -> list[Change]:
    """Compare each cell with an AI in both campaigns, in the order of the first.

    Welch's t test of the logarithms of the runs' AI (B. L. Welch, The generalization of "Student's"
    problem when several different population variances are involved, Biometrika 34, 1947, 28-35),
    at Šidák's level over the cells. It is of the spread between runs: what a meter did wrong in all
    runs of one campaign alike looks like a change.
    """
    old, new = _counted(before), _counted(after)
    common = [cell for cell in old if cell in new]
    return [_change(cell, old[cell], new[cell], len(common)) for cell in common]


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


def _change(cell: str, old: Sequence[Run], new: Sequence[Run], cells: int) -> Change:
    change = Change(cell, _ai(old), _ai(new), (len(old), len(new)))
    values = [[_ai([run]) for run in runs] for runs in (new, old)]
    if min(change.runs) < 2:
        return replace(change, why="one run: its spread is unknown")
    if min(map(min, values)) <= 0:
        return replace(change, why="a run without operations")
    logs = [np.log(each) for each in values]
    if max(map(np.std, logs)) <= LOG_ROUNDING:
        return replace(change, why="the runs are all alike")
    test = stats.ttest_ind(*logs, equal_var=False)
    reach = test.confidence_interval((1 - ALPHA) ** (1 / cells))
    ratio, low, high = (math.expm1(end) for end in (logs[0].mean() - logs[1].mean(), reach.low, reach.high))
    return replace(change, ratio=ratio, low=low, high=high, p=sidak(float(test.pvalue), cells))


def _ai(runs: Sequence[Run]) -> float:
    return math.fsum(run.performance.ops for run in runs) / math.fsum(run.result.joules for run in runs)
