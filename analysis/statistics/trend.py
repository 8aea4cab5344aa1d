# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether values rise or fall with time: Theil and Sen's slope, Kendall's test, over groups too."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from joulerig.analysis.statistics import noise
from joulerig.analysis.statistics.interval import CONFIDENCE

FEWEST_PAIRS = 6  # of two values of a group: with fewer no p can be below 0.05


class Trend(NamedTuple):
    """The trend of values with time.

    `slope` per unit of time, from `low` to `high` (95 %; None where the pairs are too few for it),
    and the two-sided `p` of no trend.
    """

    slope: float
    low: float | None
    high: float | None
    p: float


def common_trend(groups: Iterable[tuple[ArrayLike, ArrayLike]], inflation: float = 1.0) -> Trend | None:
    """Estimate the trend that groups of values have in common; their levels may differ.

    Parameters
    ----------
    groups : (times, values) of each, arrays of one length
        Pairs of values are formed within a group alone.
    inflation : float
        Of the variance of Kendall's statistic: 1 for independent values, see `inflation`.

    Returns
    -------
    Trend or None
        None with fewer than `FEWEST_PAIRS` pairs, and where all values of each group are equal.

    Notes
    -----
    The seasonal Kendall test and slope with groups for seasons (R. M. Hirsch, J. R. Slack, R. A.
    Smith, Techniques of trend analysis for monthly water quality data, Water Resources Research
    18(1), 1982, 107-121); of one group they are Mann and Kendall's test and Theil and Sen's slope.
    The interval is that of P. K. Sen, Estimates of the regression coefficient based on Kendall's
    tau, Journal of the American Statistical Association 63, 1968, 1379-1389.
    """
    slopes: list[NDArray[np.float64]] = []
    variance = 0.0
    for times, values in groups:
        times, values = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
        one, other = np.triu_indices(len(values), 1)
        apart = times[other] != times[one]
        one, other = one[apart], other[apart]
        slopes.append((values[other] - values[one]) / (times[other] - times[one]))
        variance += _variance(values)
    found = np.sort(np.concatenate(slopes)) if slopes else np.array([])
    if len(found) < FEWEST_PAIRS or variance <= 0:
        return None
    deviation = math.sqrt(variance * inflation)
    score = float(np.sign(found).sum())
    z = max(0.0, abs(score) - 1) / deviation  # Kendall's correction for continuity
    reach = float(special.ndtri((1 + CONFIDENCE) / 2)) * deviation
    first, last = round((len(found) - reach) / 2) - 1, round((len(found) + reach) / 2)
    bounded = first >= 0 and last < len(found)
    return Trend(
        float(np.median(found)),
        float(found[first]) if bounded else None,
        float(found[last]) if bounded else None,
        2 * float(special.ndtr(-z)),
    )


def _variance(values: NDArray[np.float64]) -> float:
    """Return the variance of Kendall's statistic, of independent values; ties taken off."""
    ties = np.unique(values, return_counts=True)[1]
    return float(_terms(len(values)) - _terms(ties).sum()) / 18


def _terms(counts: ArrayLike) -> NDArray[np.float64]:
    counts = np.asarray(counts, dtype=float)
    return counts * (counts - 1) * (2 * counts + 5)


def inflation(values: ArrayLike) -> float:
    """Return the factor by which memory of `values` raises the variance of Kendall's statistic.

    K. H. Hamed, A. R. Rao, A modified Mann-Kendall trend test for autocorrelated data, Journal of
    Hydrology 204, 1998, 182-196; the correlations of the ranks, their trend taken out, are those of
    a first-order autoregression.
    """
    count = len(np.asarray(values))
    if count < 3:
        return 1.0
    lags = np.arange(1, count)
    correlations = noise.estimate(noise.ranks(values)).memory ** lags
    weights = (count - lags) * (count - lags - 1.0) * (count - lags - 2.0)
    return 1 + 2 * float(weights @ correlations) / (count * (count - 1.0) * (count - 2.0))


def series_trend(times: ArrayLike, values: ArrayLike) -> Trend | None:
    """Estimate the trend of one series at regular steps, its memory allowed for.

    None as in `common_trend`.
    """
    return common_trend([(times, values)], inflation(values))
