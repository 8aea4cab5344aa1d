# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the level of a short series changes: tests of all places, at a stated false alarm rate.

For tens of values, one a campaign; `statistics.segments` is for the hundreds of
values of one run, whose noise has a memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

SHORTEST = 2  # values of a level: a single one that stands out is no level
SHORTEST_SHARE = 8  # and of a long series an eighth: a few values of skewed noise are none either
FEWEST = 2 * SHORTEST
ALPHA = 0.05  # of series without a change, at most so many show one
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


def steps(values: ArrayLike, alpha: float = ALPHA, limits: ArrayLike | None = None) -> list[Step]:
    """Find the changes of level in a series.

    Parameters
    ----------
    values : array of float, (n,)
        Finite, in their order, independent but for the level.
    alpha : float
        The rate of false alarms: of series whose level stays, at most so many show a change.
    limits : array of float, (n, n), or None
        By how much two values can differ for what is wrong with each apart from its noise, such as
        another calibration; a change is what exceeds the largest one across it. None: nothing.

    Returns
    -------
    list of Step
        By index; empty with fewer than `FEWEST` values.

    Notes
    -----
    Binary segmentation (A. J. Scott, M. Knott, A cluster analysis method for grouping means in the
    analysis of variance, Biometrics 30(3), 1974, 507-512) by the greatest two-sample t: of a step,
    and where there is none of a stretch in between, since a level that comes back hides from single
    steps. Each has half of alpha, by Bonferroni's bound over its places, which holds whatever the
    tests have in common. A part of the series has that part of alpha. What the final levels on both
    sides no longer support is taken back.
    """
    values = np.asarray(values, dtype=float)
    known = np.zeros((len(values), len(values))) if limits is None else np.asarray(limits, dtype=float)
    found = sorted(_split(values, known, 0, len(values), alpha))
    while found:
        made = [_step(values, known, ends, alpha) for ends in _neighbours(found, len(values))]
        worst = max(made, key=lambda step: step.p)
        if worst.p < alpha:
            return made
        found.remove(worst.at)
    return []


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


def _step(values: _Array, limits: _Array, ends: tuple[int, int, int], alpha: float) -> Step:
    """Return the change at the middle one of `ends`, of the values between the outer two."""
    begin, at, end = ends
    old, new = values[begin:at], values[at:end]
    places, degrees = end - begin - 2 * shortest(len(values)) + 1, end - begin - 2
    difference = float(new.mean() - old.mean())
    squares = float(np.sum((old - old.mean()) ** 2) + np.sum((new - new.mean()) ** 2))
    error = math.sqrt(squares / degrees * (1 / len(old) + 1 / len(new)))
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


def _p(beyond: float, error: float, degrees: int, places: int) -> float:
    """Return the p of a difference that is so far beyond what needs no cause, for all places."""
    if error > 0:
        return min(1.0, places * 2 * float(special.stdtr(degrees, -beyond / error)))
    return 0.0 if beyond > 0 else 1.0
