# SPDX-License-Identifier: GPL-3.0-or-later
"""Variances of many groups with few values each, shrunk towards what they have in common.

G. K. Smyth, Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments, Statistical Applications in Genetics and Molecular Biology 3(1), 2004,
article 3, sections 3 and 6.2; limma's `fitFDist` and `squeezeVar` do the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

_LEAST_OF_MEDIAN = 1e-5  # a variance of none would make the logarithms' spread infinite
_CONVERGED = 1e-10
_FEWEST_TO_DOUBT = 3  # groups: of fewer, no spread of variances is seen


@dataclass(frozen=True)
class Prior:
    """The scaled inverse chi-square distribution that true variances are drawn from.

    `degrees` of freedom are infinite where the variances differ no more than chance would have it:
    all are then `variance`.
    """

    variance: float
    degrees: float


@dataclass(frozen=True)
class Shrunk:
    """The variance of each group, and its degrees of freedom.

    `pooled_degrees` of freedom are those of all groups together: no variance has more.
    """

    variances: NDArray[np.float64]
    degrees: NDArray[np.float64]
    pooled_degrees: float


def fit_prior(variances: ArrayLike, degrees: ArrayLike, caution: float = 0.0) -> Prior:
    """Fit the prior of variances by the mean and the variance of their logarithms.

    Parameters
    ----------
    variances, degrees : arrays of float, of one length of at least 1
        Estimates with their degrees of freedom, all above 0.
    caution : float
        By how many of its standard errors the spread of the true variances is taken to be greater
        than it looks. Few groups with few values each cannot show that they vary alike; the more
        there are, the less this adds. Without effect on fewer than three groups: two cells in
        blocks have one and the same estimate.

    Notes
    -----
    The excess is the variance of k logarithms less the mean of trigamma(degrees / 2), which chance
    alone gives them. Its standard error is that of a variance of k values with that fourth
    cumulant, the mean of the third derivative of digamma: ``sqrt(2 v^2 / (k - 1) + c4 / k)``.
    """
    found, each = np.asarray(variances, dtype=float), np.asarray(degrees, dtype=float)
    found = np.maximum(found, _LEAST_OF_MEDIAN * np.median(found))
    common = Prior(float(found @ each / each.sum()), math.inf)
    if len(found) < 2 or not found.any():
        return common
    logs = np.log(found) - special.digamma(each / 2) + np.log(each / 2)
    by_chance = float(special.polygamma(1, each / 2).mean())
    excess = max(0.0, float(np.var(logs, ddof=1)) - by_chance)
    if caution and len(found) >= _FEWEST_TO_DOUBT:
        fourth = float(special.polygamma(3, each / 2).mean())
        excess += caution * standard_error_of_excess(excess + by_chance, fourth, len(found))
    if excess <= 0:
        return common
    half = inverse_trigamma(excess)
    return Prior(math.exp(float(logs.mean()) + float(special.digamma(half)) - math.log(half)), 2 * half)


def standard_error_of_excess(variance: float, fourth_cumulant: float, count: float) -> float:
    """Return the standard error of the variance of `count` logarithms (`fit_prior`)."""
    return math.sqrt(2 * variance**2 / (count - 1) + fourth_cumulant / count)


def shrink(
    variances: ArrayLike, degrees: ArrayLike, caution: float = 0.0, floored: ArrayLike = True
) -> Shrunk:
    """Shrink variances towards their prior, but those of `floored` groups not below their own.

    A group that varies more than the others keeps its own variance: shrinkage would make it look
    quieter than it is, and a difference from it surer. A group with 0 degrees of freedom gets the
    prior's variance.

    Parameters
    ----------
    variances, degrees : arrays of float, of one length
        At least one group has more than 0 degrees of freedom.
    caution : float
        As in `fit_prior`.
    floored : array of bool, or bool for all groups
    """
    found, each = np.asarray(variances, dtype=float), np.asarray(degrees, dtype=float)
    known = each > 0
    prior = fit_prior(found[known], each[known], caution)
    own = np.where(known, found, 0.0)
    if math.isinf(prior.degrees):
        shrunk = np.full(len(own), prior.variance)
    else:
        shrunk = (prior.degrees * prior.variance + each * own) / (prior.degrees + each)
    pooled = float(each.sum())
    shrunk = np.where(floored, np.maximum(shrunk, own), shrunk)
    return Shrunk(shrunk, np.minimum(prior.degrees + each, pooled), pooled)


def inverse_trigamma(value: float) -> float:
    """Return the x > 0 at which the trigamma function is `value` > 0, by Newton's method.

    On 1 / trigamma, which is convex and nearly linear, so that every step but the first comes from
    the same side (Smyth 2004, appendix).
    """
    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        found = float(special.polygamma(1, x))
        step = found * (1 - found / value) / float(special.polygamma(2, x))
        x += step
        if -step / x < _CONVERGED:
            break
    return x
