# SPDX-License-Identifier: GPL-3.0-or-later
"""Levels of a regular series: the places where they change, and the one that it ends at.

Changes: exact segmentation at a penalty a change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from joulerig.analysis.statistics import noise
from joulerig.analysis.statistics.interval import CONFIDENCE
from joulerig.analysis.statistics.noise import Noise

FEWEST = 30  # values, of which
FEWEST_INDEPENDENT = 20  # as many as these tell as much as independent ones do
SHORTEST = 5  # values of a segment
# A change must lessen the sum of squares by so much, in units of the noise's long-run variance; the
# second is times the noise's memory, as that is itself estimated. Where nothing changes, at most
# one series in twenty shows a change: docs/decisions/011-over-a-run.md.
PENALTY, PENALTY_OF_MEMORY = 10.0, 15.0
BATCHES = 10  # of a level, by whose means its slope and its uncertainty are judged
STILL = 0.01  # of a level: less movement is part of its interval, whether certain or not


def changes(values: ArrayLike) -> list[int] | None:
    """Find the indices at which a new level begins.

    Empty where the level stays, or only rises or falls steadily.

    Parameters
    ----------
    values : array of float
        At regular steps, finite.

    Returns
    -------
    list of int or None
        None where `too_few` values tell nothing.

    Notes
    -----
    The least sum of squares around levels plus a penalty for each change, of the values' ranks: by
    optimal partitioning, which is exact (B. Jackson and others, An algorithm for optimal
    partitioning of data on an interval, IEEE Signal Processing Letters 12(2), 2005, 105-108).
    Levels that fit no better than a straight line does at the price of one change are that line,
    and no changes.
    """
    values = np.asarray(values, dtype=float)
    if len(values) < FEWEST:
        return None
    ranked = noise.ranks(values)
    found = noise.estimate(ranked)
    if too_few(len(ranked), found):
        return None
    price = (PENALTY + PENALTY_OF_MEMORY * found.memory) * found.long_run_variance
    if price <= 0:
        return []
    begins = partition(ranked, price)
    levels = np.split(ranked, begins)
    in_steps = sum(float(np.sum((part - part.mean()) ** 2)) for part in levels) + price * len(begins)
    around_line = float(np.sum(noise.without_line(ranked) ** 2))
    return begins if in_steps < around_line + price else []


def too_few(count: int, estimated: Noise) -> bool:
    """Return whether `count` values of that noise are too few to find changes of level in.

    They are if worth fewer than `FEWEST_INDEPENDENT` independent ones.
    """
    return count * (1 - estimated.memory) / (1 + estimated.memory) < FEWEST_INDEPENDENT


def partition(values: NDArray[np.float64], price: float) -> list[int]:
    """Return where segments begin, but for the first, of the best partition.

    That is the one with the least sum of squares around the segments' means plus `price` a change;
    a segment has at least `SHORTEST` values.
    """
    count = len(values)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    best = np.full(count + 1, np.inf)  # of the first n values, less the sum of all squares
    best[0] = -price
    begin = np.zeros(count + 1, dtype=int)  # of the last segment
    falling = np.arange(count, 0, -1)
    for end in range(SHORTEST, count + 1):
        places = end - SHORTEST + 1  # at which the last segment can begin
        total = sums[end] - sums[:places]
        costs = best[:places] - total * total / falling[count - end :][:places]
        begin[end] = costs.argmin()
        best[end] = costs[begin[end]] + price
    found, end = [], count
    while (end := int(begin[end])) > 0:
        found.append(end)
    return found[::-1]


@dataclass(frozen=True)
class Level:
    """The level of a series from index `begin` to its end.

    `low` to `high`: the 95 % interval of the line through it, at both of its ends. `why`: why it
    does not hold; empty where it does.
    """

    begin: int
    value: float
    low: float
    high: float
    why: str = ""


def last_level(values: ArrayLike) -> Level | None:
    """Find the level that a series ends at, and whether it holds for at least half of the series.

    Parameters
    ----------
    values : array of float
        At regular steps, finite.

    Returns
    -------
    Level or None
        None with fewer than `FEWEST` values. A level does not hold where it changes (`changes`),
        where the last values, `SHORTEST` at most, lie apart from all others, where the 95 %
        interval of its slope leaves out 0, and where its noise remembers for so long that neither
        can be seen. Movements of less than `STILL` of it count as none: they are part of the
        interval.

    Notes
    -----
    The level begins where the mean of the rest has the least standard error: K. P. White, An
    effective truncation heuristic for bias reduction in simulation output, Simulation 69(6), 1997,
    323-334. Its line is that of least squares through the means of `BATCHES` equal parts, which are
    as good as independent where the noise remembers for less than one of them: method of batch
    means, C. Alexopoulos, A. F. Seila, Output data analysis, in Handbook of Simulation, Wiley 1998,
    chapter 7.
    """
    values = np.asarray(values, dtype=float)
    if len(values) < FEWEST:
        return None
    begin = _begin(values)
    rest = values[begin:]
    batches = np.array([part.mean() for part in np.array_split(rest, min(BATCHES, len(rest)))])
    rise, at_ends, of_rise = _line(batches)
    value = float(batches.mean())
    reach = abs(rise) / 2 + at_ends
    why, movement = "", float(np.ptp(batches))
    if begin > len(values) // 2:
        why = "it holds for less than half of the time"
    elif _ends_elsewhere(rest, STILL * abs(value)):
        why = "it changes"
    elif movement > STILL * abs(value):
        why = _moves(rest, rise, of_rise)
    elif movement > reach and _moves(rest, rise, of_rise):
        reach = movement
    return Level(begin, value, value - reach, value + reach, why)


def _ends_elsewhere(values: NDArray[np.float64], negligible: float) -> bool:
    """Return whether the last values, `SHORTEST` at most, are all above the others or all below.

    Ranks do not show such a change: so few of them are no evidence, however far the values lie off.
    Fewer than `SHORTEST` have to lie off by more than the range of the others; one can be a glitch.
    """
    for count in range(2, SHORTEST + 1):
        others, last = values[:-count], values[-count:]
        apart = max(last.min() - others.max(), others.min() - last.max())
        if apart > max(negligible, np.ptp(others) if count < SHORTEST else 0.0):
            return True
    return False


def _moves(values: NDArray[np.float64], rise: float, of_rise: float) -> str:
    """Say how values move; empty where they do not, as far as can be seen."""
    begins = changes(values)
    if begins is None:
        return "its noise remembers for too long"
    if begins:
        return "it changes"
    return "it slopes" if abs(rise) > of_rise else ""


def _begin(values: NDArray[np.float64]) -> int:
    """Return where to begin for the mean of the values to have the least standard error.

    One in the first half, unless a later one has half of the error or less. Noise counts as half of
    `STILL` at least, which hides movements that do not matter.
    """
    middle = np.median(values[len(values) // 2 :])
    values, least = values - middle, (STILL / 2 * middle) ** 2
    left = len(values) - np.arange(len(values) - len(values) // BATCHES)  # values from each index on
    sums, squares = (np.cumsum(amounts[::-1])[::-1][: len(left)] for amounts in (values, values**2))
    errors = (np.maximum(squares - sums**2 / left, 0.0) / left + least) / left  # squared
    first = int(np.argmin(errors[: len(values) // 2 + 1]))
    later = int(np.argmin(errors))
    return later if errors[later] < errors[first] / 4 else first


def _line(batches: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return how far the line through batches rises, and the half-widths (95 %) of both figures.

    That is: the rise from the beginning of the first batch to the end of the last; the half-width
    of the line at these two ends; the half-width of the rise.
    """
    count = len(batches)
    places = np.arange(count) - (count - 1) / 2
    spread = float(places @ places)
    variance = float(np.sum(noise.without_line(batches) ** 2)) / (count - 2)
    reach = float(special.stdtrit(count - 2, (1 + CONFIDENCE) / 2)) * np.sqrt(variance)
    rise = float(places @ batches) / spread * count
    return (
        rise,
        float(reach * np.sqrt(1 / count + (count / 2) ** 2 / spread)),
        float(reach * count / np.sqrt(spread)),
    )
