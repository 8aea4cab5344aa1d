# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's cells compared.

Which of them the runs separate, how sure each AI is, which factor matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare import cemp, losses, races
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Cell, Levels, PhaseName, level_texts
from joulerig.analysis.statistics import effects, interval, pareto, racing, ranking
from joulerig.analysis.statistics.differences import SystematicRuns, mean_systematic
from joulerig.analysis.statistics.interval import Interval
from joulerig.analysis.statistics.racing import Design
from joulerig.analysis.statistics.ranking import Ranking

_Key = tuple[str, str, Levels]  # drive, workload, levels of further factors
AI, RATE = "ops/J", "ops/s"
_BELOW = {AI: "joules", RATE: "seconds"}
WORK = "ops"
RUN_TO_RUN = "run to run"
_NOT_KNOWN = {
    RUN_TO_RUN: "the spread between runs",
    "gaps": "what the gaps drew",
    "interpolation": "the power between points",
    "alignment": "the ends' instants",
    "product": "V × I within a sample",
    "meter": "the meter's class",
}


@dataclass(frozen=True)
class Precision:
    """How sure a cell's AI is.

    `fieller`, `bootstrap`: 95 % intervals by the spread between runs alone. `interval`: Fieller's,
    with what is wrong in every run alike. All in ops/J, None where the runs are too few.
    `interval_mb`: as `interval`, in MB/J; None too where a run's bytes are not known. `parts`:
    relative standard uncertainty by source. `unknown`: what is in none of them, in words, by
    source.
    """

    fieller: Interval | None
    bootstrap: Interval | None
    interval: Interval | None
    interval_mb: Interval | None
    parts: dict[str, float]
    unknown: dict[str, str]

    @property
    def shares(self) -> dict[str, float]:
        """Return each source's share of the variance; empty where there is none."""
        variance = sum(part**2 for part in self.parts.values())
        return {name: part**2 / variance for name, part in self.parts.items()} if variance > 0 else {}


@dataclass(frozen=True)
class Comparison:
    """Cells of one drive, workload and level of each further factor, compared with each other.

    `cells`: all of them, by name; what follows has cells by these names.
    `quantity`: ops/J, or ops/s where no drive has a rail. `ranking.order` has the cells with a
    figure, best first; `precision` and `points` those with an AI; `front` those that no other one
    beats in performance and power together. `by_factor` is None where no factor varies.
    `loads`: of cells with an AI, their energy in `energy_quantity`: "J" where all loads do the same
    work, else "W". `uneven_losses`: that the cells lost different shares of their samples; empty:
    they did not.
    """

    drive: str
    workload: str
    further: Levels
    cells: Mapping[str, Cell]
    quantity: str
    ranking: Ranking
    precision: Mapping[str, Precision]
    points: Mapping[str, cemp.Point]
    by_factor: effects.Effects | None
    front: Sequence[str]
    uneven_losses: str
    loads: Mapping[str, cemp.Loads]
    energy_quantity: str

    @property
    def name(self) -> str:
        """Return what all the cells have in common."""
        return ", ".join([self.drive, self.workload, *level_texts(self.further)])

    @property
    def changes(self) -> list[cemp.Change]:
        """Return dE, dP and Cemp at its anchors."""
        return cemp.changes(self.points, self.loads, self.energy_quantity)

    @property
    def columns(self) -> dict[str, str]:
        """Return what a row of a table begins with: drive, workload, further, quantity."""
        return {
            "drive": self.drive,
            "workload": self.workload,
            "further": ", ".join(level_texts(self.further)),
            "quantity": self.quantity,
        }


@dataclass(frozen=True)
class Ranked:
    """The ranking of a group, the cells of the group, and by cell the runs that count for it.

    `uneven_losses` as in `Comparison`; `systematic`: what is wrong with the runs' AI in all alike.
    """

    quantity: str
    ranking: Ranking
    cells: Mapping[str, list[Run]]
    counted: Mapping[str, list[Run]]
    uneven_losses: str
    systematic: SystematicRuns


def compare_cells(campaign: Campaign) -> list[Comparison]:
    """Compare the cells of each drive, workload and level of each further factor.

    Returns one comparison each, in the order of the definition, with the rankings of `rank_groups`.
    """
    return [_compared(key, ranked) for key, ranked in rank_groups(campaign).items()]


