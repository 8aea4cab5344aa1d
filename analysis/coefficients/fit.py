# SPDX-License-Identifier: GPL-3.0-or-later
"""Weighted least squares of watts on rates, with what the rows leave open and predict."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from joulerig.analysis.coefficients import form
from joulerig.analysis.statistics.interval import CONFIDENCE, Interval

Array = NDArray[np.float64]

_LEAST_EIGENVALUE = 1e-12  # of the greatest: of scaled columns, below this there is only rounding
_OPEN = 1e-6  # how much of a coefficient's direction rows may leave open through rounding


@dataclass(frozen=True, eq=False)
class Rows:
    """What is fitted: watts of a row as a sum of terms.

    Attributes
    ----------
    names : tuple of str
        Of the k coefficients.
    terms : (n, k)
        By what each coefficient is multiplied in a row's watts; none is negative.
    watts : (n,)
        Above 0.
    groups : sequence of str
        Of each row the load that it is a repetition of.
    own : (n,)
        Limit, in watts, of what is wrong with each row and may be wrong with all of them alike.
    common : mapping
        By source, with its sign: the limit in watts of what a source does to each row (n,).
    """

    names: tuple[str, ...]
    terms: Array
    watts: Array
    groups: Sequence[str]
    own: Array
    common: Mapping[Hashable, Array]


@dataclass(frozen=True)
class Fitted:
    """One coefficient.

    `value`, `interval`: None where the rows leave it open. `only`: the load without which they
    would; empty: any one may be missing. `inflation`: how many times its variance is what it would
    be if no other term went along with its own.
    """

    name: str
    value: float | None
    interval: Interval | None
    only: str
    inflation: float | None


@dataclass(frozen=True)
class Fit:
    """A fit. Errors are fractions of the measured watts.

    `condition`: greatest over least singular value of the design, with columns scaled to length 1;
    infinite where it has not full rank. `held_out_rms`, `held_out_worst`: of loads predicted from
    the others; None where no load can be. `held_out`: how many rows were. `saturated`: as many
    unknowns as loads, or more, so that errors are 0 whatever the drive draws. `form`: why the form
    of the model is not borne out (`form.why_not`); empty: it is.
    """

    coefficients: tuple[Fitted, ...]
    rows: int
    groups: int
    condition: float
    residual_rms: float
    held_out: int
    held_out_rms: float | None
    held_out_worst: float | None
    saturated: bool
    form: str


def fit(rows: Rows) -> Fit:
    """Fit the coefficients to rows, each weighted so that its relative error counts.

    Notes
    -----
    With y = X b and each row divided by its watts. The random half-width of an interval is the
    greater of two:

    - by runs: Student's t of n - k degrees of freedom times the jackknife standard error, each row
      left out once (Efron and Stein 1981; HC3 but for a factor). It allows for unequal scatter.
    - by loads: the same with groups in place of rows. Where the model is wrong for a load, all its
      repetitions are off together, and the rows' own scatter does not show it. A few loads make
      most of some coefficients, so that the degrees of freedom are Satterthwaite's, of the loads'
      weights in each.

    What the meter may do to all rows is carried through the same equations: an error d of the rows
    moves b by pinv(X) d. Such limits are independent of each other and are combined with the random
    part as the root of the sum of squares; `own` adds as it stands.
    """
    count = len(rows.watts)
    scaled = rows.terms / rows.watts[:, None]
    lengths = np.linalg.norm(scaled, axis=0)
    used = lengths > 0
    design = scaled / np.where(used, lengths, 1.0)
    target = np.ones(count)
    gram, moment = design.T @ design, design.T @ target
    inverse, closed = _inverse(gram)
    solution = inverse @ moment
    residuals = target - design @ solution
    left_out = dict(_without_groups(design, target, rows.groups, gram, moment))
    predicted = _held_out(design, rows.groups, left_out)
    by_row = _jackknife_by_row(design, inverse, residuals)
    rank = int(np.linalg.matrix_rank(design)) if count else 0
    with np.errstate(invalid="ignore"):  # no freedom and no error: not known
        freedom = np.minimum(len(left_out) - rank, _freedom(inverse @ design.T, rows.groups))
        random = np.maximum(
            _reach(np.array(count - rank)) * by_row, _reach(freedom) * _jackknife_by_group(solution, left_out)
        )
    half = _half_widths(rows, design, inverse, random)
    values = solution / np.where(used, lengths, 1.0)
    found = []
    for place, name in enumerate(rows.names):
        if not (used[place] and closed[place]):
            found.append(Fitted(name, None, None, "", None))
            continue
        only = next((group for group, (_, known) in left_out.items() if not known[place]), "")
        value = float(values[place])
        reach = half[place] / lengths[place]
        interval = None if not math.isfinite(reach) else Interval(value - reach, value + reach)
        found.append(Fitted(name, value, interval, only, float(inverse[place, place])))
    known = predicted[~np.isnan(predicted)] - 1
    return Fit(
        coefficients=tuple(found),
        rows=count,
        groups=len(left_out),
        condition=_condition(gram[np.ix_(used, used)]),
        residual_rms=_rms(residuals) if count else math.nan,
        held_out=len(known),
        held_out_rms=_rms(known) if len(known) else None,
        held_out_worst=float(np.abs(known).max()) if len(known) else None,
        saturated=len(left_out) <= int(used.sum()),
        form=form.why_not(
            rows.names, rows.terms, rows.watts, rows.groups, solution / np.where(used, lengths, 1)
        ),
    )


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _inverse(gram: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the pseudo-inverse, and which coefficients it determines."""
    values, vectors = np.linalg.eigh(gram)
    large = values > _LEAST_EIGENVALUE * max(values.max(initial=0.0), 1e-300)
    inverse = (vectors[:, large] / values[large]) @ vectors[:, large].T
    left_open = np.sum(vectors[:, ~large] ** 2, axis=1)
    return inverse, left_open < _OPEN


