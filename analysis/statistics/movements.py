# SPDX-License-Identifier: GPL-3.0-or-later
"""Movements of cells between campaigns: log(value) = campaign + cell + block + (cell x campaign).

Gates, comparisons and series of campaigns rest on this model. `statistics.differences` takes the
blocks out; here a campaign's movement, which all of its cells have in common, is separated from a
cell's own, and the variance of the own ones is estimated although a few of them are changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from joulerig.analysis.statistics import LOG_ROUNDING
from joulerig.analysis.statistics.differences import Fit, Systematic, limit_of_difference
from joulerig.analysis.statistics.ranking import ALPHA, sidak, sidak_level

FEWEST_CELLS = 3  # of fewer there is no majority that could show what all of them did
FEWEST_OWN = 4  # movements from which their variance is estimated, and a part of which is trimmed
CAUTION = 0.5  # standard errors by which their variance is taken to be greater than it looks
_TRIMMED = 4  # one in so many of the own movements may be a change
_EFFICIENCY = 0.55  # degrees of freedom a movement: so many less a variance without the largest has
_SWEEPS = 25
_HALVINGS = 60
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Deviation:
    """The deviation between campaigns in which nothing changed: standard deviations of logarithms.

    `common`: of what all cells of a campaign do together (a warm day, an older drive). `own`: of
    what a cell does apart from that; None: not known, so that the compared cells have to show it.
    """

    common: float
    own: float | None = None
    degrees: float = math.inf
    own_degrees: float = math.inf


@dataclass(frozen=True)
class Moves:
    """The movements of cells from one campaign to another, as logarithms.

    Arrays (cells,): `total`; `own`, apart from what all did; `reach`, to either side of it, for all
    cells at once, and what of it is the meters' `limit`; `p`, adjusted. `common`, `common_reach`,
    `common_limit` and `common_p` likewise; None where the cells are too few. `known`: whether a
    deviation between campaigns is in what depends on it: the common movement, and the own ones of
    cells too few to separate it from. `why`: what leaves all of them untested.
    """

    total: _Array
    own: _Array
    reach: _Array
    limit: _Array
    p: _Array
    known: bool
    common: float | None = None
    common_reach: float = math.nan
    common_limit: float = math.nan
    common_p: float = math.nan
    why: str = ""


def move(
    before: _Array,
    after: _Array,
    deviation: Deviation | None = None,
    errors: Sequence[Sequence[Systematic]] | None = None,
) -> Moves:
    """Separate what all cells did from one campaign to another from what each did.

    Parameters
    ----------
    before, after : arrays of float, (cells, blocks)
        Logarithms of runs; NaN where a cell has none. Each cell has at least two in either.
    deviation : Deviation or None
        What is known of how much campaigns differ. None: the common movement is given by its runs
        alone, and so are the cells' where they are too few to have one.
    errors : (before, after) of each cell, or None
        What is wrong with a cell's values in all runs of a campaign alike. A meter's gain that is
        another one moves all cells, and is in the common movement; what cells do not have in common
        of it is each one's own.

    Notes
    -----
    log(value) = campaign + cell + block + (cell x campaign), by least squares with the blocks taken
    out, the variances of runs shrunk as in a ranking (`Fit`, cautious). The campaign's movement is
    the median of the cells'. A cell's own one has, besides its runs', the variance of (cell x
    campaign): the deviation's, or what the own movements show beyond their runs without the largest
    quarter (`own_variance`); where they are fewer than `FEWEST_OWN`, it is
    taken to be as large as the variance between runs. Student's t with Satterthwaite's degrees of
    freedom, at Šidák's level over the cells.
    """
    count = len(before)
    nothing = np.full(count, math.nan)
    if not count:
        return Moves(nothing, nothing, nothing, nothing, nothing, deviation is not None)
    separable = count >= FEWEST_CELLS
    runs = _by_runs(before, after)
    common = float(np.median(runs.total)) if separable else 0.0
    own = runs.total - common
    if runs.why:
        return Moves(runs.total, own, nothing, nothing, nothing, deviation is not None, why=runs.why)
    limit, common_limit = np.zeros(count), 0.0
    if errors is not None:
        (old, of_old), (new, of_new) = (split_systematic(own, one) for one in zip(*errors, strict=True))
        limit = np.array([limit_of_difference(*pair) for pair in zip(old, new, strict=True)])
        common_limit = limit_of_difference(of_old, of_new)
    others, variances, freedom = _variance_of_own(runs, own, deviation)
    between = (2 * deviation.common**2, deviation.degrees) if deviation else (0.0, math.inf)
    if not separable:
        freedom = _degrees_of_sum((variances, freedom), between)
        variances = variances + between[0]
    errors_of_own = np.sqrt(variances)
    level = sidak_level(ALPHA, count)
    found = Moves(
        runs.total,
        own,
        -special.stdtrit(freedom, level / 2) * errors_of_own + limit,
        limit,
        np.array([sidak(float(p), count) for p in _two_sided(own, limit, errors_of_own, freedom)]),
        deviation is not None,
    )
    if not separable:
        return found
    spread = [*(_variance_of_blocks(each) for each in (before, after)), others, between]
    error = math.sqrt(math.fsum(variance for variance, _ in spread))
    freedom_of_common = _degrees_of_sum(*spread)
    return replace(
        found,
        common=common,
        common_reach=-float(special.stdtrit(freedom_of_common, ALPHA / 2)) * error + common_limit,
        common_limit=common_limit,
        common_p=float(_two_sided(common, common_limit, error, freedom_of_common)),
    )


def common_movement(values: ArrayLike) -> NDArray[np.float64]:
    """Return what the cells of each campaign did together.

    Parameters
    ----------
    values : array of float, (cells, campaigns)
        Logarithms; NaN where a campaign has no value of a cell.

    Returns
    -------
    array of float, (campaigns,)
        The median over cells of their differences from their own level, with mean 0. It is 0 of
        fewer than `FEWEST_CELLS` cells, and NaN of a campaign with fewer.

    Notes
    -----
    Median polish over cells and mean over campaigns in turn (J. W. Tukey, Exploratory Data
    Analysis, 1977, chapter 11): a change of fewer than half of the cells does not move it.
    """
    table = np.asarray(values, dtype=float)
    known = ~np.isnan(table)
    found = np.zeros(table.shape[1])
    if len(table) < FEWEST_CELLS:
        return found
    enough = known.sum(axis=0) >= FEWEST_CELLS
    table = np.where(known & enough, table, np.nan)
    used = table[(known & enough).any(axis=1)]
    if not used.size or not enough.any():
        return np.where(enough, found, np.nan)
    for _ in range(_SWEEPS):
        levels = np.nanmean(used - np.where(enough, found, 0.0), axis=1)
        moved = np.nanmedian(used[:, enough] - levels[:, None], axis=0)
        found[enough] = moved - moved.mean()
    return np.where(enough, found, np.nan)


def own_variance(movements: ArrayLike, noise: ArrayLike, shrinkage: float = 1.0) -> tuple[float, float]:
    """Estimate the variance of the cells' own movements beyond noise, and its degrees of freedom.

    Parameters
    ----------
    movements, noise : arrays of float, of one length of at least `FEWEST_OWN`
        Of each cell: how it moved apart from the others, and the variance that its runs give that.
    shrinkage : float
        The variance of the movements as a fraction of what it was before means were taken out.

    Notes
    -----
    R. C. Paule, J. Mandel, Consensus values and weighting factors, Journal of Research of the
    National Bureau of Standards 87(5), 1982, 377-385: the variance at which the movements, each
    relative to its own standard deviation, have the mean square that normal ones have; here without
    the largest quarter of them, which may be changes, and that mean square is of the others. To be
    cautious it is half a standard error less, so that the variance is greater.
    """
    squares = np.asarray(movements, dtype=float) ** 2 / shrinkage
    known = np.asarray(noise, dtype=float)
    kept = len(squares) - len(squares) // _TRIMMED
    degrees = len(squares) * shrinkage * _EFFICIENCY
    target = _mean_square_without(1 - kept / len(squares)) / (1 + CAUTION * math.sqrt(2 / degrees))

    def beyond(variance: float) -> bool:
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(squares > 0, squares / (known + variance), 0.0)
        return float(np.sort(relative)[:kept].mean()) > target

    if not beyond(0.0):
        return 0.0, degrees
    low, high = 0.0, float(squares.max()) / target
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) else (low, middle)
    return high, degrees


def _mean_square_without(share: float) -> float:
    """Return the mean square of standard normal values without the largest share of them."""
    if share <= 0:
        return 1.0
    end = -float(special.ndtri(share / 2))
    return 1 - 2 * end * math.exp(-(end**2) / 2) / math.sqrt(2 * math.pi) / (1 - share)


@dataclass(frozen=True)
class _ByRuns:
    """Movements of cells, (cells,), and what their runs show of them.

    `variances` of the movements with their `degrees` of freedom; `presumed`: twice the variance
    between runs.
    """

    total: _Array
    variances: _Array
    degrees: _Array
    presumed: _Array
    why: str = ""


def _by_runs(before: _Array, after: _Array) -> _ByRuns:
    """Fit both campaigns at once, each with its own blocks.

    Cells too few to have a common movement keep their blocks', as these are a part of what the
    campaign did to them: each has its own variance then (Welch).
    """
    count, both = len(before), (before, after)
    means = [np.nanmean(each, axis=1) for each in both]
    spreads = np.array([np.nanvar(each, axis=1, ddof=1) for each in both])
    if math.sqrt(float(spreads.max())) <= LOG_ROUNDING:
        nothing = np.full(count, math.nan)
        return _ByRuns(means[1] - means[0], nothing, nothing, nothing, "the runs are all alike")
    if count < FEWEST_CELLS:
        runs = np.array([(~np.isnan(each)).sum(axis=1) for each in both])
        parts = [(spread / number, number - 1.0) for spread, number in zip(spreads, runs, strict=True)]
        variances = parts[0][0] + parts[1][0]
        return _ByRuns(means[1] - means[0], variances, _degrees_of_sum(*parts), spreads.sum(axis=0))
    table = np.full((2 * count, before.shape[1] + after.shape[1]), math.nan)
    table[:count, : before.shape[1]], table[count:, before.shape[1] :] = before, after
    fit = Fit.from_logs([str(row) for row in range(2 * count)], table, cautious=True)
    weights = np.hstack([-np.eye(count), np.eye(count)])
    total, variances, degrees = fit.contrasts(weights)
    return _ByRuns(total, variances, degrees, np.abs(weights) @ fit.shrunk.variances, fit.why)


def _variance_of_own(
    runs: _ByRuns, own: _Array, deviation: Deviation | None
) -> tuple[tuple[float, float], _Array, _Array]:
    """Return the share of (cell x campaign) in the median's variance, and the own movements'.

    Each with its degrees of freedom.
    """
    count = len(own)
    if deviation and deviation.own is not None:
        each = 2 * deviation.own**2, deviation.own_degrees
    elif count >= FEWEST_OWN:
        each = own_variance(own, runs.variances)
    elif count >= FEWEST_CELLS:
        common = _of_median(float(runs.presumed.mean()), count), float(runs.degrees.min())
        return common, runs.variances + runs.presumed, runs.degrees  # they rest on the same runs
    else:
        each = 0.0, math.inf
    freedom = _degrees_of_sum((runs.variances, runs.degrees), each)
    return (_of_median(each[0], count), each[1]), runs.variances + each[0], freedom


def _of_median(variance: float, count: int) -> float:
    """Return the variance of the median of normal values."""
    return math.pi / 2 * variance / count


def _degrees_of_sum(*parts: tuple[_Array | float, _Array | float]) -> _Array:
    """Return the degrees of freedom of a sum of variances, each with its own (Satterthwaite)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = sum(np.where(np.asarray(v) > 0, np.asarray(v) ** 2 / degrees, 0.0) for v, degrees in parts)
        found: _Array = np.asarray(sum(v for v, _ in parts)) ** 2 / terms
    return found


