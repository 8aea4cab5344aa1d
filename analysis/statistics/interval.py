# SPDX-License-Identifier: GPL-3.0-or-later
"""Confidence intervals of a ratio of sums, such as AI: by Fieller's theorem and the bootstrap."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

CONFIDENCE = 0.95
_RESAMPLES = 9999
_SEED = 20_140_607  # the same runs give the same interval
_FEWEST_TO_RESAMPLE = 3
_NORMAL = float(special.ndtri((1 + CONFIDENCE) / 2))
_ROUNDING = 1e-12  # of the mean: less than this is no spread


class Interval(NamedTuple):
    """From `low` to `high`, in the unit of the value that it is around."""

    low: float
    high: float


def relative_variance(top: ArrayLike, bottom: ArrayLike) -> float | None:
    """Estimate the variance of sum(top) / sum(bottom), relative to the ratio's square.

    By the spread between runs; to first order, from the runs' own deviations
    ``top / mean(top) - bottom / mean(bottom)`` (Cochran, Sampling Techniques, 3rd ed., section
    2.11). None with fewer than two runs, or means that are not positive.
    """
    top, bottom = _pairs(top, bottom)
    if len(top) < 2 or not (top.mean() > 0 and bottom.mean() > 0):
        return None
    return float(np.var(top / top.mean() - bottom / bottom.mean(), ddof=1) / len(top))


def fieller(top: ArrayLike, bottom: ArrayLike, confidence: float = CONFIDENCE) -> Interval | None:
    """Compute a confidence interval of mean(top) / mean(bottom), of pairs, by Fieller's theorem.

    Parameters
    ----------
    top, bottom : arrays of float, of one length n
        One pair a run; correlation within a pair is allowed for. Exact where the pairs are normal.

    Returns
    -------
    Interval or None
        None with fewer than two runs, and where the bottom's mean does not differ from zero: the
        set is then not bounded.

    Notes
    -----
    All r for which ``(mean(top) - r mean(bottom))^2 <= t^2 var(mean(top) - r mean(bottom))``, t of
    n - 1 degrees of freedom (E. C. Fieller, Some problems in interval estimation, Journal of the
    Royal Statistical Society B 16(2), 1954, 175-185).
    """
    top, bottom = _pairs(top, bottom)
    count = len(top)
    if count < 2 or bottom.mean() == 0:
        return None
    scale = abs(top.mean()) or np.abs(top).max() or 1.0
    mean = top.mean() / scale
    variance = np.cov(top / scale, bottom / bottom.mean()) / count
    square_t = float(special.stdtrit(count - 1, (1 + confidence) / 2)) ** 2
    square = 1 - square_t * variance[1, 1]
    if square <= 0:
        return None
    middle = mean - square_t * variance[0, 1]
    inside = math.sqrt(max(0.0, middle**2 - square * (mean**2 - square_t * variance[0, 0])))
    ends = [float((middle + side * inside) / square * scale / bottom.mean()) for side in (-1, 1)]
    return Interval(min(ends), max(ends))


def bca(top: ArrayLike, bottom: ArrayLike, confidence: float = CONFIDENCE) -> Interval | None:
    """Compute a confidence interval of sum(top) / sum(bottom) by resampling runs.

    Bias-corrected and accelerated (Efron 1987, Journal of the American Statistical Association
    82(397), 171-185).

    None with fewer than three runs, and where the runs' ratios are all alike: there is nothing to
    resample. With few runs it is too narrow, as any bootstrap is.
    """
    top, bottom = _pairs(top, bottom)
    if len(top) < _FEWEST_TO_RESAMPLE or not bottom.all():
        return None
    ratios = top / bottom
    if np.ptp(ratios) <= _ROUNDING * np.abs(ratios).max():
        return None
    found = stats.bootstrap(
        (top, bottom),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        vectorized=True,
        method="BCa",
        n_resamples=_RESAMPLES,
        confidence_level=confidence,
        rng=np.random.default_rng(_SEED),
    ).confidence_interval
    if not np.isfinite([found.low, found.high]).all():
        return None
    return Interval(float(found.low), float(found.high))


def with_common(value: float, random: Interval, common: float, runs: int) -> Interval:
    """Add to a 95 % interval what is wrong in every run alike.

    Parameters
    ----------
    value : float
        What `random` is around.
    random : Interval
        By the spread between runs alone, at 95 %.
    common : float
        Relative standard uncertainty of all that no replicate averages out (meter, gaps, instants).
    runs : int
        How many `random` is of: at least two.

    Notes
    -----
    Each side is halfway between two ways to combine a part known from few runs with one known
    beforehand: the root of the sum of squares of the two 95 % limits, which covers too much with
    few runs (97.7 % of three), and the combined standard uncertainty by Student's t with the
    effective degrees of freedom of Welch and Satterthwaite (JCGM 100:2008, G.4), which covers too
    little (92.2 %). Halfway it is 94 to 97 %, by simulation. What is added never makes a side
    shorter.
    """
    shared = common * abs(value)
    return Interval(
        value - _widened(value - random.low, shared, runs - 1),
        value + _widened(random.high - value, shared, runs - 1),
    )


def _widened(side: float, shared: float, freedom: int) -> float:
    """Add a standard uncertainty that is known beforehand to a side of an interval."""
    if side <= 0:
        return _NORMAL * shared
    standard = side / _student(freedom)
    both = math.hypot(standard, shared)
    welch = _student(freedom * (both / standard) ** 4) * both
    return max(side, (math.hypot(side, _NORMAL * shared) + welch) / 2)


def _student(freedom: float) -> float:
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _pairs(top: ArrayLike, bottom: ArrayLike) -> tuple[NDArray, NDArray]:
    top, bottom = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    if top.shape != bottom.shape or top.ndim != 1:
        raise ValueError(f"shapes {top.shape} and {bottom.shape}: give pairs, one a run")
    return top, bottom
