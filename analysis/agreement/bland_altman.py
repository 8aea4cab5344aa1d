# SPDX-License-Identifier: GPL-3.0-or-later
"""Agreement of two methods: bias, limits of agreement, their intervals, E_n numbers, verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import special

from joulerig.analysis.statistics.interval import CONFIDENCE

FEWEST = 3  # groups of pairs
Z = float(special.ndtri((1 + CONFIDENCE) / 2))  # of limits within which 95 % of differences lie
EXPLAINED = 0.95  # of pairs are within their uncertainties, where these are right
MOST_BEYOND = 0.20  # of pairs, that methods which agree may have beyond: shown by 17 pairs within
MOST_EXPANDED = 0.20  # of the mean: wider uncertainties would explain nearly any difference
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """What two methods read of one energy, in any unit above 0.

    `group`: pairs of one group are repetitions, such as the runs of a cell in one phase.
    `expanded`: the expanded uncertainty (k = 2) of each, in the same unit; None: not known.
    """

    group: str
    one: float
    other: float
    expanded: tuple[float | None, float | None] = (None, None)


class Verdict(StrEnum):
    """Whether two methods agree."""

    AGREE = "agree"
    DIFFER = "differ"
    UNDECIDED = "undecided"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Agreement:
    """The agreement of two methods; differences are one less other, over their mean.

    `bias`, `low_limit`, `high_limit`: each with its 95 % interval; None with fewer than `FEWEST`
    groups. `spread`: the standard deviation of a difference. `normalised`: E_n of each pair, None
    where an uncertainty is not known. `beyond`: the share of those known with |E_n| > 1, with its
    95 % interval.
    """

    pairs: int
    groups: int
    means: tuple[float, ...]
    differences: tuple[float, ...]
    bias: tuple[float, float, float] | None
    spread: float | None
    low_limit: tuple[float, float, float] | None
    high_limit: tuple[float, float, float] | None
    normalised: tuple[float | None, ...]
    beyond: tuple[float, float, float] | None
    verdict: Verdict
    why: str


def agreement(pairs: Sequence[Pair]) -> Agreement:
    """Compare two methods by what they read of the same energies.

    Notes
    -----
    J. M. Bland, D. G. Altman, Measuring agreement in method comparison studies, Statistical Methods
    in Medical Research 8, 1999, 135-160: limits of agreement are bias ± 1.96 standard deviations,
    those of a single difference. With repetitions its variance is that between groups and that
    within them (their section 5; here by the analysis of variance of unequal groups). The intervals
    count groups, not pairs: what repetitions have in common they do not average out. E_n = (one -
    other) / sqrt(U_one² + U_other²), of ISO 13528:2022; where the stated uncertainties are right,
    95 % of pairs are within 1. The methods differ where more than 5 % of pairs are certainly beyond
    it. They agree where at most 5 % are, certainly fewer than `MOST_BEYOND`, and the median pair's
    uncertainty is at most `MOST_EXPANDED`. Pairs are taken as independent: an error that all share,
    such as a gain, makes honest methods "differ" more often than in 5 %.
    """
    ones, others = (
        np.array([getattr(pair, name) for pair in pairs], dtype=float) for name in ("one", "other")
    )
    means = (ones + others) / 2
    differences = (ones - others) / means
    names = [pair.group for pair in pairs]
    groups = len(set(names))
    normalised = tuple(_normalised(pair) for pair in pairs)
    known = [abs(one) for one in normalised if one is not None]
    beyond = _share(sum(one > 1 for one in known), len(known)) if known else None
    if groups < FEWEST:
        bias = spread = low = high = None
    else:
        bias, spread = _bias(differences, names)
        low, high = (_limit(bias[0], sign * Z * spread, spread, groups) for sign in (-1, 1))
    verdict, why = _verdict(bias, beyond, _expanded(pairs), len(known), len(pairs), groups)
    return Agreement(
        len(pairs), groups, tuple(map(float, means)), tuple(map(float, differences)), bias, spread, low, high,
        normalised, beyond, verdict, why,
    )  # fmt: skip


def _normalised(pair: Pair) -> float | None:
    one, other = pair.expanded
    if one is None or other is None:
        return None
    uncertainty = math.hypot(one, other)
    return (pair.one - pair.other) / uncertainty if uncertainty else None


def _expanded(pairs: Sequence[Pair]) -> float:
    """Return the median uncertainty of a pair over its mean; NaN: no pair has both."""
    known = [
        2 * math.hypot(one, other) / (pair.one + pair.other)
        for pair in pairs
        for one, other in [pair.expanded]
        if one is not None and other is not None
    ]
    return float(np.median(known)) if known else math.nan


def _bias(differences: _Array, names: Sequence[str]) -> tuple[tuple[float, float, float], float]:
    """Return the mean over groups with its interval, and a single difference's deviation."""
    by_group = [differences[[name == group for name in names]] for group in dict.fromkeys(names)]
    centres = np.array([found.mean() for found in by_group])
    sizes = np.array([len(found) for found in by_group])
    middle, count = float(centres.mean()), len(by_group)
    reach = -float(special.stdtrit(count - 1, (1 - CONFIDENCE) / 2)) * float(centres.std(ddof=1))
    reach /= math.sqrt(count)
    within_freedom = int(sizes.sum()) - count
    squares = math.fsum(float(np.sum((found - found.mean()) ** 2)) for found in by_group)
    within = squares / within_freedom if within_freedom else 0.0
    # A group's mean varies by the groups' own variance and its share of that within.
    between = max(float(centres.var(ddof=1)) - within * float(np.mean(1 / sizes)), 0.0)
    return (middle, middle - reach, middle + reach), math.sqrt(between + within)