def _variance_of_blocks(logs: _Array) -> tuple[float, float]:
    """Return the variance of a campaign's mean by its blocks, and its degrees of freedom."""
    apart = logs - np.nanmean(logs, axis=1, keepdims=True)
    used = apart[:, ~np.isnan(apart).all(axis=0)]
    of_blocks = np.nanmean(used, axis=0)
    return float(np.var(of_blocks, ddof=1)) / len(of_blocks), len(of_blocks) - 1.0


def split_systematic(own: ArrayLike, errors: Sequence[Systematic]) -> tuple[list[Systematic], Systematic]:
    """Separate what is wrong with the values of a campaign's cells as their movement is.

    Parameters
    ----------
    own : array of float, (cells,)
        What each cell did apart from the others.
    errors : sequence of Systematic
        What is wrong with its value in all runs alike.

    Returns
    -------
    list of Systematic, Systematic
        What is wrong with each own movement, and with the common one. An error that a source makes
        in most cells moves them all. What it makes more or less in a cell is that cell's, and what
        is wrong with cells alone moves the median as far as they could. Of fewer cells than
        `FEWEST_CELLS` all is each one's own.
    """
    if len(errors) < FEWEST_CELLS:
        return list(errors), Systematic()
    sources = dict.fromkeys(source for one in errors for source in one.common)
    table = np.array([[one.common.get(source, 0.0) for source in sources] for one in errors])
    middles = np.median(table, axis=0)
    apart = table - middles
    with np.errstate(divide="ignore"):
        alone = -np.log1p(-np.minimum([one.own for one in errors], 1.0))
    moved, wrong = np.asarray(own, dtype=float), alone + np.abs(apart).sum(axis=1)
    of_median = max(abs(float(np.median(moved + sign * wrong) - np.median(moved))) for sign in (-1, 1))
    cells = [
        Systematic(-math.expm1(-limit - of_median), dict(zip(sources, row, strict=True)))
        for limit, row in zip(alone.tolist(), apart.tolist(), strict=True)
    ]
    common = dict(zip(sources, middles.tolist(), strict=True))
    return cells, Systematic(-math.expm1(-of_median), common)


def _two_sided(
    middle: _Array | float, limit: _Array | float, error: _Array | float, freedom: _Array
) -> _Array:
    """Return p of movements that are so far beyond their limits."""
    beyond = np.maximum(np.abs(middle) - limit, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: _Array = 2 * special.stdtr(freedom, -beyond / error)
    return found
