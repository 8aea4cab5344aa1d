# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells in an order, and which of them the runs separate: all pairs, by blocks, family-wise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from joulerig.analysis.statistics import LOG_ROUNDING, letters, studentized_range

ALPHA = 0.05
PRELIMINARY_ALPHA = (
    0.1  # of the test whether the cells' variances are one; a wrong yes costs more than a wrong no
)
FEWEST_FOR_VARIANCES = 4  # runs a cell: below these a test of variances sees nothing
TUKEY, SIDAK = "Tukey-Kramer", "paired t, Šidák"

Runs = Mapping[str, Sequence[tuple[int, float]]]  # by cell: (block, value) of each run


@dataclass(frozen=True)
class Pair:
    """Two cells compared, `first` before `second` in the order.

    `difference` = log(first) - log(second) with the blocks taken out; it lies within +- `reach`,
    for all pairs at once. None where the runs do not allow a test.
    """

    first: str
    second: str
    difference: float | None = None
    reach: float | None = None
    _p: Callable[[], float] | None = field(default=None, repr=False, compare=False)

    @property
    def separated(self) -> bool:
        return self.reach is not None and abs(self.difference) > self.reach

    @property
    def p(self) -> float | None:
        """Return p adjusted for all pairs of the family.

        It is worked out for all of them when one is asked for.
        """
        return None if self._p is None else self._p()

    @property
    def relative_difference(self) -> float | None:
        """Return how much less `second` is than `first`, relative to `first`."""
        return None if self.difference is None else -math.expm1(-self.difference)

    @property
    def relative_difference_interval(self) -> tuple[float, float] | None:
        """Return the least and greatest `relative_difference`, for all pairs at once."""
        if self.reach is None:
            return None
        return tuple(-math.expm1(-self.difference + side * self.reach) for side in (1, -1))


@dataclass(frozen=True)
class Ranking:
    """`order`: the cells as they were given; `letters`: cells that share one are not separated.

    `method` is empty where nothing could be tested, and `why` then says why. `variances_p`: of the
    test that all cells vary alike, None where there was none.
    """

    order: tuple[str, ...]
    letters: dict[str, str]
    pairs: tuple[Pair, ...]
    method: str
    why: str
    variances_p: float | None

    @property
    def winner(self) -> str | None:
        """Return the first cell, where it is separated from every other one, and above it.

        None where it is not.
        """
        if len(self.order) < 2 or self.not_separated(self.order[0]):
            return None
        firsts = [pair for pair in self.pairs if pair.first == self.order[0]]
        return self.order[0] if all(pair.difference > 0 for pair in firsts) else None

    def not_separated(self, cell: str) -> list[str]:
        """Return the other cells that the runs do not separate from this one, in order."""
        close = {
            other
            for pair in self.pairs
            if cell in (pair.first, pair.second) and not pair.separated
            for other in (pair.first, pair.second)
        }
        return [other for other in self.order if other in close and other != cell]

    def pair(self, one: str, other: str) -> Pair:
        return next(pair for pair in self.pairs if {pair.first, pair.second} == {one, other})


def rank(runs: Runs, alpha: float = ALPHA) -> Ranking:
    """Test all pairs of cells, with probability `alpha` that any test errs where none differ.

    Parameters
    ----------
    runs : mapping of cell to sequence of (block, value)
        In the order to be kept, best first. A cell with a value that is not positive is tested
        against none.
    alpha : float
        Of the family of all pairs.

    Notes
    -----
    Logarithms of the values, as differences in work per joule are ratios; the model is cell +
    block, by least squares. Tukey-Kramer's test (C. Y. Kramer, Extension of multiple range tests to
    group means with unequal numbers of replications, Biometrics 12(3), 1956, 307-310) where the
    cells vary alike, as far as Bartlett's test of the residuals shows; else paired t tests of the
    differences within blocks, at Šidák's level (docs/decisions/009-pairs.md). Both ask for two runs
    in one cell, or two blocks.
    """
    order = tuple(runs)
    usable = {cell: found for cell, found in runs.items() if found and all(value > 0 for _, value in found)}
    model = _Model.from_runs(usable) if len(usable) > 1 else None
    why = _untestable(usable, model)
    variances_p = None if why else model.equal_variances()
    method = "" if why else (SIDAK if variances_p is not None and variances_p < PRELIMINARY_ALPHA else TUKEY)
    tested: dict[tuple[str, str], Pair] = {}
    if method:
        test = _paired if method == SIDAK else model.tukey
        tested = {(pair.first, pair.second): pair for pair in test(usable, alpha)}
        if not tested:
            method, why = "", "no two cells have two blocks in common"
    pairs = tuple(tested.get(names, Pair(*names)) for names in combinations(order, 2))
    separated = [(pair.first, pair.second) for pair in pairs if pair.separated]
    return Ranking(order, letters.display(order, separated), pairs, method, why, variances_p)


