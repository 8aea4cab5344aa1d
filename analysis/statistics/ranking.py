# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells in an order: which may be the best one, and which of them the runs separate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.statistics import differences, letters
from joulerig.analysis.statistics.differences import Difference, Fit, SystematicByCell, Systematics

ALPHA = 0.05
METHOD = "t of shrunk variances, Šidák"
ONE_RUN = "one run a cell: nothing can be separated"

Runs = Mapping[str, Sequence[tuple[int, float]]]  # by cell: (block, value) of each run


@dataclass(frozen=True)
class Pair:
    """Two cells compared, `first` before `second` in the order.

    `difference` = log(first) - log(second) with the blocks taken out; it lies within +- `reach`,
    for all pairs of its family at once. `p` is adjusted for all pairs of a campaign's group; None
    in other families. `systematic`: what of the reach no replicate averages out. `error`: the
    standard error, with `degrees` of freedom; None in a race. All are None where the runs do not
    allow a test.
    """

    first: str
    second: str
    difference: float | None = None
    reach: float | None = None
    p: float | None = None
    systematic: float | None = None
    error: float | None = None
    degrees: float | None = None

    @property
    def separated(self) -> bool:
        return self.difference is not None and self.reach is not None and abs(self.difference) > self.reach

    @property
    def relative_difference(self) -> float | None:
        """Return how much less `second` is than `first`, relative to `first`."""
        return None if self.difference is None else -math.expm1(-self.difference)

    @property
    def relative_difference_interval(self) -> tuple[float, float] | None:
        """Return the least and greatest `relative_difference`, for all pairs at once."""
        if self.difference is None or self.reach is None:
            return None
        return -math.expm1(self.reach - self.difference), -math.expm1(-self.reach - self.difference)

    @property
    def detectable(self) -> float | None:
        """Return the least true `relative_difference` that 9 of 10 such campaigns would separate.

        None in a race, and where the runs do not allow a test.
        """
        if self.reach is None or self.systematic is None or self.error is None or self.degrees is None:
            return None
        least = self.reach
        if self.error > 0:
            bound = (self.reach - self.systematic) / self.error
            least = self.systematic + self.error * differences.detectable(bound, self.degrees)
        return -math.expm1(-least)


@dataclass(frozen=True)
class Ranking:
    """`order`: the cells as they were given; `letters`: cells that share one are not separated.

    `pairs`: all of them, the family of the letters. `with_best`: the greatest cell compared with
    each other one, the family of the question which is best; empty where nothing could be tested.
    `method` is empty then, and `why` says why. `withheld`: why no winner is named although one cell
    is left (analysis.runs.modes); empty where one is.
    """

    order: tuple[str, ...]
    letters: dict[str, str]
    pairs: tuple[Pair, ...]
    method: str
    why: str
    with_best: tuple[Pair, ...]
    withheld: str = field(default="", kw_only=True)

    @property
    def contenders(self) -> list[str]:
        """Return the cells any of which may be the best, the greatest first.

        Empty where nothing could be tested.
        """
        if not self.with_best:
            return []
        others = [pair.second for pair in self.with_best if not pair.separated]
        return [self.with_best[0].first, *others]

    @property
    def winner(self) -> str | None:
        """Return the cell that is better than every other one; None where none can be named."""
        found = self.contenders
        return found[0] if len(found) == 1 and not self.withheld else None

    @property
    def finalists(self) -> list[str]:
        """Return the greatest cell and the one next to it; empty where nothing could be tested."""
        tested = [pair for pair in self.with_best if pair.difference is not None]
        if not tested:
            return []
        nearest = min(tested, key=lambda pair: pair.difference or 0.0)
        return [nearest.first, nearest.second]

    def pair(self, one: str, other: str) -> Pair:
        return next(pair for pair in self.pairs if {pair.first, pair.second} == {one, other})

    def behind_best(self, cell: str) -> Pair:
        """Return the comparison of a cell with the greatest one."""
        return next(pair for pair in self.with_best if pair.second == cell)