def rank_groups(campaign: Campaign, work: str = WORK) -> dict[_Key, Ranked]:
    """Rank the cells of each drive, workload and level of each further factor.

    The families of the tests are of the whole campaign: where nothing differs, at most one campaign
    in twenty separates any two cells, and at most one names a best. Groups share that evenly
    (Šidák). Cells that race are ranked by the bounds of their race.

    Parameters
    ----------
    work : "ops" or "bytes_moved"
        What is divided by the joules. Runs without it do not count; a race is about ops alone.
    """
    found: dict[_Key, dict[str, list[Run]]] = {}
    for cell, runs in campaign.cells().items():
        found.setdefault(races.group_of(runs[0].key), {})[cell] = runs
    drives = levels(campaign, "drive", {key[0] for key in found})
    workloads = levels(campaign, "workload", {key[1] for key in found})
    order = sorted(
        found, key=lambda key: (workloads.index(key[1]), drives.index(key[0]), level_texts(key[2]))
    )
    alpha = ranking.sidak_level(ranking.ALPHA, max(1, len(order)))
    design = races.design_of(campaign) if work == WORK else None
    errors = MeterErrors(campaign)
    return {key: _ranked(found[key], alpha, design, work, errors) for key in order}


def levels(campaign: Campaign, factor: str, present: set[str]) -> list[str]:
    """Return the levels of a factor in the order of the definition.

    They are sorted where the campaign's definition does not give their order.
    """
    definition = campaign.definition
    factors = definition.get("factors")
    for source in (factors if isinstance(factors, dict) else {}, definition):
        for key in (factor, f"{factor}s"):
            listed = source.get(key)
            if isinstance(listed, list) and present <= {str(level) for level in listed}:
                return [str(level) for level in listed if str(level) in present]
    return sorted(present)


def _ranked(
    cells: Mapping[str, list[Run]], alpha: float, design: Design | None, work: str, errors: MeterErrors
) -> Ranked:
    metered = {cell: [run for run in runs if run.counts] for cell, runs in cells.items()}
    unmetered = {cell: [run for run in runs if run.unmetered] for cell, runs in cells.items()}
    quantity, counted = (AI, metered) if any(metered.values()) else (RATE, unmetered)
    counted = {
        cell: [run for run, done in zip(runs, _amounts(runs, work), strict=True) if done is not None]
        for cell, runs in counted.items()
    }
    systematic = errors.by_block(counted) if quantity == AI else {}
    figures = {cell: _ratio(runs, work, _BELOW[quantity]) for cell, runs in counted.items() if runs}
    if design is None:
        order = sorted(figures, key=lambda cell: (-figures[cell], cell))
        ranked = ranking.rank(
            {cell: _by_block(counted[cell], quantity, work) for cell in order},
            alpha,
            systematic,
        )
    else:
        ranked = _raced(cells, design, figures, systematic)
    uneven = losses.warning({cell: runs[0].key for cell, runs in cells.items()}, counted)
    return Ranked(quantity, ranked, cells, counted, uneven, systematic)


def _compared(key: _Key, found: Ranked) -> Comparison:
    quantity, counted, order = found.quantity, found.counted, found.ranking.order
    kept = [run for cell in order for run in counted[cell]]
    points = {cell: _point(counted[cell]) for cell in order} if quantity == AI else {}
    return Comparison(
        *key,
        {cell: runs[0].key for cell, runs in found.cells.items()},
        quantity,
        found.ranking,
        _precision({cell: counted[cell] for cell in points}),
        points,
        effects.two_way_anova(
            [run.filesystem for run in kept],
            [run.scheduler for run in kept],
            [run.block for run in kept],
            _values(kept, quantity),
        ),
        pareto.front({cell: (point.performance, point.watts) for cell, point in points.items()}),
        found.uneven_losses,
        *_loads(found, points),
    )


def _loads(found: Ranked, cells: Iterable[str]) -> tuple[dict[str, cemp.Loads], str]:
    """Return the loads of cells, and what their energy is in."""
    runs = {cell: found.counted[cell] for cell in cells}
    every = [run for of_cell in runs.values() for run in of_cell]
    fixed = cemp.is_fixed_work(_amounts(every, WORK), _amounts(every, "seconds"))
    loads = {}
    for cell, of_cell in runs.items():
        blocks = [run.block for run in of_cell]
        rates = _values(of_cell, RATE)
        joules, seconds = _amounts(of_cell, "joules"), _amounts(of_cell, "seconds")
        energies = joules if fixed else [one / took for one, took in zip(joules, seconds, strict=True)]
        systematic = mean_systematic([one for _, one in found.systematic[cell]])
        loads[cell] = cemp.Loads(
            dict(zip(blocks, rates, strict=True)), dict(zip(blocks, energies, strict=True)), systematic
        )
    return loads, "J" if fixed else "W"


