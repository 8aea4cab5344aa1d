# SPDX-License-Identifier: GPL-3.0-or-later
"""A search for the step between ordered levels: what is measured next, and when it is decided.

`replay` works a search out from its measurements alone: the same ones give the same next step,
whatever was interrupted between them (docs/decisions/071-bisect.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import special

from joulerig.analysis.statistics.ranking import ALPHA

ENDS_AT = (3, 5, 8, 12)  # blocks of the two ends after which they are compared
FIT_ALPHA = 0.01  # at which one step explains what the levels did
_NOTHING = 1e-9  # of a sum of squares of regressors that is 0 but for rounding
_TINY = 1e-14  # of one of logarithms
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """Logarithms of a figure, by the index of its level, that were measured next to each other."""

    values: dict[int, float]


@dataclass(frozen=True)
class Design:
    """The rules of a search, fixed before its first measurement.

    `levels`: how many there are, from the good end to the bad one. `most_blocks`: the budget.
    `wrong`: the answer is wrong in at most this share of searches.
    """

    levels: int
    most_blocks: int
    wrong: float = ALPHA

    def __post_init__(self) -> None:
        if self.levels < 2:
            raise ValueError(f"levels: {self.levels}: at least 2 are needed")
        if self.most_blocks < ENDS_AT[0]:
            raise ValueError(f"most_blocks: {self.most_blocks}: at least {ENDS_AT[0]} are needed")


class Outcome(StrEnum):
    """How far a search has come."""

    GOES_ON = "goes on"
    FOUND = "found"
    ENDS_ALIKE = "the ends do not differ"
    NOT_ONE_STEP = "not one step"
    BUDGET_SPENT = "budget spent"


@dataclass(frozen=True)
class Search:
    """A search as far as its measurements go.

    `measure`: the indices of the levels of the next block; empty where it has ended. `first_bad`:
    the first level after the step, where it is found. `possible`: the levels that may be it, which
    hold at least 1 - `wrong` of the probability. `probabilities`: by level, that it is the first
    one after the step, given that there is one step (0 of the first level). `step`: the logarithm
    of bad over good, from `low` to `high`; None where there is nothing to judge by.
    """

    outcome: Outcome
    blocks: int
    measure: tuple[int, ...] = ()
    first_bad: int | None = None
    possible: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    step: float | None = None
    low: float | None = None
    high: float | None = None


def replay(blocks: Sequence[Block], design: Design) -> Search:
    """Work a search out from its blocks, oldest first.

    Blocks with fewer than two values, of runs that failed, cost budget and show nothing.

    Notes
    -----
    A value's logarithm is block + (level is after the step) x size + normal noise, with flat priors
    of the blocks, the size and the noise's logarithm, and one of each place of the step. That its
    ends differ at all is shown first, by t of their differences in blocks, with the looks' shares
    of half of `wrong`; the other half is what the most probable place may lack of certainty. The
    level that halves what is left is measured next to an end, in turn (M. Horstein, Sequential
    transmission using noiseless feedback, IEEE Transactions on Information Theory 9(3), 1963,
    136-143). An end to which the levels' own means fit better, by F at `FIT_ALPHA`, is not one
    step.
    """
    last = design.levels - 1
    complete = [block for block in blocks if len(block.values) > 1]
    differences = [
        block.values[last] - block.values[0]
        for block in complete
        if 0 in block.values and last in block.values
    ]
    spent = len(blocks) >= design.most_blocks
    interval, differ = _ends(differences, design)
    if not differ:
        everywhere = tuple(range(1, design.levels))
        step, low, high = interval or (None, None, None)
        state = Search(Outcome.GOES_ON, len(blocks), possible=everywhere, step=step, low=low, high=high)
        if len(differences) >= ENDS_AT[-1]:
            return replace(state, outcome=Outcome.ENDS_ALIKE)
        return replace(state, outcome=Outcome.BUDGET_SPENT) if spent else replace(state, measure=(0, last))
    probabilities = posterior(complete, design.levels)
    best = int(np.argmax(probabilities))
    table = _Table.from_blocks(complete, design.levels)
    step, low, high = _step(table, best)
    state = Search(
        Outcome.GOES_ON,
        len(blocks),
        possible=_most_probable(probabilities, 1 - design.wrong),
        probabilities=tuple(float(one) for one in probabilities),
        step=step,
        low=low,
        high=high,
    )
    certain = probabilities[best] >= 1 - design.wrong / 2
    if (certain or spent) and not _fits(table, best):
        return replace(state, outcome=Outcome.NOT_ONE_STEP)
    if certain:
        return replace(state, outcome=Outcome.FOUND, first_bad=best, possible=(best,))
    if spent:
        return replace(state, outcome=Outcome.BUDGET_SPENT)
    return replace(state, measure=_next(complete, probabilities, design))


def posterior(blocks: Sequence[Block], levels: int) -> _Array:
    """Return by level the probability that it is the first one after the step; 0 of the first."""
    table = _Table.from_blocks(blocks, levels)
    squares, freedom, information, _ = table.fits()
    logs = np.full(levels, -math.inf)
    if freedom > 0:
        seen = information > _NOTHING
        # What is left after blocks and size are integrated over, then the noise.
        logs[seen] = -0.5 * np.log(information[seen]) - 0.5 * freedom * np.log(squares[seen] + _TINY)
    if not np.isfinite(logs).any():
        return np.concatenate(([0.0], np.full(levels - 1, 1 / (levels - 1))))
    weights = np.exp(logs - logs.max())
    found: _Array = weights / weights.sum()
    return found


def step_at(blocks: Sequence[Block], levels: int, first_bad: int) -> tuple[float, float, float] | None:
    """Return the step before `first_bad` with its 95 % interval, as logarithms.

    None where the blocks do not show it.
    """
    table = _Table.from_blocks([block for block in blocks if len(block.values) > 1], levels)
    _, freedom, information, _ = table.fits()
    if freedom < 1 or information[first_bad] <= 0:
        return None
    return _step(table, first_bad)


@dataclass(frozen=True)
class _Table:
    """Values of blocks without their block's mean.

    `values` (n,); `of_level` (n, levels): 1 of the value's level, without the block's mean as well.
    `freedom`: values less blocks.
    """

    values: _Array
    of_level: _Array
    freedom: int

    @classmethod
    def from_blocks(cls, blocks: Sequence[Block], levels: int) -> _Table:
        values, rows = [], []
        for block in blocks:
            found = np.fromiter(block.values.values(), dtype=float)
            own = np.eye(levels)[list(block.values)]
            values.append(found - found.mean())
            rows.append(own - own.mean(axis=0))
        joined = np.concatenate(values) if values else np.empty(0)
        return cls(joined, np.concatenate(rows) if rows else np.empty((0, levels)), len(joined) - len(blocks))

    def fits(self) -> tuple[_Array, int, _Array, _Array]:
        """Fit one step at each level by least squares.

        Return, by level, the sum of squares that is left, its degrees of freedom (of all), the
        information on the size (its regressor's sum of squares), and the size.
        """
        after = np.cumsum(self.of_level[:, ::-1], axis=1)[:, ::-1]  # the sum over levels from here on
        information, products = np.sum(after**2, axis=0), self.values @ after
        seen = information > _NOTHING
        size = np.divide(products, information, out=np.zeros_like(products), where=seen)
        squares = np.maximum(float(self.values @ self.values) - products * size, 0.0)
        return squares, self.freedom - 1, np.where(seen, information, 0.0), size

    def left_by_levels(self) -> tuple[float, int]:
        """Return the sum of squares that is left by a mean for each level, and what those cost."""
        coefficients, _, rank, _ = np.linalg.lstsq(self.of_level, self.values, rcond=None)
        return float(np.sum((self.values - self.of_level @ coefficients) ** 2)), int(rank)


def _ends(differences: Sequence[float], design: Design) -> tuple[tuple[float, float, float] | None, bool]:
    """Return the step between the ends with its interval, and whether some look found it."""
    level = design.wrong / 2 / len(ENDS_AT)
    for look in (look for look in ENDS_AT if look <= len(differences)):
        middle, reach = _mean(differences[:look], level)
        if abs(middle) > reach:
            return None, True
    if len(differences) < 2:
        return None, False
    middle, reach = _mean(differences, ALPHA)
    return (middle, middle - reach, middle + reach), False


def _mean(values: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return the mean, and half of its interval at a two-sided level."""
    array = np.asarray(values)
    error = float(array.std(ddof=1)) / math.sqrt(len(array))
    return float(array.mean()), -float(special.stdtrit(len(array) - 1, alpha / 2)) * error


def _step(table: _Table, first_bad: int) -> tuple[float, float, float]:
    """Return the size of the step with its 95 % interval, for the place being right."""
    squares, freedom, information, size = table.fits()
    error = math.sqrt(float(squares[first_bad]) / freedom / float(information[first_bad]))
    reach = -float(special.stdtrit(freedom, ALPHA / 2)) * error
    middle = float(size[first_bad])
    return middle, middle - reach, middle + reach


def _fits(table: _Table, first_bad: int) -> bool:
    """Return whether a mean for each level explains no more than one step does."""
    left, rank = table.left_by_levels()
    squares = float(table.fits()[0][first_bad])
    more, freedom = rank - 1, table.freedom - rank
    if more < 1 or freedom < 1 or squares <= _TINY:
        return True
    if left <= 1e-12 * squares:
        return False
    ratio = max((squares - left) / more / (left / freedom), 0.0)
    return float(special.fdtrc(more, freedom, ratio)) >= FIT_ALPHA


def _most_probable(probabilities: _Array, share: float) -> tuple[int, ...]:
    """Return the fewest levels that hold so much of the probability."""
    order = np.argsort(-probabilities, kind="stable")
    enough = int(np.searchsorted(np.cumsum(probabilities[order]), share)) + 1
    return tuple(sorted(int(one) for one in order[:enough]))


def _next(blocks: Sequence[Block], probabilities: _Array, design: Design) -> tuple[int, ...]:
    """Return the level that halves the probability, and the end that it is measured next to.

    Before the step `level` is good, from it on bad: to measure it asks whether the step is at most
    there. Of ends, the one that was measured less.
    """
    last = design.levels - 1
    below = np.cumsum(probabilities)
    level = int(np.argmin(np.abs(below - 0.5)))
    level = min(max(level, 1), last - 1) if last > 1 else last
    times = [sum(end in block.values for block in blocks) for end in (0, last)]
    end = 0 if times[0] <= times[1] else last
    return (0, last) if level in (0, last) else tuple(sorted((end, level)))
