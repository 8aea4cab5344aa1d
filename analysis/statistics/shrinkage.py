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


def fit_prior(variances: ArrayLike, degrees: ArrayLike) -> Prior:
    """Fit the prior of variances by the mean and the variance of their logarithms.

    Parameters
    ----------
    variances, degrees : arrays of float, of one length of at least 1
        Estimates with their degrees of freedom, all above 0.
    """
    found, each = np.asarray(variances, dtype=float), np.asarray(degrees, dtype=float)
    found = np.maximum(found, _LEAST_OF_MEDIAN * np.median(found))
    common = Prior(float(found @ each / each.sum()), math.inf)
    if len(found) < 2 or not found.any():
        return common
    logs = np.log(found) - special.digamma(each / 2) + np.log(each / 2)
    excess = float(np.var(logs, ddof=1) - special.polygamma(1, each / 2).mean())
    if excess <= 0:
        return common
    half = inverse_trigamma(excess)
    return Prior(math.exp(float(logs.mean()) + float(special.digamma(half)) - math.log(half)), 2 * half)


def shrink(variances: ArrayLike, degrees: ArrayLike) -> Shrunk:
    """Shrink variances towards their prior, but none below its own estimate.

    A group that varies more than the others keeps its own variance: shrinkage would make it look
    quieter than it is, and a difference from it surer. A group with 0 degrees of freedom gets the
    prior's variance.

    Parameters
    ----------
    variances, degrees : arrays of float, of one length
        At least one group has more than 0 degrees of freedom.
    """
    found, each = np.asarray(variances, dtype=float), np.asarray(degrees, dtype=float)
    known = each > 0
    prior = fit_prior(found[known], each[known])
    own = np.where(known, found, 0.0)
    if math.isinf(prior.degrees):
        shrunk = np.full(len(own), prior.variance)
    else:
        shrunk = (prior.degrees * prior.variance + each * own) / (prior.degrees + each)
    pooled = float(each.sum())
    return Shrunk(np.maximum(shrunk, own), np.minimum(prior.degrees + each, pooled), pooled)


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
