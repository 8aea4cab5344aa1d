# SPDX-License-Identifier: GPL-3.0-or-later
"""Confidence intervals of a ratio of sums, as AI is one: by Fieller's theorem and by the bootstrap."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

CONFIDENCE = 0.95
_RESAMPLES = 9999
_SEED = 20_140_607  # the same runs give the same interval
_FEWEST_TO_RESAMPLE = 3
_ROUNDING = 1e-12  # of the mean: less than this is no spread


class Interval(NamedTuple):
    """From `low` to `high`, in the unit of the value that it is around."""

    low: float
    high: float


def relative_variance(top: ArrayLike, bottom: ArrayLike) -> float | None:
    """Variance of sum(top) / sum(bottom) by the spread between runs, relative to the ratio's square.

    To first order, from the runs' own deviations ``top / mean(top) - bottom / mean(bottom)`` (Cochran,
    Sampling Techniques, 3rd ed., section 2.11). None with fewer than two runs, or means that are not
    positive.
    """
    top, bottom = _pairs(top, bottom)
    if len(top) < 2 or not (top.mean() > 0 and bottom.mean() > 0):
        return None
    return float(np.var(top / top.mean() - bottom / bottom.mean(), ddof=1) / len(top))


def fieller(top: ArrayLike, bottom: ArrayLike, confidence: float = CONFIDENCE) -> Interval | None:
    """Confidence interval of mean(top) / mean(bottom), of pairs, by Fieller's theorem.

    Parameters
    ----------
    top, bottom : arrays of float, of one length n
        One pair a run; correlation within a pair is allowed for. Exact where the pairs are normal.

    Returns
    -------
    Interval or None
        None with fewer than two runs, and where the bottom's mean is not told from zero: the set is then not
        bounded.

    Notes
    -----
    All r for which ``(mean(top) - r mean(bottom))^2 <= t^2 var(mean(top) - r mean(bottom))``, t of n - 1
    degrees of freedom (E. C. Fieller, Some problems in interval estimation, Journal of the Royal Statistical
    Society B 16(2), 1954, 175-185).
    """
    top, bottom = _pairs(top, bottom)
    count = len(top)
    if count < 2 or bottom.mean() == 0:
        return None
    scale = abs(top.mean()) or np.abs(top).max() or 1.0
    mean = top.mean() / scale
    variance = np.cov(top / scale, bottom / bottom.mean()) / count
    square_t = stats.t.isf((1 - confidence) / 2, count - 1) ** 2
    square = 1 - square_t * variance[1, 1]
    if square <= 0:
        return None
    middle = mean - square_t * variance[0, 1]
    inside = math.sqrt(max(0.0, middle**2 - square * (mean**2 - square_t * variance[0, 0])))
    ends = [float((middle + side * inside) / square * scale / bottom.mean()) for side in (-1, 1)]
    return Interval(min(ends), max(ends))


def bca(top: ArrayLike, bottom: ArrayLike, confidence: float = CONFIDENCE) -> Interval | None:
    """Confidence interval of sum(top) / sum(bottom) by resampling runs, bias-corrected and accelerated (Efron
    1987, Journal of the American Statistical Association 82(397), 171-185).

    None with fewer than three runs, and where the runs' ratios are all alike: there is nothing to resample.
    With few runs it is too narrow, as any bootstrap is.
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


def with_common(value: float, random: Interval, common: float) -> Interval:
    """An interval with what is wrong in every run alike added to it.

    `random` is the interval by the spread between runs; `common` the relative standard uncertainty of all
    that no replicate averages out (meter, gaps, instants). Each side is the root of the sum of squares.
    """
    shared = stats.norm.isf((1 - CONFIDENCE) / 2) * common * abs(value)
    return Interval(
        value - math.hypot(value - random.low, shared), value + math.hypot(random.high - value, shared)
    )


def _pairs(top: ArrayLike, bottom: ArrayLike) -> tuple[NDArray, NDArray]:
    top, bottom = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    if top.shape != bottom.shape or top.ndim != 1:
        raise ValueError(f"shapes {top.shape} and {bottom.shape}: give pairs, one a run")
    return top, bottom