def _raced(
    cells: Mapping[str, list[Run]],
    design: Design,
    figures: Mapping[str, float],
    systematic: SystematicRuns,
) -> Ranking:
    """Return the ranking of a race, without the cells that have no figure."""
    found = racing.rank(races.values(races.entered(cells)), design, systematic)
    order = [cell for cell in found.order if cell in figures]
    if not found.race.looks:
        order.sort(key=lambda cell: (-figures[cell], cell))
    pairs, with_best = (
        tuple(pair for pair in some if {pair.first, pair.second} <= figures.keys())
        for some in (found.pairs, found.with_best)
    )
    shown = {cell: found.letters[cell] for cell in order}
    return replace(found, order=tuple(order), letters=shown, pairs=pairs, with_best=with_best)


def _amounts(runs: Sequence[Run], of: str) -> list[Any]:
    """Return joules, or a field of the performance, of runs that have it."""
    if of == "joules":
        return [run.result.ai_joules for run in runs]
    return [getattr(run.performance, of) for run in runs]


def _values(runs: Sequence[Run], quantity: str, work: str = WORK) -> list[float]:
    return [
        top / bottom
        for top, bottom in zip(_amounts(runs, work), _amounts(runs, _BELOW[quantity]), strict=True)
    ]


def _by_block(runs: Sequence[Run], quantity: str, work: str) -> list[tuple[int, float]]:
    return list(zip((run.block for run in runs), _values(runs, quantity, work), strict=True))


def _ratio(runs: Sequence[Run], top: str, bottom: str) -> float:
    return math.fsum(_amounts(runs, top)) / math.fsum(_amounts(runs, bottom))


def _point(runs: Sequence[Run]) -> cemp.Point:
    return cemp.Point(
        *(_ratio(runs, *names) for names in (("ops", "seconds"), ("ops", "joules"), ("joules", "seconds")))
    )


def _precision(cells: Mapping[str, Sequence[Run]]) -> dict[str, Precision]:
    amounts = [
        tuple(np.array(_amounts(runs, name), dtype=float) for name in (WORK, "joules"))
        for runs in cells.values()
    ]
    resampled = interval.bca_by_cell(amounts)
    return {
        cell: _precision_of_cell(runs, *own, bootstrap)
        for (cell, runs), own, bootstrap in zip(cells.items(), amounts, resampled, strict=True)
    }


def _precision_of_cell(
    runs: Sequence[Run],
    work: NDArray[np.float64],
    joules: NDArray[np.float64],
    bootstrap: Interval | None,
) -> Precision:
    parts, unknown = _common(runs, float(joules.sum()))
    common = math.sqrt(sum(part**2 for part in parts.values()))
    variance = interval.relative_variance(work, joules)
    if variance is None:
        unknown = [RUN_TO_RUN, *unknown]
    else:
        parts = {RUN_TO_RUN: math.sqrt(variance), **parts}
    moved = _amounts(runs, "bytes_moved")
    return Precision(
        interval.fieller(work, joules),
        bootstrap,
        _with_common(work, joules, common),
        _with_common(np.array(moved, dtype=float) / 1e6, joules, common) if None not in moved else None,
        parts,
        {name: _NOT_KNOWN[name] for name in unknown},
    )


def _with_common(work: NDArray[np.float64], joules: NDArray[np.float64], common: float) -> Interval | None:
    """Return the interval of a ratio of sums with what no replicate averages out."""
    alone = interval.fieller(work, joules)
    if alone is None:
        return None
    return interval.with_common(work.sum() / joules.sum(), alone, common, len(work))


def _common(runs: Sequence[Run], joules: float) -> tuple[dict[str, float], list[str]]:
    """Return relative standard uncertainty by source, and the sources where it is not known.

    The sources are those that no replicate averages out. Errors are taken as one and the same in
    all rails and runs: they add up.
    """
    budgets = [
        rail.budget.standards(run.gap_correction(rail))
        for run in runs
        for rail in run.energy
        if rail.phase == PhaseName.WORKLOAD
    ]
    parts: dict[str, float] = {}
    unknown = []
    for name in [name for name in _NOT_KNOWN if name != RUN_TO_RUN]:
        values = [budget[name] for budget in budgets]
        if not values or None in values:
            unknown.append(name)
        else:
            parts[name] = sum(values) / joules
    return parts, unknown
