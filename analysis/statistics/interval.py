# SPDX-License-Identifier: GPL-3.0-or-later
"""Confidence intervals of a ratio of sums, such as AI: by Fieller's theorem and the bootstrap."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

CONFIDENCE = 0.95
_RESAMPLES = 9999
_SEED = 20_140_607  # the same runs give the same interval
_FEWEST_TO_RESAMPLE = 3
_SMALL_PRODUCT = 2**17  # multiplications: OpenBLAS begins threads above 2**18
_NORMAL = float(special.ndtri((1 + CONFIDENCE) / 2))
_ROUNDING = 1e-12  # of the mean: less than this is no spread


class Interval(NamedTuple):
    """From `low` to `high`, in the unit of the value that it is around."""

    low: float
    high: float

    def widened(self, limit: float) -> Interval:
        """Return this with a limit of what is wrong, either way, added to it."""
        return Interval(self.low - limit, self.high + limit)


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


def student(values: ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Compute a confidence interval of the mean of at least two values, by Student's t."""
    found = np.asarray(values, dtype=float)
    reach = float(special.stdtrit(len(found) - 1, (1 + confidence) / 2))
    reach *= float(found.std(ddof=1)) / math.sqrt(len(found))
    return Interval(float(found.mean()) - reach, float(found.mean()) + reach)


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
    if count < 2 or (below := bottom.mean()) == 0:
        return None
    scale = abs(top.mean()) or np.abs(top).max() or 1.0
    mean = top.mean() / scale
    off = np.array((top / scale, bottom / below))
    off -= off.mean(axis=1)[:, None]
    variance = off @ off.T * (1 / (count - 1)) / count
    square_t = float(special.stdtrit(count - 1, (1 + confidence) / 2)) ** 2
    square = 1 - square_t * variance[1, 1]
    if square <= 0:
        return None
    middle = mean - square_t * variance[0, 1]
    inside = math.sqrt(max(0.0, middle**2 - square * (mean**2 - square_t * variance[0, 0])))
    ends = [float((middle + side * inside) / square * scale / below) for side in (-1, 1)]
    return Interval(min(ends), max(ends))


def bca(top: ArrayLike, bottom: ArrayLike, confidence: float = CONFIDENCE) -> Interval | None:
    """Compute a confidence interval of sum(top) / sum(bottom) by resampling runs.

    Bias-corrected and accelerated (Efron 1987, Journal of the American Statistical Association
    82(397), 171-185).

    None with fewer than three runs, and where the runs' ratios are all alike: there is nothing to
    resample. With few runs it is too narrow, as any bootstrap is.
    """
    return bca_by_cell([(top, bottom)], confidence)[0]


def bca_by_cell(
    cells: Sequence[tuple[ArrayLike, ArrayLike]], confidence: float = CONFIDENCE
) -> list[Interval | None]:
    """Compute `bca` of each cell, of its (top, bottom).

    Cells of as many runs are resampled alike, so that one product of matrices gives all their sums.
    """
    pairs = [_pairs(top, bottom) for top, bottom in cells]
    found: list[Interval | None] = [None] * len(pairs)
    by_count: dict[int, list[int]] = {}
    for place, pair in enumerate(pairs):
        if _can_resample(*pair):
            by_count.setdefault(len(pair[0]), []).append(place)
    for count, places in by_count.items():
        tops, bottoms = (np.array([pairs[place][side] for place in places]) for side in (0, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            for place, interval in zip(places, _bca(tops, bottoms, count, confidence), strict=True):
                found[place] = interval
    return found


def _can_resample(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> bool:
    if len(top) < _FEWEST_TO_RESAMPLE or not bottom.all():
        return False
    ratios = top / bottom
    return bool(np.ptp(ratios) > _ROUNDING * np.abs(ratios).max())


def _bca(
    tops: NDArray[np.float64], bottoms: NDArray[np.float64], count: int, confidence: float
) -> Iterator[Interval | None]:
    """Yield the interval of each row, of `count` runs.

    Efron and Tibshirani, An Introduction to the Bootstrap, 1993, equations 14.9 to 14.15. A
    resample that has each run once is the cell itself, in whichever order the runs come: within
    `_ROUNDING`, ratios are alike.
    """
    times = _resamples(count)
    resampled = _sums(tops, times) / _sums(bottoms, times)
    resampled.sort(axis=1)  # quantiles of what is sorted take a fraction of the time
    ratios = tops.sum(axis=1) / bottoms.sum(axis=1)
    left_out = (tops.sum(axis=1)[:, None] - tops) / (bottoms.sum(axis=1)[:, None] - bottoms)
    influences = (count - 1) * (left_out.mean(axis=1)[:, None] - left_out)
    accelerations = (influences**3).sum(axis=1) / (influences**2).sum(axis=1) ** 1.5 / 6
    around = _ROUNDING * np.abs(ratios)
    below = (resampled < (ratios - around)[:, None]).mean(axis=1)
    not_above = (resampled <= (ratios + around)[:, None]).mean(axis=1)
    biases = special.ndtri((below + not_above) / 2)
    normal = float(special.ndtri((1 + confidence) / 2))
    for row, bias, acceleration in zip(resampled, biases, accelerations, strict=True):
        shifted = bias + np.array([-normal, normal])
        chances = special.ndtr(bias + shifted / (1 - acceleration * shifted))
        ends = np.quantile(row, chances) if np.isfinite(chances).all() else chances
        yield Interval(*map(float, ends)) if np.isfinite(ends).all() else None


def _sums(values: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row of `values` in each resample, by products of small matrices.

    OpenBLAS shares a large product among threads, which wait for each other: where other processes
    use the processors, it then takes up to thirty times as long.
    """
    found = np.empty((len(values), len(times)))
    step = max(1, _SMALL_PRODUCT // values.size)
    for first in range(0, len(times), step):
        part = slice(first, first + step)
        np.matmul(values, times[part].T, out=found[:, part])
    return found


@functools.lru_cache(maxsize=4)
def _resamples(count: int) -> NDArray[np.float64]:
    """Return how often each of `count` runs is in each resample: (_RESAMPLES, count)."""
    drawn = np.random.default_rng(_SEED).integers(0, count, (_RESAMPLES, count))
    drawn += count * np.arange(_RESAMPLES)[:, None]
    times = np.bincount(drawn.ravel(), minlength=_RESAMPLES * count)
    return times.reshape(_RESAMPLES, count).astype(float)


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
