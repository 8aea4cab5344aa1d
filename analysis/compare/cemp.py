# SPDX-License-Identifier: GPL-3.0-or-later
"""Cemp: how energy changes with performance, at the combinations that stand out.

Sun, Qin, Xie 2014 (doi 10.1631/jzus.C1300314) study "the changes of energy consumption and mean
performance" at the combination with the largest AI, the lowest power and the highest performance;
the text found gives no formula. The one here, dE over dP, is inferred, and its name says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from joulerig.analysis.statistics import interval
from joulerig.analysis.statistics.differences import Systematic, limit_of_difference, mean_systematic
from joulerig.analysis.statistics.interval import Interval

DEFINITION = "dE/dP, inferred"
ONE_BLOCK = "fewer than two blocks have a run of every cell: the uncertainty of dP is unknown"
WITHIN = "dP is within its uncertainty"


@dataclass(frozen=True)
class Point:
    """A cell: its performance (ops/s), AI (ops/J) and mean power (W)."""

    performance: float
    ai: float
    watts: float


@dataclass(frozen=True)
class Loads:
    """A cell's loads by block: performance (ops/s), and energy in watts or joules.

    `systematic`: what can be wrong with the energy in all of them.
    """

    performance: Mapping[int, float]
    energy: Mapping[int, float]
    systematic: Systematic = field(default_factory=Systematic)


@dataclass(frozen=True)
class Change:
    """The change at one anchor.

    `energy` (dE) and `performance` (dP) are relative to the means over all cells, with 95 %
    intervals; `cemp` is dE over dP with its own. What is not known is None, and `why` says why
    there is no Cemp. `quantity`: what dE is of, W or J. The intervals are of the cell as chosen:
    that an anchor is the extreme of readings is not in them.
    """

    anchor: str
    cell: str
    quantity: str
    energy: float
    performance: float
    energy_interval: Interval | None = None
    performance_interval: Interval | None = None
    cemp: float | None = None
    cemp_interval: Interval | None = None
    why: str = ""


_ANCHORS: Sequence[tuple[str, Callable[[Point], float]]] = (
    ("largest AI", lambda point: point.ai),
    ("lowest power", lambda point: -point.watts),
    ("highest performance", lambda point: point.performance),
)


def is_fixed_work(ops: ArrayLike, seconds: ArrayLike) -> bool:
    """Return whether loads end with their work rather than after a time, as replays and builds do.

    It is what varies less from run to run that a load is given.

    Parameters
    ----------
    ops, seconds : arrays of float, of one length
        One of each load.
    """
    ops, seconds = np.asarray(ops, dtype=float), np.asarray(seconds, dtype=float)
    if len(ops) < 2 or ops.min() <= 0 or seconds.min() <= 0:
        return False
    return float(np.std(np.log(ops))) < float(np.std(np.log(seconds)))


def changes(points: Mapping[str, Point], loads: Mapping[str, Loads], quantity: str) -> list[Change]:
    """Compute dE, dP and Cemp at the three anchors, over the cells of one drive and workload.

    In each block that has a run of every cell, ``dE = E / mean(E) - 1`` and
    ``dP = performance / mean(performance) - 1``, the means over all cells. Their means over blocks
    are given, with Student's t; Cemp, the ratio of the means, with Fieller's interval
    (`interval.fieller`), which does not exist where dP is within its uncertainty. What the meter
    leaves open of dE is added to both.

    Parameters
    ----------
    points, loads : mappings by cell, of the same cells
    quantity : "W" or "J"
        What the loads' energy is in: joules where all loads do the same work, and watts where all
        take the same time.

    Returns
    -------
    list of Change
        Empty with fewer than two cells, without a whole block, or with means that are not positive.
    """
    whole = sorted(set.intersection(*(set(one.energy) for one in loads.values()))) if loads else []
    if len(points) < 2 or not whole:
        return []
    names = list(points)
    energies, rates = (
        np.array([[getattr(loads[cell], name)[block] for block in whole] for cell in names])
        for name in ("energy", "performance")
    )
    if not (np.all(energies.mean(axis=0) > 0) and np.all(rates.mean(axis=0) > 0)):
        return []
    energies, rates = (values / values.mean(axis=0) - 1 for values in (energies, rates))
    mean = mean_systematic([loads[cell].systematic for cell in names])
    found = []
    for anchor, merit in _ANCHORS:
        cell = max(points, key=lambda name: merit(points[name]))
        row = names.index(cell)
        limit = math.expm1(limit_of_difference(loads[cell].systematic, mean))
        found.append(_change(anchor, cell, quantity, energies[row], rates[row], limit))
    return found


def _change(
    anchor: str,
    cell: str,
    quantity: str,
    energy: NDArray[np.float64],
    rate: NDArray[np.float64],
    limit: float,
) -> Change:
    """Return a change by dE and dP of each block; `limit`: of what is wrong with dE in all."""
    one = Change(anchor, cell, quantity, float(energy.mean()), float(rate.mean()))
    if len(energy) < 2:
        return replace(one, why=ONE_BLOCK)
    of_rate, ratio = interval.student(rate), interval.fieller(energy, rate)
    known = replace(
        one,
        energy_interval=interval.student(energy).widened(limit),
        performance_interval=of_rate,
    )
    if ratio is None or of_rate.low <= 0 <= of_rate.high:
        return replace(known, why=WITHIN)
    reach = ratio.widened(limit / abs(one.performance))
    return replace(known, cemp=one.energy / one.performance, cemp_interval=reach)