def rank(runs: Runs, alpha: float = ALPHA, systematic: SystematicByCell | None = None) -> Ranking:
    """Compare cells with the best of them, and all with each other.

    Where none differ, either family errs with a probability of at most `alpha`, whether the cells
    vary alike or not.

    Parameters
    ----------
    runs : mapping of cell to sequence of (block, value)
        In the order to be kept, best first. A cell with a value that is not positive, and one with
        a single run, is separated from none.
    alpha : float
        Of each family.
    systematic : mapping of cell to SystematicRuns, or None
        What is wrong with the values in all runs alike.

    Notes
    -----
    Logarithms of the values, as differences in work per joule are ratios; the model is cell + block
    by least squares, each cell with its own variance, shrunk towards what all have in common
    (`differences.Fit`, cautious). No preliminary test decides which test is made. With the best:
    Hsu's comparisons (`Fit.compare_with_best`). All pairs: Student's t with the degrees of freedom
    of Satterthwaite, at Šidák's level. docs/decisions/040-least-claim.md has the error rates.
    """
    order = tuple(runs)
    fit = _fit(runs, systematic or {})
    count = math.comb(len(order), 2)
    level = sidak_level(alpha, max(1, count))
    found = {} if fit is None else {cell: fit.compare(cell, level) for cell in order}
    pairs = tuple(
        _pair(one, other, found.get(one, {}).get(other), count) for one, other in combinations(order, 2)
    )
    why = _why(runs, fit, any(pair.reach is not None for pair in pairs))
    separated = [(pair.first, pair.second) for pair in pairs if pair.separated]
    with_best = () if fit is None or why else _with_best(order, fit, alpha)
    return Ranking(order, letters.display(order, separated), pairs, "" if why else METHOD, why, with_best)


def _with_best(order: Sequence[str], fit: Fit, alpha: float) -> tuple[Pair, ...]:
    leader, behind = fit.compare_with_best(alpha)
    if leader is None:
        return ()
    return tuple(_pair(leader, cell, behind.get(cell)) for cell in order if cell != leader)


def _pair(one: str, other: str, found: Difference | None, family: int | None = None) -> Pair:
    """Return a pair; with p where the number of comparisons in its family adjusts it."""
    if found is None:
        return Pair(one, other)
    p = None if family is None else sidak(found.p, family)
    return Pair(
        one, other, found.logarithm, found.half_width, p, found.systematic, found.error, found.degrees
    )


def _fit(runs: Runs, systematic: SystematicByCell) -> Fit | None:
    """Fit the cells whose values are all positive; None with fewer than two of them."""
    usable = {cell: found for cell, found in runs.items() if found and all(value > 0 for _, value in found)}
    if len(usable) < 2:
        return None
    blocks, table = logs_by_block(list(usable.values()))
    systematics = Systematics.from_runs(list(usable), blocks, systematic)
    return Fit.from_logs(list(usable), table, cautious=True, systematics=systematics)


def _why(runs: Runs, fit: Fit | None, tested: bool) -> str:
    """Say why nothing can be tested; empty where something can."""
    if fit is None:
        return "nothing to compare with"
    if all(len(found) <= 1 for found in runs.values()):
        return ONE_RUN
    if fit.why:
        return fit.why
    return "" if tested else "no two cells have two blocks in common"


def sidak(p: float, count: int) -> float:
    """Adjust a p-value for being the least of `count`."""
    return 1.0 if p >= 1 else -math.expm1(count * math.log1p(-p))


def sidak_level(alpha: float, count: int) -> float:
    """Return the level of each of `count` tests that are to err with probability `alpha` in all."""
    return -math.expm1(math.log1p(-alpha) / count)


def logs_by_block(cells: Sequence[Sequence[tuple[int, float]]]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the blocks of cells' (block, value), and mean logarithms, (cells, blocks).

    NaN where a cell has no value in a block. Values are positive.
    """
    logs = [_by_block(found) for found in cells]
    blocks = sorted({block for one in logs for block in one})
    table = [[one.get(block, math.nan) for block in blocks] for one in logs]
    return blocks, np.array(table, dtype=float).reshape(len(logs), len(blocks))


def _by_block(found: Sequence[tuple[int, float]]) -> dict[int, float]:
    """Return the mean logarithm by block."""
    logs: dict[int, list[float]] = {}
    for block, value in found:
        logs.setdefault(block, []).append(math.log(value))
    return {block: sum(values) / len(values) for block, values in logs.items()}
