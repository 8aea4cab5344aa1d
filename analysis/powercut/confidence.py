# SPDX-License-Identifier: GPL-3.0-or-later
"""What n power cuts, k of which lost something, say of the probability that a cut does.

Each cut is a Bernoulli trial of the same unknown probability p, independent of the others. The
bounds are exact: C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits
illustrated in the case of the binomial, Biometrika 26 (1934), 404-413.
"""

from __future__ import annotations

import math

from joulerig.plural import counted

CONFIDENCE = 0.95


def upper_bound(failures: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided upper bound of p.

    It is the p at which `failures` or fewer have probability 1 - confidence. Without a failure that
    is 1 - (1 - confidence)^(1/trials). 1 where there was no trial. Raises ValueError.
    """
    _check(failures, trials, confidence)
    if failures == trials:
        return 1.0
    if failures == 0:
        return -math.expm1(math.log1p(-confidence) / trials)
    return _beta_quantile(confidence, failures + 1, trials - failures)


def interval(failures: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the two-sided interval of p, (1 - confidence) / 2 at each side. Raises ValueError."""
    _check(failures, trials, confidence)
    tail = (1 - confidence) / 2
    low = _beta_quantile(tail, failures, trials - failures + 1) if failures else 0.0
    high = _beta_quantile(1 - tail, failures + 1, trials - failures) if failures < trials else 1.0
    return low, high


def trials_for(bound: float, confidence: float = CONFIDENCE) -> int:
    """Return how many trials without a failure bound p by `bound`. Raises ValueError."""
    if not 0 < bound < 1:
        raise ValueError(f"bound {bound}: not between 0 and 1")
    _check(0, 1, confidence)
    return math.ceil(math.log1p(-confidence) / math.log1p(-bound))


def _beta_quantile(probability: float, a: float, b: float) -> float:
    from scipy.stats import beta  # takes longer to import than most campaigns to analyse

    return float(beta.ppf(probability, a, b))


def _check(failures: int, trials: int, confidence: float) -> None:
    if not 0 <= failures <= trials:
        raise ValueError(f"{counted(failures, 'failure')} in {counted(trials, 'trial')}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence}: not between 0 and 1")
