# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the level of a short series changes: tests of all places, at a stated false alarm rate.

For tens of values, one a campaign; `statistics.segments` is for the hundreds of values of one run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

SHORTEST = 2  # values of a level: a single one that stands out is no level
SHORTEST_SHARE = 8  # and of a long series an eighth: a few values of skewed noise are none either
FEWEST = 2 * SHORTEST
ALPHA = 0.05  # of series without a change, at most so many show one
FEWEST_TO_REMEMBER = 12  # values: fewer do not show whether one depends on the last
MOST_MEMORY, CAUTION = 0.9, 0.08  # of it; and how much greater than estimated it is taken to be
# By how much levels must explain a series better than a line, and than a smooth curve of as many
# parameters, for each change: squares in units of the noise's long-run variance.
BETTER_THAN_LINE, BETTER_THAN_CURVE = 6.0, 4.0
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """A change of level.

    `at`: the index of the first value of the new level. `difference`: new level less old one, from
    `low` to `high` at once for all places at which the two levels could have met. `p`: adjusted for
    these alike. `limit`: what is wrong with all values of one level alike can be so much of it.
    """

    at: int
    difference: float
    low: float
    high: float
    p: float
    limit: float


@dataclass(frozen=True)
class Drift:
    """A steady rise or fall: last value less first one on the line, from `low` to `high`."""

    difference: float
    low: float
    high: float
    p: float
    limit: float


@dataclass(frozen=True)
class Course:
    """The course of a series: `steps`, or a `drift`, or neither of them.

    `wanders`: levels differ more than chance would have it, and neither steps nor a line are what
    it does. `remembers`: values that depend on the last one were allowed for; where not, they are
    taken to be independent.
    """

    steps: tuple[Step, ...] = ()
    drift: Drift | None = None
    wanders: bool = False
    remembers: bool = False


def course(values: ArrayLike, alpha: float = ALPHA, limits: ArrayLike | None = None) -> Course:
    """Find what a series does: changes of level, a drift, or nothing that is more than chance.

    Parameters
    ----------
    values : array of float, (n,)
        Finite, in their order.
    alpha : float
        The rate of false alarms: of series whose level stays, at most so many show a step or a
        drift. Half of it is the line's.
    limits : array of float, (n, n), or None
        By how much two values can differ for what is wrong with each apart from its noise, such as
        another calibration; a change is what exceeds the largest one across it. None: nothing.

    Returns
    -------
    Course
        Nothing with fewer than `FEWEST` values.

    Notes
    -----
    Steps are those of `_steps`, unless a line, or a polynomial with as many parameters as they
    have, explains the series nearly as well: wear and seasons are no steps. The line is tested by
    t. From `FEWEST_TO_REMEMBER` values on the noise may be an autoregression: the variance of a
    mean is multiplied by (1 + m) / (1 - m), and the degrees of freedom are divided by it
    (A. Zięba, Effective number of observations and unbiased estimators of variance for
    autocorrelated data, Metrology and Measurement Systems 17(1), 2010, 3-16). m is the residuals'
    lag-1 correlation, with the bias that the fit gives it taken off.
    """
    values = np.asarray(values, dtype=float)
    count = len(values)
    if count < FEWEST:
        return Course()
    known = np.zeros((count, count)) if limits is None else np.asarray(limits, dtype=float)
    found = _steps(values, known, alpha / 2)
    remembers = count >= FEWEST_TO_REMEMBER
    if found and _better_than_smooth(values, [step.at for step in found]):
        return Course(tuple(found), remembers=remembers)
    drift = _drift(values, known, alpha / 2)
    return Course(drift=drift, wanders=bool(found) and drift is None, remembers=remembers)


def _steps(values: _Array, limits: _Array, alpha: float) -> list[Step]:
    """Find the changes of level in a series, by index.

    Notes
    -----
    Binary segmentation (A. J. Scott, M. Knott, A cluster analysis method for grouping means in the
    analysis of variance, Biometrics 30(3), 1974, 507-512) by the greatest two-sample t: of a step,
    and where there is none of a stretch in between, since a level that comes back hides from single
    steps. Each has half of alpha, by Bonferroni's bound over its places, which holds whatever the
    tests have in common. A part of the series has that part of alpha. What the final levels on both
    sides do not support, with the noise's memory allowed for, is taken back one by one.
    """
    found = sorted(_split(values, limits, 0, len(values), alpha))
    while found:
        inflation = _inflation(_residuals(values, found), len(found))
        made = [_step(values, limits, ends, alpha, inflation) for ends in _neighbours(found, len(values))]
        worst = max(made, key=lambda step: step.p)
        if worst.p < alpha:
            return made
        found.remove(worst.at)
    return []


def _residuals(values: _Array, places: Sequence[int]) -> _Array:
    """Return what is left of values around the levels that begin at `places`."""
    return np.concatenate([part - part.mean() for part in np.split(values, places)])


def _better_than_smooth(values: _Array, places: Sequence[int]) -> bool:
    """Return whether levels explain a series better than a line and a smooth curve do."""
    count, changes = len(values), len(places)
    residuals = _residuals(values, places)
    squares = float(residuals @ residuals)
    variance = squares / max(count - changes - 1, 1) * _inflation(residuals, changes)
    curve = min(2 * changes + 1, count - 3)  # a level costs its place and its height
    return all(
        _squares_around(values, degree) - squares > price * changes * variance
        for degree, price in ((1, BETTER_THAN_LINE), (curve, BETTER_THAN_CURVE))
    )


def _squares_around(values: _Array, degree: int) -> float:
    """Return the sum of squares around the polynomial of a degree that fits best."""
    powers = np.polynomial.legendre.legvander(np.linspace(-1, 1, len(values)), degree)
    basis, _ = np.linalg.qr(powers)
    residuals = values - basis @ (basis.T @ values)
    return float(residuals @ residuals)


