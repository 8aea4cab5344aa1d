# SPDX-License-Identifier: GPL-3.0-or-later
"""Noise of a regular series around a level that may change: its size, and how long it remembers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_MEMORY = 0.9  # beyond it a few hundred points do not tell noise from a level that wanders

_ROUNDING = 1e-20  # of a square: less than this is none


class Noise(NamedTuple):
    """A first-order autoregression: `variance` of its values, `memory` their lag-1 correlation."""

    variance: float
    memory: float

    @property
    def long_run_variance(self) -> float:
        """Return n times the variance of a mean of n values, n large.

        That is what counts where levels are compared.
        """
        return self.variance * (1 + self.memory) / (1 - self.memory)


def estimate(values: ArrayLike) -> Noise:
    """Estimate the noise of `values` around their least-squares line.

    By mean squares of differences at lag 1 and 2.

    With memory m and variance v these are 2 v (1 - m) and 2 v (1 - m^2): their ratio is 1 + m (J.
    von Neumann, Distribution of the ratio of the mean square successive difference to the variance,
    Annals of Mathematical Statistics 12(4), 1941, 367-395). A level that changes now and then is in
    few differences.

    Memory is too low by (2 + 4 m) / n where a line is taken off n values (F. H. C. Marriott, J. A.
    Pope, Bias in the estimation of autocorrelations, Biometrika 41, 1954, 390-402); below 0 it
    counts as none. A series without differences has variance 0; it needs three values.
    """
    values = without_line(np.asarray(values, dtype=float))
    one, two = (float(np.mean((values[lag:] - values[:-lag]) ** 2)) for lag in (1, 2))
    if one <= _ROUNDING:
        return Noise(0.0, 0.0)
    found = two / one - 1
    memory = float(np.clip(found + (2 + 4 * found) / len(values), 0.0, MOST_MEMORY))
    return Noise(one / 2 / (1 - memory), memory)


def without_line(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what is left of regular `values` when their least-squares line is taken off."""
    places = np.arange(len(values)) - (len(values) - 1) / 2
    return values - values.mean() - float(places @ values) / float(places @ places) * places


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return the rank of each value, scaled to mean 0 and variance 1.

    Outliers and skew are gone, changes of level and a steady rise are not. Equal values get one
    rank.
    """
    _, place, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    count, middle = len(place), np.cumsum(counts) - (counts - 1) / 2
    return (middle[place] - (count + 1) / 2) / np.sqrt((count**2 - 1) / 12)
