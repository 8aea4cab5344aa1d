# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's cells compared.

Which of them the runs separate, how sure each AI is, which factor matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from joulerig.analysis.compare import cemp, races
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Cell, Levels, PhaseName, level_texts
from joulerig.analysis.statistics import effects, interval, pareto, racing, ranking
from joulerig.analysis.statistics.interval import Interval
from joulerig.analysis.statistics.racing import Design
from joulerig.analysis.statistics.ranking import Ranking

_Key = tuple[str, str, Levels]  # drive, workload, levels of further factors
AI, RATE = "ops/J", "ops/s"
_BELOW = {AI: "joules", RATE: "seconds"}
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
    with what is wrong in every run alike. All in ops/J, None where the runs are too few. `parts`:
    relative standard uncertainty by source. `unknown`: what is in none of them, in words, by
    source.
    """

    fieller: Interval | None
    bootstrap: Interval | None
    interval: Interval | None
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

    @property
    def name(self) -> str:
        """Return what all the cells have in common."""
        return ", ".join([self.drive, self.workload, *level_texts(self.further)])

    @property
    def columns(self) -> dict[str, str]:
        """Return what a row of a table begins with: drive, workload, further, quantity."""
        return {
            "drive": self.drive,
            "workload": self.workload,
            "further": ", ".join(level_texts(self.further)),
            "quantity": self.quantity,
        }


def compare_cells(campaign: Campaign) -> list[Comparison]:
    """Compare the cells of each drive, workload and level of each further factor.

    Returns one comparison each, in the order of the definition.

    The family of the tests is all pairs of the campaign: where nothing differs, at most one
    campaign in twenty separates any two cells. Comparisons share that evenly (Šidák). Cells that
    race are ranked by the bounds of their race.
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
    design = races.design_of(campaign)
    return [_compared(key, found[key], alpha, design) for key in order]


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


def _compared(key: _Key, cells: Mapping[str, list[Run]], alpha: float, design: Design | None) -> Comparison:
    metered = {cell: [run for run in runs if run.counts] for cell, runs in cells.items()}
    unmetered = {cell: [run for run in runs if run.unmetered] for cell, runs in cells.items()}
    quantity, counted = (AI, metered) if any(metered.values()) else (RATE, unmetered)
    figures = {cell: _ratio(runs, "ops", _BELOW[quantity]) for cell, runs in counted.items() if runs}
    if design is None:
        order = sorted(figures, key=lambda cell: (-figures[cell], cell))
        ranked = ranking.rank(
            {cell: [(run.block, _value(run, quantity)) for run in counted[cell]] for cell in order}, alpha
        )
    else:
        ranked = _raced(cells, design, figures)
        order = list(ranked.order)
    kept = [run for cell in order for run in counted[cell]]
    points = {cell: _point(counted[cell]) for cell in order} if quantity == AI else {}
    return Comparison(
        *key,
        {cell: runs[0].key for cell, runs in cells.items()},
        quantity,
        ranked,
        {cell: _precision(counted[cell]) for cell in points},
        points,
        effects.two_way_anova(
            [run.filesystem for run in kept],
            [run.scheduler for run in kept],
            [run.block for run in kept],
            [_value(run, quantity) for run in kept],
        ),
        pareto.front({cell: (point.performance, point.watts) for cell, point in points.items()}),
    )


def _raced(cells: Mapping[str, list[Run]], design: Design, figures: Mapping[str, float]) -> Ranking:
    """Return the ranking of a race, without the cells that have no figure."""
    found = racing.rank(races.values(races.entered(cells)), design)
    order = [cell for cell in found.order if cell in figures]
    if not found.race.looks:
        order.sort(key=lambda cell: (-figures[cell], cell))
    pairs = tuple(pair for pair in found.pairs if {pair.first, pair.second} <= figures.keys())
    shown = {cell: found.letters[cell] for cell in order}
    return replace(found, order=tuple(order), letters=shown, pairs=pairs)


def _amount(run: Run, of: str) -> float:
    return run.result.joules if of == "joules" else getattr(run.performance, of)


def _value(run: Run, quantity: str) -> float:
    return run.performance.ops / _amount(run, _BELOW[quantity])


def _ratio(runs: Sequence[Run], top: str, bottom: str) -> float:
    return math.fsum(_amount(run, top) for run in runs) / math.fsum(_amount(run, bottom) for run in runs)


def _point(runs: Sequence[Run]) -> cemp.Point:
    return cemp.Point(
        *(_ratio(runs, *names) for names in (("ops", "seconds"), ("ops", "joules"), ("joules", "seconds")))
    )


def _precision(runs: Sequence[Run]) -> Precision:
    work = np.array([run.performance.ops for run in runs], dtype=float)
    joules = np.array([run.result.joules for run in runs], dtype=float)
    parts, unknown = _common(runs, float(joules.sum()))
    common = math.sqrt(sum(part**2 for part in parts.values()))
    variance = interval.relative_variance(work, joules)
    if variance is None:
        unknown = [RUN_TO_RUN, *unknown]
    else:
        parts = {RUN_TO_RUN: math.sqrt(variance), **parts}
    fieller = interval.fieller(work, joules)
    return Precision(
        fieller,
        interval.bca(work, joules),
        None
        if fieller is None
        else interval.with_common(work.sum() / joules.sum(), fieller, common, len(runs)),
        parts,
        {name: _NOT_KNOWN[name] for name in unknown},
    )


def _common(runs: Sequence[Run], joules: float) -> tuple[dict[str, float], list[str]]:
    """Return relative standard uncertainty by source, and the sources where it is not known.

    The sources are those that no replicate averages out. Errors are taken as one and the same in
    all rails and runs: they add up.
    """
    budgets = [
        rail.budget.standards() for run in runs for rail in run.energy if rail.phase == PhaseName.WORKLOAD
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