def _drift(values: _Array, limits: _Array, alpha: float) -> Drift | None:
    """Return the line of a series where its slope is not 0."""
    count = len(values)
    places = np.linspace(-0.5, 0.5, count)
    information = float(places @ places)
    difference = float(places @ values) / information
    residuals = values - values.mean() - difference * places
    inflation = _inflation(residuals, 2)  # a line lowers the correlation as two levels do
    degrees = max((count - 2) / inflation, 1.0)
    error = math.sqrt(float(residuals @ residuals) / (count - 2) * inflation / information)
    limit = float(limits.max())
    p = _p(max(abs(difference) - limit, 0.0), error, degrees, 1)
    if p >= alpha:
        return None
    half_width = -float(special.stdtrit(degrees, alpha / 2)) * error + limit
    return Drift(difference, difference - half_width, difference + half_width, p, limit)


def _inflation(residuals: _Array, changes: int) -> float:
    """Return by what the variance of a mean of values is greater than of independent ones.

    `changes`: what was fitted besides a mean. Each fitted level lowers the correlation by about
    one in n, and so does the choice of its place.
    """
    if len(residuals) < FEWEST_TO_REMEMBER:
        return 1.0
    squares = float(residuals @ residuals)
    if squares <= 0:
        return 1.0
    correlation = float(residuals[1:] @ residuals[:-1]) / squares
    bias = 2 * (1 + changes) / len(residuals)
    memory = min(max(correlation + bias + CAUTION, 0.0), MOST_MEMORY)
    return (1 + memory) / (1 - memory)


def shortest(count: int) -> int:
    """Return the fewest values of a level in a series of `count`."""
    return max(SHORTEST, count // SHORTEST_SHARE)


def _split(values: _Array, limits: _Array, begin: int, end: int, alpha: float) -> Iterator[int]:
    """Yield where the values from `begin` to `end` have steps, in no order."""
    if end - begin < 2 * shortest(len(values)):
        return
    level = alpha * (end - begin) / len(values) / 2  # half for a step, half for a level between two
    inner = _step_within(values, limits, begin, end, level) or _between(values, limits, begin, end, level)
    yield from inner
    if inner:
        for first, last in itertools.pairwise([begin, *inner, end]):
            yield from _split(values, limits, first, last, alpha)


def _step_within(values: _Array, limits: _Array, begin: int, end: int, level: float) -> list[int]:
    """Return the place of the likeliest step, in a list; empty where none is certain."""
    least = shortest(len(values))
    tested = [_step(values, limits, (begin, at, end), level) for at in range(begin + least, end - least + 1)]
    best = min(tested, key=lambda step: (step.p, -abs(step.difference)))
    return [best.at] if best.p < level else []


def _between(values: _Array, limits: _Array, begin: int, end: int, level: float) -> list[int]:
    """Return both ends of the likeliest stretch between equal levels; empty: none is certain."""
    count, least = end - begin, shortest(len(values))
    starts, stops = np.triu_indices(count, least)
    kept = (starts >= least) & (stops <= count - least)
    starts, stops = starts[kept], stops[kept]
    if not len(starts):
        return []
    centred = values[begin:end] - values[begin:end].mean()
    sums = np.concatenate(([0.0], np.cumsum(centred)))
    inside, lengths = sums[stops] - sums[starts], stops - starts
    # The squares that two levels explain: the mean of all is 0.
    explained = inside**2 * (1 / lengths + 1 / (count - lengths))
    best = int(np.argmax(explained))
    start, stop = begin + int(starts[best]), begin + int(stops[best])
    around = np.concatenate((np.arange(begin, start), np.arange(stop, end)))
    length, degrees = stop - start, count - 2
    error = math.sqrt(
        max(float(centred @ centred - explained[best]), 0.0) / degrees * (1 / length + 1 / (count - length))
    )
    difference = abs(float(values[start:stop].mean() - values[around].mean()))
    beyond = max(difference - float(limits[around, start:stop].max()), 0.0)
    return [start, stop] if _p(beyond, error, degrees, len(starts)) < level else []


def _neighbours(found: list[int], count: int) -> Iterator[tuple[int, int, int]]:
    ends = [0, *found, count]
    yield from zip(ends, ends[1:], ends[2:], strict=False)


def _step(
    values: _Array, limits: _Array, ends: tuple[int, int, int], alpha: float, inflation: float = 1.0
) -> Step:
    """Return the change at the middle one of `ends`, of the values between the outer two."""
    begin, at, end = ends
    old, new = values[begin:at], values[at:end]
    count, places = end - begin, end - begin - 2 * shortest(len(values)) + 1
    difference = float(new.mean() - old.mean())
    degrees = max((count - 2) / inflation, 1.0)
    squares = float(np.sum((old - old.mean()) ** 2) + np.sum((new - new.mean()) ** 2))
    error = math.sqrt(squares / (count - 2) * (1 / len(old) + 1 / len(new)) * inflation)
    limit = float(limits[begin:at, at:end].max())
    beyond = max(abs(difference) - limit, 0.0)
    half_width = -float(special.stdtrit(degrees, alpha / 2 / places)) * error + limit
    return Step(
        at,
        difference,
        difference - half_width,
        difference + half_width,
        _p(beyond, error, degrees, places),
        limit,
    )


def _p(beyond: float, error: float, degrees: float, places: int) -> float:
    """Return the p of a difference that is so far beyond what needs no cause, for all places."""
    if error > 0:
        return min(1.0, places * 2 * float(special.stdtr(degrees, -beyond / error)))
    return 0.0 if beyond > 0 else 1.0