def _untestable(runs: Runs, model: _Model | None) -> str:
    if model is None:
        return "nothing to compare with"
    if all(len(found) == 1 for found in runs.values()):
        return "one run a cell: the spread between runs is unknown"
    if model.freedom < 1:
        return "no two cells have two blocks in common"
    if model.deviation <= LOG_ROUNDING:
        return "the runs of each cell are all alike: there is no spread to test by"
    return ""


@dataclass(frozen=True)
class _Model:
    """log(value) = cell + block, fitted by least squares."""

    effects: NDArray[np.float64]
    gram: NDArray[np.float64]
    inverse: NDArray[np.float64]
    residuals: NDArray[np.float64]
    freedom: int
    cells: tuple[str, ...]
    cell_of: NDArray[np.int64]

    @classmethod
    def from_runs(cls, runs: Runs) -> _Model:
        rows = [(index, block, value) for index, found in enumerate(runs.values()) for block, value in found]
        blocks = sorted({block for _, block, _ in rows})
        design = np.zeros((len(rows), len(runs) + len(blocks)))
        for row, (cell, block, _) in enumerate(rows):
            design[row, cell] = design[row, len(runs) + blocks.index(block)] = 1.0
        logs = np.log([value for *_, value in rows])
        gram = design.T @ design
        inverse = np.linalg.pinv(gram, hermitian=True)
        effects = inverse @ design.T @ logs
        freedom = len(rows) - int(np.linalg.matrix_rank(design))
        cell_of = np.array([cell for cell, *_ in rows])
        return cls(effects, gram, inverse, logs - design @ effects, freedom, tuple(runs), cell_of)

    @property
    def deviation(self) -> float:
        return math.sqrt(float(self.residuals @ self.residuals) / self.freedom)

    def equal_variances(self) -> float | None:
        """Return p of Bartlett's test that the cells vary alike.

        None where a cell has fewer than `FEWEST_FOR_VARIANCES` runs.
        """
        by_cell = [self.residuals[self.cell_of == cell] for cell in range(len(self.cells))]
        if min(map(len, by_cell)) < FEWEST_FOR_VARIANCES:
            return None
        if min(np.std(residuals) for residuals in by_cell) <= LOG_ROUNDING:
            return 0.0  # one has no spread, others have: Bartlett's statistic has no bound
        return float(stats.bartlett(*by_cell).pvalue)

    def tukey(self, runs: Runs, alpha: float) -> Iterator[Pair]:
        """Yield the pairs that the blocks connect, tested."""
        count, freedom = len(self.cells), self.freedom
        reach = studentized_range.critical(alpha, count, freedom) / math.sqrt(2)
        found = []
        for one, other in combinations(range(count), 2):
            contrast = np.zeros(len(self.effects))
            contrast[[one, other]] = 1.0, -1.0
            if not np.allclose(self.gram @ self.inverse @ contrast, contrast, atol=1e-8):
                continue
            error = self.deviation * math.sqrt(contrast @ self.inverse @ contrast)
            found.append((self.cells[one], self.cells[other], float(contrast @ self.effects), error))

        @cache
        def p_values() -> list[float]:
            ranges = [math.sqrt(2) * abs(difference) / error for *_, difference, error in found]
            return studentized_range.survival(ranges, count, freedom).tolist()

        for index, (*names, difference, error) in enumerate(found):
            yield Pair(*names, difference, reach * error, lambda index=index: p_values()[index])


def _paired(runs: Runs, alpha: float) -> Iterator[Pair]:
    """Yield the pairs with two blocks in common or more, tested.

    Each is tested by its own differences within blocks.
    """
    logs = {cell: _by_block(found) for cell, found in runs.items()}
    count = math.comb(len(runs), 2)
    level = sidak_level(alpha, count)
    for one, other in combinations(runs, 2):
        common = sorted(logs[one].keys() & logs[other].keys())
        differences = np.array([logs[one][block] - logs[other][block] for block in common])
        if len(common) < 2 or np.std(differences) <= LOG_ROUNDING:
            continue
        freedom = len(common) - 1
        error = float(np.std(differences, ddof=1)) / math.sqrt(len(common))
        difference = float(differences.mean())
        reach = float(stats.t.isf(level / 2, freedom)) * error
        yield Pair(one, other, difference, reach, partial(_paired_p, abs(difference) / error, count, freedom))


def _paired_p(statistic: float, count: int, freedom: int) -> float:
    return sidak(2 * float(stats.t.sf(statistic, freedom)), count)


def sidak(p: float, count: int) -> float:
    """Adjust a p-value for being the least of `count`."""
    return 1.0 if p >= 1 else -math.expm1(count * math.log1p(-p))


def sidak_level(alpha: float, count: int) -> float:
    """Return the level of each of `count` tests that are to err with probability `alpha` in all."""
    return -math.expm1(math.log1p(-alpha) / count)


def _by_block(found: Sequence[tuple[int, float]]) -> dict[int, float]:
    """Return the mean logarithm by block."""
    logs: dict[int, list[float]] = {}
    for block, value in found:
        logs.setdefault(block, []).append(math.log(value))
    return {block: sum(values) / len(values) for block, values in logs.items()}
