# SPDX-License-Identifier: GPL-3.0-or-later
"""The studentized range's distribution, of many values at once.

scipy integrates each value on its own by adaptive quadrature, which takes milliseconds; a campaign
of 1,000 runs has thousands of pairs.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

_NEGLIGIBLE = 40.0  # exp(-40) of the greatest is nothing to a double
_NORMAL_STEP, _NORMAL_REACH = 0.125, 9.0
_AT_ONCE = 1 << 20  # values of the integrand in memory


def survival(q: ArrayLike, count: int, freedom: int) -> NDArray[np.float64]:
    """Compute the probability that the studentized range exceeds `q`, to 1e-12.

    Parameters
    ----------
    q : array of float
        Range of the means over their standard error.
    count : int
        Means compared, at least 2.
    freedom : int
        Degrees of freedom of the standard error, at least 1.

    Returns
    -------
    array of float, of the shape of `q`
        1 where q is not positive.

    Notes
    -----
    With s the standard error over its expectation, f its density, and Q the survival of the range
    of `count` standard normals (H. L. Harter, Tables of range and studentized range, Annals of
    Mathematical Statistics 31(4), 1960, 1122-1147)::

        P = ∫ f(s) Q(q s) ds,  Q(w) = count ∫ φ(z) [Φ(z)^(count-1) - (Φ(z) - Φ(z - w))^(count-1)] dz

    Both by the trapezoidal rule, the outer one over log s: it converges exponentially where an
    analytic integrand dies away on both sides (L. N. Trefethen, J. A. C. Weideman, SIAM Review
    56(3), 2014, 385-458).
    """
    if count < 2 or freedom < 1:
        raise ValueError(f"{count} means with {freedom} degrees of freedom: at least 2 and 1 are needed")
    values = np.asarray(q, dtype=float)
    flat = np.maximum(values.ravel(), 0.0)
    scales, weights = _standard_errors(freedom)
    at_once = max(1, _AT_ONCE // (len(scales) * len(_normal_nodes())))
    found = [
        _range_survival(np.outer(flat[first : first + at_once], scales), count) @ weights
        for first in range(0, len(flat), at_once)
    ]
    return np.clip(np.concatenate(found) if found else flat, 0.0, 1.0).reshape(values.shape)


@lru_cache(maxsize=256)
def critical(alpha: float, count: int, freedom: int) -> float:
    """Return the q that the studentized range exceeds with probability `alpha`."""
    above = 4.0
    while survival(above, count, freedom) > alpha:
        above *= 2
    found = optimize.brentq(lambda q: float(survival(q, count, freedom)) - alpha, 0.0, above, xtol=1e-13)
    return float(found)


@lru_cache(maxsize=64)
def _standard_errors(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes s and weights of ∫ f(s) g(s) ds.

    f is the density of chi with `freedom` degrees over sqrt(freedom).
    """
    step = min(0.1, 0.35 / math.sqrt(freedom))
    logs = np.arange(-(_NEGLIGIBLE + 5) / freedom - 9 / math.sqrt(freedom), 3.0, step)
    below_greatest = freedom * (logs - np.expm1(2 * logs) / 2)  # log of s f(s), 0 at s = 1
    logs, below_greatest = logs[below_greatest > -_NEGLIGIBLE], below_greatest[below_greatest > -_NEGLIGIBLE]
    half = freedom / 2
    greatest = math.log(2) + half * math.log(half) - half - special.gammaln(half)
    return np.exp(logs), step * np.exp(below_greatest + greatest)


@lru_cache(maxsize=1)
def _normal_nodes() -> NDArray[np.float64]:
    return np.arange(-_NORMAL_REACH, _NORMAL_REACH + _NORMAL_STEP, _NORMAL_STEP)


def _range_survival(w: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Compute the probability that the range of `count` standard normals exceeds `w`."""
    z = _normal_nodes()
    below = special.ndtr(z)
    weight = count * _NORMAL_STEP * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * below ** (count - 1)
    # 1 - (1 - x)^(count - 1), which keeps its digits where x, the part below z - w, is small
    with np.errstate(divide="ignore"):  # x = 1 where w = 0: log 0 is meant
        part = np.log1p(-np.minimum(special.ndtr(z - w[..., None]) / below, 1.0))
    return -np.expm1((count - 1) * part) @ weight