def _limit(bias: float, away: float, spread: float, groups: int) -> tuple[float, float, float]:
    """Return a limit of agreement with its interval: Bland and Altman's, section 4.2."""
    error = spread * math.sqrt(1 / groups + Z**2 / 2 / (groups - 1))
    reach = -float(special.stdtrit(groups - 1, (1 - CONFIDENCE) / 2)) * error
    return bias + away, bias + away - reach, bias + away + reach


def _share(count: int, of: int) -> tuple[float, float, float]:
    """Return a share with its interval (C. J. Clopper, E. S. Pearson, Biometrika 26, 1934)."""
    tail = (1 - CONFIDENCE) / 2
    low = float(special.betaincinv(count, of - count + 1, tail)) if count else 0.0
    high = float(special.betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return count / of, low, high


def _verdict(
    bias: tuple[float, float, float] | None,
    beyond: tuple[float, float, float] | None,
    expanded: float,
    known: int,
    pairs: int,
    groups: int,
) -> tuple[Verdict, str]:
    if beyond is None:
        return Verdict.NOT_KNOWN, "no pair has both uncertainties: how far they may differ is not stated"
    share, low, high = beyond
    ends = f"{100 * low:.2g} to {100 * high:.3g} %"
    said = f"{100 * share:.3g} % of {known} pairs are beyond their uncertainties ({ends})"
    if known < pairs:
        said += f", {pairs - known} have none"
    if low > 1 - EXPLAINED:
        return Verdict.DIFFER, said
    if bias is None:
        return Verdict.UNDECIDED, f"{said}; {groups} of at least {FEWEST} groups"
    if expanded > MOST_EXPANDED:
        wide = f"±{100 * expanded:.0f} %; at most {100 * MOST_EXPANDED:.0f} %"
        return Verdict.UNDECIDED, f"{said}; their uncertainties are too wide to judge by: {wide}"
    if share <= 1 - EXPLAINED and high < MOST_BEYOND:
        return Verdict.AGREE, said
    return Verdict.UNDECIDED, f"{said}; more pairs decide"
