# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the level of a regular series changes: exact segmentation at a penalty a change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from joulerig.analysis.statistics import noise
from joulerig.analysis.statistics.noise import Noise

FEWEST = 30  # values, of which
FEWEST_INDEPENDENT = 20  # as many as these tell as much as independent ones do
SHORTEST = 5  # values of a segment
# A change must lessen the sum of squares by so much, in units of the noise's long-run variance; the
# second is times the noise's memory, as that is itself estimated. Where nothing changes, at most
# one series in twenty shows a change: docs/decisions/011-over-a-run.md.
PENALTY, PENALTY_OF_MEMORY = 10.0, 15.0


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
    for end in range(SHORTEST, count + 1):
        before = np.arange(end - SHORTEST + 1)
        costs = best[before] - (sums[end] - sums[before]) ** 2 / (end - before) + price
        begin[end] = np.argmin(costs)
        best[end] = costs[begin[end]]
    found, end = [], count
    while (end := int(begin[end])) > 0:
        found.append(end)
    return found[::-1]
