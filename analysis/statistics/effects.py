# SPDX-License-Identifier: GPL-3.0-or-later
"""Which factor matters: analysis of variance of logarithms, with the blocks taken out."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from joulerig.analysis.statistics import LOG_ROUNDING

BLOCK = "block"
EIGENVALUE_ROUNDING = 1e-10  # of normal equations, for each run


@dataclass(frozen=True)
class Effect:
    """The effect of one source of variation.

    `share` of all sums of squares; `f` and `p` None where the runs leave no spread to test by.
    """

    source: str
    freedom: int
    share: float
    f: float | None
    p: float | None


@dataclass(frozen=True)
class Effects:
    """The effects of all sources of variation, and what remains.

    `sources`: first factor, second factor, their interaction, the blocks; those with no degree of
    freedom are left out. `residual_share` and `residual_freedom` are what remains.

    `residual_deviation` and `block_deviation` are standard deviations of logarithms, that is
    relative ones: between runs alike, and between blocks (by moments; 0 where blocks differ by less
    than runs do). None where there is no degree of freedom for them.
    """

    sources: tuple[Effect, ...]
    residual_freedom: int
    residual_share: float
    residual_deviation: float | None
    block_deviation: float | None


def two_way_anova(
    first: Sequence[str],
    second: Sequence[str],
    blocks: Sequence[int],
    values: ArrayLike,
    names: tuple[str, str] = ("file system", "scheduler"),
) -> Effects | None:
    """Analyse the variance (type II) of log(values) by two factors, their interaction and blocks.

    Parameters
    ----------
    first, second, blocks : sequences of one length
        Levels and block of each run.
    values : array of float, positive

    Returns
    -------
    Effects or None
        None where nothing varies but the blocks, or a value is not positive.

    Notes
    -----
    Each main effect is tested after the other one and the blocks, the interaction after both, the
    blocks after all (R. Langsrud, ANOVA for unbalanced data, Statistics and Computing 13, 2003,
    163-167). Where no run is missing, the tests of the factors are those of the mixed model with
    the block as random effect (docs/decisions/013-blocks.md).
    """
    values = np.asarray(values, dtype=float)
    if not len(values) or not np.all(values > 0):
        return None
    y = np.log(values) - np.log(values).mean()
    one, other, block = _factor(first), _factor(second), _factor(blocks)
    both = _factor(list(zip(first, second, strict=True)))
    if np.ptp(y) <= LOG_ROUNDING or both.levels == 1:
        return None
    full, additive = _fit(y, both, block), _fit(y, one, other, block)
    steps = {
        names[0]: (_fit(y, other, block), additive),
        names[1]: (_fit(y, one, block), additive),
        f"{names[0]} × {names[1]}": (additive, full),
        BLOCK: (_fit(y, both), full),
    }
    found = {name: (small[0] - large[0], large[1] - small[1]) for name, (small, large) in steps.items()}
    return _table(found, residual=full[0], freedom=len(y) - full[1], runs=len(y))


def _table(found: dict[str, tuple[float, int]], residual: float, freedom: int, runs: int) -> Effects | None:
    least = runs * LOG_ROUNDING**2  # what is below is rounding, and differs from one processor to another
    residual = residual if residual > least else 0.0
    squares = {
        name: square if square > least else 0.0 for name, (square, degrees) in found.items() if degrees > 0
    }
    total = sum(squares.values()) + residual
    if not total > 0:
        return None
    mean = residual / freedom if freedom > 0 else None
    testable = mean is not None and math.sqrt(mean) > LOG_ROUNDING
    sources = []
    for name, square in squares.items():
        degrees = found[name][1]
        f = square / degrees / mean if testable else None
        p = float(special.fdtrc(degrees, freedom, f)) if testable else None
        sources.append(Effect(name, degrees, square / total, f, p))
    spread = None
    if mean is not None and BLOCK in squares:
        degrees = found[BLOCK][1]
        a_block = runs / (degrees + 1)
        spread = math.sqrt(max(0.0, (squares[BLOCK] / degrees - mean) / a_block))
    deviation = None if mean is None else math.sqrt(mean)
    return Effects(tuple(sources), freedom, residual / total, deviation, spread)


class _Factor(NamedTuple):
    """Which of the `levels` each run has, by number."""

    of_run: NDArray[np.intp]
    levels: int


def _factor(levels: Iterable[Hashable]) -> _Factor:
    levels = list(levels)
    order = {level: number for number, level in enumerate(dict.fromkeys(levels))}
    return _Factor(np.array([order[level] for level in levels], dtype=np.intp), len(order))


def _fit(y: NDArray[np.float64], *factors: _Factor) -> tuple[float, int]:
    """Return the residual sum of squares, and rank, of a linear model of these factors.

    By the normal equations: they are as small as there are levels, and exact, being counts of runs.
    """
    equations = np.block([[_counts(one, other) for other in factors] for one in factors])
    sums = np.concatenate([np.bincount(one.of_run, y, one.levels) for one in factors])
    eigenvalues, vectors = _eigh(equations.tobytes(), len(equations))
    counts = eigenvalues > len(y) * EIGENVALUE_ROUNDING
    vectors = vectors[:, counts]
    solution = vectors @ ((vectors.T @ sums) / eigenvalues[counts])
    residuals, first = y.copy(), 0
    for one in factors:
        residuals -= solution[first:][one.of_run]
        first += one.levels
    return float(np.sum(residuals**2)), int(np.count_nonzero(counts))


@lru_cache(maxsize=16)
def _eigh(equations: bytes, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues and vectors; groups of cells without a missing run share theirs."""
    return np.linalg.eigh(np.frombuffer(equations).reshape(size, size))


def _counts(one: _Factor, other: _Factor) -> NDArray[np.float64]:
    """Return how many runs have each level of one factor with each of the other."""
    both = np.bincount(one.of_run * other.levels + other.of_run, minlength=one.levels * other.levels)
    return both.reshape(one.levels, other.levels).astype(float)
