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
CONFIRM_AT = (4, 6, 9, 13)  # blocks of the two neighbours after which they are
CONFIRMED_SHARE = 0.5  # of the ends' difference that the neighbours must differ by
# Standard deviations of the levels' own effects, and of the step, relative to that of the noise.
OWN_EFFECTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
STEP_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
MOST_DOUBT = 0.25  # that there is a single step, when an answer is confirmed
OFTEN = 3  # measurements of a level
NO_STEP = 0.5  # the probability, before anything is measured, that the levels have no single step
_NOTHING = 1e-9  # of a sum of squares of regressors that is 0 but for rounding
_TINY = 1e-14  # of one of logarithms
_FEWEST_LEVELS = 2
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
    SPREAD = "spread over several levels"
    BUDGET_SPENT = "budget spent"


@dataclass(frozen=True)
class Search:
    """A search as far as its measurements go.

    `measure`: the indices of the levels of the next block; empty where it has ended. `first_bad`:
    the first level after the step, where it is found. `possible`: the levels that may be it, which
    hold at least 1 - `wrong` of the probability. `probabilities`: by level, that it is the first
    one after the step, given that there is one step (0 of the first level). `step`: the logarithm
    of bad over good, from `low` to `high`; None where there is nothing to judge by. `confirming`:
    the blocks of the two neighbours that were measured to confirm an answer.
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
    confirming: int = 0


def replay(blocks: Sequence[Block], design: Design) -> Search:
    """Work a search out from its blocks, oldest first.

    Blocks with fewer than two values, of runs that failed, cost budget and show nothing.

    Notes
    -----
    A value's logarithm is block + (level is after the step) x size + the level's own effect +
    noise. Own effects are normal, as are noise and the size before it is measured; their standard
    deviations relative to the noise's are weighed over `OWN_EFFECTS` and `STEP_SIZES`, and blocks
    and noise have flat priors. That there is no single step, so that own effects alone make the
    levels differ, has a probability of `NO_STEP` before anything is measured. That the ends differ
    at all is shown first, by t of their differences in blocks, with the looks' shares of half of
    `wrong`. The level that
    halves what is left is measured next to an end, in turn (M. Horstein, Sequential transmission
    using noiseless feedback, IEEE Transactions on Information Theory 9(3), 1963, 136-143).

    An answer is confirmed by fresh blocks of its two neighbours alone. Those must differ by
    `CONFIRMED_SHARE` of what the ends differ by, at the looks `CONFIRM_AT`; else the change is
    spread over several levels; so it is where no step is certain once each level was measured.
    """
    last = design.levels - 1
    complete = [block for block in blocks if len(block.values) > 1]
    differences = _differences(complete, 0, last)
    spent = len(blocks) >= design.most_blocks
    interval, differ = _ends(differences, design)
    if not differ:
        everywhere = tuple(range(1, design.levels))
        step, low, high = interval or (None, None, None)
        state = Search(Outcome.GOES_ON, len(blocks), possible=everywhere, step=step, low=low, high=high)
        if len(differences) >= ENDS_AT[-1]:
            return replace(state, outcome=Outcome.ENDS_ALIKE)
        return replace(state, outcome=Outcome.BUDGET_SPENT) if spent else replace(state, measure=(0, last))
    if design.levels == _FEWEST_LEVELS:
        step, low, high = _step(_Table.from_blocks(complete, design.levels), last)
        return Search(Outcome.FOUND, len(blocks), (), last, (last,), (0.0, 1.0), step, low, high)
    return _place(complete, design, len(blocks))


def _place(blocks: Sequence[Block], design: Design, count: int) -> Search:
    """Return how far the search for the place is, the ends being different."""
    begun = _candidate(blocks, design)
    searched = blocks if begun is None else blocks[: begun[1]]
    probabilities, none = posterior(searched, design.levels)
    table = _Table.from_blocks(blocks, design.levels)
    best = int(np.argmax(probabilities))
    step, low, high = _step(table, best)
    state = Search(
        Outcome.GOES_ON,
        count,
        possible=_most_probable(probabilities, 1 - design.wrong),
        probabilities=tuple(float(one) for one in probabilities),
        step=step,
        low=low,
        high=high,
    )
    spent = count >= design.most_blocks
    if begun is not None:
        place, since = begun
        fresh = _differences(blocks[since:], place - 1, place)
        state = replace(state, confirming=len(fresh))
        verdict = _confirm(fresh, _ends_differ_by(searched, design), design.wrong)
        if verdict is not None:
            if not verdict:
                return replace(state, outcome=Outcome.SPREAD)
            return replace(state, outcome=Outcome.FOUND, first_bad=place, possible=(place,))
        if spent:
            return replace(state, outcome=Outcome.BUDGET_SPENT)
        return replace(state, measure=(place - 1, place))
    if none >= 1 - design.wrong / 2:
        return replace(state, outcome=Outcome.SPREAD)
    if spent:
        return replace(state, outcome=Outcome.BUDGET_SPENT)
    return replace(state, measure=_next(blocks, probabilities, design))


def _candidate(blocks: Sequence[Block], design: Design) -> tuple[int, int] | None:
    """Return the first place that was certain, and after how many blocks it was.

    From then on its neighbours are measured, so that the blocks before two neighbours are looked
    at, and all of them.
    """
    for count in range(ENDS_AT[0], len(blocks) + 1):
        following = sorted(blocks[count].values) if count < len(blocks) else None
        if following and following[-1] - following[0] != 1:
            continue
        probabilities, none = posterior(blocks[:count], design.levels)
        best = int(np.argmax(probabilities))
        if following and following[-1] != best:
            continue
        if probabilities[best] >= 1 - 2 * design.wrong and none <= MOST_DOUBT:
            return best, count
    return None


def _confirm(fresh: Sequence[float], whole: float, wrong: float) -> bool | None:
    """Return whether the neighbours differ by enough of the ends' difference; None: not known yet.

    A half of it is excluded, on one side or the other, by t at some look; the last one takes the
    likelier side.
    """
    level = wrong / len(CONFIRM_AT)
    for look in (look for look in CONFIRM_AT if look <= len(fresh)):
        middle, reach = _mean([one / whole for one in fresh[:look]], 2 * level)
        if abs(middle - CONFIRMED_SHARE) > reach:
            return middle > CONFIRMED_SHARE
    return None if len(fresh) < CONFIRM_AT[-1] else middle > CONFIRMED_SHARE


def _differences(blocks: Sequence[Block], one: int, other: int) -> list[float]:
    """Return by how much a level is above another in the blocks that have both."""
    return [
        block.values[other] - block.values[one]
        for block in blocks
        if one in block.values and other in block.values
    ]


def _ends_differ_by(blocks: Sequence[Block], design: Design) -> float:
    return float(np.mean(_differences(blocks, 0, design.levels - 1)))


def posterior(blocks: Sequence[Block], levels: int) -> tuple[_Array, float]:
    """Return by level the probability that it is the first one after the step, and that of none.

    (levels,), given that there is one step, 0 of the first level; and the probability that there
    is no single step.
    """
    table = _Table.from_blocks([block for block in blocks if len(block.values) > 1], levels)
    if table.freedom < 2:
        return np.concatenate(([0.0], np.full(levels - 1, 1 / (levels - 1)))), NO_STEP
    fits = table.fits()
    most = max(float(fits.without.max()), float(fits.with_step.max()))
    places = np.exp(fits.with_step - most).mean(axis=(0, 1))[1:] / (levels - 1) * (1 - NO_STEP)
    none = float(np.exp(fits.without - most).mean()) * NO_STEP
    whole = float(places.sum())
    return np.concatenate(([0.0], places / whole)), none / (none + whole)


def step_at(blocks: Sequence[Block], levels: int, first_bad: int) -> tuple[float, float, float] | None:
    """Return the step before `first_bad` with its 95 % interval, as logarithms.

    None where the blocks do not show it.
    """
    table = _Table.from_blocks([block for block in blocks if len(block.values) > 1], levels)
    if table.freedom < 2 or table.fits().information[0, first_bad] <= _NOTHING:
        return None
    return _step(table, first_bad)


@dataclass(frozen=True)
class _Fits:
    """Fits of a step at each level, by own effects' and the step's standard deviations.

    `with_step` (own, sizes, levels) and `without` (own,): logarithms of the likelihood, but for a
    constant. `information` on the size, and `products`, whose quotient it is, (own, levels);
    `squares` that are left without a step, (own,).
    """

    with_step: _Array
    without: _Array
    information: _Array
    products: _Array
    squares: _Array


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

    def fits(self) -> _Fits:
        """Fit a step at each level, with own effects of each size."""
        after = np.cumsum(self.of_level[:, ::-1], axis=1)[:, ::-1]  # the sum over levels from here on
        # By eigenvectors of the levels' scatter own effects make the variance diagonal:
        # (I + own^2 Z Z')^-1 = I - Z (own^-2 + Z'Z)^-1 Z', on what the blocks leave.
        roots, vectors = np.linalg.eigh(self.of_level.T @ self.of_level)
        roots = np.where(roots > _NOTHING, roots, 0.0)
        scores = vectors.T @ (self.of_level.T @ self.values)
        crossed = vectors.T @ (self.of_level.T @ after)
        own = np.array(OWN_EFFECTS)[:, None] ** 2
        weights = np.where(roots > 0, own / (1 + own * roots), 0.0)
        squares = np.maximum(float(self.values @ self.values) - weights @ scores**2, 0.0) + _TINY
        information = np.maximum(np.sum(after**2, axis=0) - weights @ crossed**2, 0.0)
        products = after.T @ self.values - (weights * scores) @ crossed
        constant = -0.5 * np.log1p(own * roots).sum(axis=1)
        half = 0.5 * self.freedom
        sizes = np.array(STEP_SIZES)[None, :, None] ** 2
        growth = 1 + sizes * information[:, None]
        explained = np.maximum(squares[:, None, None] - sizes * products[:, None] ** 2 / growth, _TINY)
        with_step = constant[:, None, None] - 0.5 * np.log(growth) - half * np.log(explained)
        return _Fits(with_step, constant - half * np.log(squares), information, products, squares)

    @property
    def levels_seen(self) -> int:
        return int(np.count_nonzero(self.of_level.any(axis=0)))


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
    """Return the size of the step with its 95 % interval, for the place being right.

    Weighed over the sizes of own effects, of which two levels alone show nothing. How large they
    are is known from as many levels as were measured.
    """
    fits = table.fits()
    logs = np.logaddexp.reduce(fits.with_step[:, :, first_bad], axis=1)
    weights = np.exp(logs - logs.max())
    degrees = min(table.freedom - 1, table.levels_seen - 1)
    if table.levels_seen == _FEWEST_LEVELS:
        weights, degrees = np.eye(len(weights))[0], table.freedom - 1
    weights = weights / weights.sum()
    information = np.maximum(fits.information[:, first_bad], _NOTHING)
    sizes = fits.products[:, first_bad] / information
    noise = np.maximum(fits.squares - fits.products[:, first_bad] * sizes, 0.0) / (table.freedom - 1)
    middle = float(weights @ sizes)
    variance = float(weights @ (noise / information + (sizes - middle) ** 2))
    reach = -float(special.stdtrit(degrees, ALPHA / 2)) * math.sqrt(variance)
    return middle, middle - reach, middle + reach


def _most_probable(probabilities: _Array, share: float) -> tuple[int, ...]:
    """Return the fewest levels that hold so much of the probability."""
    order = np.argsort(-probabilities, kind="stable")
    enough = int(np.searchsorted(np.cumsum(probabilities[order]), share)) + 1
    return tuple(sorted(int(one) for one in order[:enough]))


def _next(blocks: Sequence[Block], probabilities: _Array, design: Design) -> tuple[int, ...]:
    """Return the level to measure next, and the end that it is measured next to.

    It is the one that halves the probability: before the step it is good, from it on bad, so that
    it shows whether the step is at most there. Where it was measured `OFTEN`, only other levels
    show more, as its own effect is the same each time: the one that was measured least, the nearest
    to the likeliest place first. Of the ends, the one that was measured less.
    """
    last = design.levels - 1
    times = [sum(level in block.values for block in blocks) for level in range(design.levels)]
    end = 0 if times[0] <= times[last] else last
    inner = range(1, last)
    if not inner:
        return (0, last)
    level = min(max(int(np.argmin(np.abs(np.cumsum(probabilities) - 0.5))), 1), last - 1)
    if times[level] >= OFTEN:
        best = int(np.argmax(probabilities))
        level = min(inner, key=lambda one: (times[one], abs(one - best + 0.5)))
    return tuple(sorted((end, level)))
