# SPDX-License-Identifier: GPL-3.0-or-later
"""How smoothly the energy of a combination follows its performance over load levels.

Two figures of ours, of each combination of file system and scheduler and each factor that varies
the load: the elasticity e = d ln E / d ln P over the factor's levels, which is 0 where energy does
not change with performance and 1 where it is in proportion, and the variation of its watts. E is
power where all loads take the same time, and joules where they do the same work (`cemp.Loads`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.compare.cemp import Loads
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import Levels
from joulerig.analysis.statistics import LOG_ROUNDING, interval
from joulerig.analysis.statistics.interval import Interval
from joulerig.analysis.statistics.ranking import ALPHA

ONE_BLOCK = "fewer than two blocks have a run of every level: the uncertainty of dP is unknown"
NO_WORK = "a load did no work, or drew no energy"
WITHIN = "dP over the levels is within its uncertainty"


@dataclass(frozen=True)
class Elasticity:
    """`value` with its 95 % interval; both None where `why` says that they are not known.

    `watts_variation`: the standard deviation (n - 1) of the levels' mean watts over their mean.
    """

    value: float | None
    interval: Interval | None
    watts_variation: float
    why: str = ""


@dataclass(frozen=True)
class LoadLevels:
    """A combination over the levels of one factor: `held` are its levels of the other ones."""

    drive: str
    filesystem: str
    scheduler: str
    held: Levels
    factor: str
    levels: tuple[str, ...] = ()


def by_combination(campaign: Campaign, compared: Sequence[Comparison]) -> list[tuple[LoadLevels, Elasticity]]:
    """Return how energy follows performance over the levels of each factor that varies the load.

    That is the workload, where all count the same kind of operation, and each further factor; for
    each combination of the other levels that has an AI at two levels or more.
    """
    units = {run.cell: run.performance.unit for run in campaign.runs if run.performance}
    found: dict[LoadLevels, list[tuple[str, Comparison, str]]] = {}
    for one in compared:
        for cell in one.points:
            levels_of = {"workload": one.workload, **dict(one.further)}
            for factor, level in levels_of.items():
                held = tuple(item for item in levels_of.items() if item[0] != factor)
                key = one.cells[cell]
                place = LoadLevels(one.drive, key.filesystem, key.scheduler, held, factor)
                found.setdefault(place, []).append((level, one, cell))
    rows = []
    for place, of_place in sorted(found.items(), key=lambda item: astuple(item[0])):
        alike = len({units.get(cell) for *_, cell in of_place}) == 1
        alike = alike and len({one.energy_quantity for _, one, _ in of_place}) == 1
        if len(of_place) > 1 and alike:
            loads = [one.loads[cell] for _, one, cell in of_place]
            watts = [one.points[cell].watts for _, one, cell in of_place]
            place = replace(place, levels=tuple(level for level, *_ in of_place))
            rows.append((place, of_levels(loads, watts)))
    return rows


def of_levels(levels: Sequence[Loads], watts: Sequence[float]) -> Elasticity:
    """Compute the elasticity of one combination over two levels or more.

    Parameters
    ----------
    levels : sequence of Loads
        One a level; blocks that have a run of every level count.
    watts : sequence of float
        The levels' mean power.

    Notes
    -----
    In each block the levels' ln E and ln P are weighted by the centred mean ln P of the levels over
    the *other* blocks: ``e = sum w ln E / sum w ln P``, a ratio of means over blocks with Fieller's
    interval. Weights of the same block would make a slope of noise: with them the denominator is
    above 0 where performance does not change. Where performance does not differ between the levels,
    by an analysis of variance with blocks at 5 %, e is not known. What the meter leaves open of ln
    E is added by the weights.
    """
    variation = float(np.std(watts, ddof=1) / np.mean(watts))
    blocks = sorted(set.intersection(*(set(one.energy) for one in levels)))
    if len(blocks) < 2:
        return Elasticity(None, None, variation, ONE_BLOCK)
    energy, rate = (
        np.array([[getattr(one, name)[block] for block in blocks] for one in levels])
        for name in ("energy", "performance")
    )
    if not (np.all(energy > 0) and np.all(rate > 0)):
        return Elasticity(None, None, variation, NO_WORK)
    energy, rate = np.log(energy), np.log(rate)
    if not _differ(rate):
        return Elasticity(None, None, variation, WITHIN)
    others = (rate.sum(axis=1, keepdims=True) - rate) / (len(blocks) - 1)
    weights = others - others.mean(axis=0)
    top, bottom = (weights * energy).sum(axis=0), (weights * rate).sum(axis=0)
    ratio = interval.fieller(top, bottom)
    if ratio is None or not bottom.mean() > 0:
        return Elasticity(None, None, variation, WITHIN)
    limit = _limit(levels, weights.mean(axis=1)) / float(bottom.mean())
    return Elasticity(float(top.mean() / bottom.mean()), ratio.widened(limit), variation)


def _differ(logs: NDArray[np.float64]) -> bool:
    """Return whether levels differ: F of levels, (levels, blocks), blocks taken out, at 5 %."""
    levels, blocks = logs.shape
    means = logs.mean(axis=1, keepdims=True)
    rest = logs - means - logs.mean(axis=0) + logs.mean()
    within = float((rest**2).sum()) / ((levels - 1) * (blocks - 1))
    if within <= LOG_ROUNDING**2:
        return float(np.ptp(means)) > LOG_ROUNDING
    between = blocks * float(((means - logs.mean()) ** 2).sum()) / (levels - 1)
    return float(special.fdtrc(levels - 1, (levels - 1) * (blocks - 1), between / within)) < ALPHA


def _limit(levels: Sequence[Loads], weights: NDArray[np.float64]) -> float:
    """Return the limit of what is wrong with sum w ln E in all blocks alike."""
    found = [one.systematic for one in levels]
    if max(one.own for one in found) >= 1:
        return math.inf
    own = math.fsum(-abs(weight) * math.log1p(-one.own) for weight, one in zip(weights, found, strict=True))
    sources: dict[Hashable, float] = {}
    for weight, one in zip(weights, found, strict=True):
        for source, part in one.common.items():
            sources[source] = sources.get(source, 0.0) + float(weight) * part
    return own + math.fsum(map(abs, sources.values()))