def _condition(gram: Array) -> float:
    if not gram.size:
        return math.inf
    values = np.linalg.eigvalsh(gram)
    least, greatest = float(values[0]), float(values[-1])
    return math.inf if least <= _LEAST_EIGENVALUE * greatest else math.sqrt(greatest / least)


def _without_groups(
    design: Array, target: Array, groups: Sequence[str], gram: Array, moment: Array
) -> Iterator[tuple[str, tuple[Array, NDArray[np.bool_]]]]:
    """Yield of each group the solution without it, and which coefficients that determines."""
    names = np.asarray(groups)
    for group in dict.fromkeys(groups):
        own = design[names == group]
        inverse, closed = _inverse(gram - own.T @ own)
        yield group, (inverse @ (moment - own.T @ target[names == group]), closed)


def _held_out(
    design: Array, groups: Sequence[str], left_out: Mapping[str, tuple[Array, NDArray[np.bool_]]]
) -> Array:
    """Return watts over measured watts of each row by a fit without its load; NaN: none can say."""
    found = np.full(len(design), math.nan)
    for place, group in enumerate(groups):
        solution, closed = left_out[group]
        if not np.any(design[place][~closed]):
            found[place] = design[place] @ solution
    return found


def _jackknife_by_row(design: Array, inverse: Array, residuals: Array) -> Array:
    """Return the standard errors by leaving out each row."""
    count = len(design)
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = (design @ inverse) * (residuals / (1 - np.minimum(leverage, 1 - 1e-12)))[:, None]
    found: Array = np.sqrt((count - 1) / count * np.sum(moved**2, axis=0)) if count else np.zeros(0)
    return found


def _jackknife_by_group(solution: Array, left_out: Mapping[str, tuple[Array, NDArray[np.bool_]]]) -> Array:
    """Return the standard errors by leaving out each load that leaves a coefficient known."""
    total, counts = np.zeros(len(solution)), np.zeros(len(solution))
    for without, closed in left_out.values():
        total += np.where(closed, (without - solution) ** 2, 0.0)
        counts += closed
    found: Array = np.sqrt(total * np.maximum(counts - 1, 0) / np.maximum(counts, 1))
    return found


def _freedom(gain: Array, groups: Sequence[str]) -> Array:
    """Return the degrees of freedom of each coefficient's jackknife by load.

    Of a sum of squares that are weighted by w: (sum of w)^2 / sum of w^2 (Satterthwaite 1946).
    """
    names = np.asarray(groups)
    weights = np.array([gain[:, names == group].sum(axis=1) ** 2 for group in dict.fromkeys(groups)])
    total = np.sum(weights**2, axis=0)
    found: Array = np.divide(weights.sum(axis=0) ** 2, total, out=np.zeros(len(gain)), where=total > 0)
    return found


def _reach(freedom: Array) -> Array:
    """Return half-widths of intervals in standard errors; infinite without any freedom."""
    found: Array = np.where(
        freedom > 0, special.stdtrit(np.maximum(freedom, 1e-9), (1 + CONFIDENCE) / 2), math.inf
    )
    return found


def _half_widths(rows: Rows, design: Array, inverse: Array, random: Array) -> Array:
    """Return half of each 95 % interval, of the coefficients of scaled columns."""
    gain = inverse @ design.T
    square = random**2
    for moved in rows.common.values():
        square = square + (gain @ (moved / rows.watts)) ** 2
    found: Array = np.sqrt(square) + np.abs(gain) @ (rows.own / rows.watts)
    return found
