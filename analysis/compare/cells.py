# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's cells compared.

Which of them the runs separate, how sure each AI is, which factor matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare import cemp, losses, races
from joulerig.analysis.compare.cell_runs import CellRuns, Rails
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.energy.interval import standard_uncertainties
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Cell, Levels, level_texts
from joulerig.analysis.runs import modes
from joulerig.analysis.statistics import effects, interval, pareto, racing, ranking
from joulerig.analysis.statistics.differences import SystematicByCell
from joulerig.analysis.statistics.interval import Interval
from joulerig.analysis.statistics.racing import Design
from joulerig.analysis.statistics.ranking import Ranking
from joulerig.garbage import none_collected

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
# What the interval of an energy needs; the meter's class is stated to be in none.
_UNBOUNDED = _NOT_KNOWN.keys() - {RUN_TO_RUN, "meter"}
_WHOLE = 1 / math.sqrt(3)  # standard uncertainty of what may be as much as was measured


@dataclass(frozen=True)
class Precision:
    """How sure a cell's AI is.

    `fieller`, `bootstrap`: 95 % intervals by the spread between runs alone. `interval`: Fieller's,
    with what is wrong in every run alike. All in ops/J, None where the runs are too few; `interval`
    too where a part of the energy's own interval is not known, or is as large as the energy.
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
    counted: Mapping[str, CellRuns]
    uneven_losses: str
    systematic: SystematicByCell


def compare_cells(campaign: Campaign) -> list[Comparison]:
    """Compare the cells of each drive, workload and level of each further factor.

    Returns one comparison each, in the order of the definition, with the rankings of `rank_groups`.
    """
    with none_collected():
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
    return {key: _ranked(campaign, found[key], alpha, design, work, errors) for key in order}


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
    campaign: Campaign,
    cells: Mapping[str, list[Run]],
    alpha: float,
    design: Design | None,
    work: str,
    errors: MeterErrors,
) -> Ranked:
    counting = {cell: [run for run in runs if run.counts] for cell, runs in cells.items()}
    quantity = AI if any(counting.values()) else RATE
    if quantity == RATE:
        counting = {cell: [run for run in runs if run.unmetered] for cell, runs in cells.items()}
    counted = {
        cell: CellRuns([run for run in runs if getattr(run.load_amounts, work) is not None])
        for cell, runs in counting.items()
    }
    systematic = errors.by_cell(counted) if quantity == AI else {}
    figures = {cell: _ratio(runs, work, _BELOW[quantity]) for cell, runs in counted.items() if len(runs)}
    if design is None:
        order = sorted(figures, key=lambda cell: (-figures[cell], cell))
        ranked = ranking.rank(
            {cell: _by_block(counted[cell], quantity, work) for cell in order},
            alpha,
            systematic,
        )
    else:
        ranked = _raced(campaign, cells, design, figures, systematic)
    counts = {cell: len(runs) for cell, runs in counted.items()}
    withheld = modes.why_withheld(
        ranked, counts, lambda names: modes.met_alike(campaign, [counted[name].runs for name in names])
    )
    uneven = losses.warning({cell: runs[0].key for cell, runs in cells.items()}, counted)
    return Ranked(quantity, replace(ranked, withheld=withheld), cells, counted, uneven, systematic)


def _compared(key: _Key, found: Ranked) -> Comparison:
    quantity, counted, order = found.quantity, found.counted, found.ranking.order
    kept = [run for cell in order for run in counted[cell].runs]
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
            [value for cell in order for value in _values(counted[cell], quantity)],
        ),
        pareto.named(
            {cell: (point.performance, point.watts) for cell, point in points.items()},
            {cell: len(counted[cell].runs) for cell in points},
        ),
        found.uneven_losses,
        *_loads(found, points),
    )


def _loads(found: Ranked, cells: Iterable[str]) -> tuple[dict[str, cemp.Loads], str]:
    """Return the loads of cells, and what their energy is in."""
    runs = {cell: found.counted[cell] for cell in cells}
    ops, seconds = (
        np.concatenate([np.empty(0), *(one.amount(name) for one in runs.values())])
        for name in (WORK, "seconds")
    )
    fixed = cemp.is_fixed_work(ops, seconds)
    loads = {}
    for cell, one in runs.items():
        energies = (one.joules if fixed else one.joules / one.seconds).tolist()
        loads[cell] = cemp.Loads(
            dict(zip(one.blocks, _values(one, RATE), strict=True)),
            dict(zip(one.blocks, energies, strict=True)),
            found.systematic[cell].mean,
        )
    return loads, "J" if fixed else "W"


def _raced(
    campaign: Campaign,
    cells: Mapping[str, list[Run]],
    design: Design,
    figures: Mapping[str, float],
    systematic: SystematicByCell,
) -> Ranking:
    """Return the ranking of a race, without the cells that have no figure."""
    entered = races.entered(cells)
    alike = races.met_alike(campaign, entered)
    found = racing.rank(races.values(entered), design, systematic, alike)
    order = [cell for cell in found.order if cell in figures]
    if not found.race.looks:
        order.sort(key=lambda cell: (-figures[cell], cell))
    pairs, with_best = (
        tuple(pair for pair in some if {pair.first, pair.second} <= figures.keys())
        for some in (found.pairs, found.with_best)
    )
    shown = {cell: found.letters[cell] for cell in order}
    return replace(found, order=tuple(order), letters=shown, pairs=pairs, with_best=with_best)


def _values(runs: CellRuns, quantity: str, work: str = WORK) -> list[float]:
    found: list[float] = (runs.amount(work) / runs.amount(_BELOW[quantity])).tolist()
    return found


def _by_block(runs: CellRuns, quantity: str, work: str) -> list[tuple[int, float]]:
    return list(zip(runs.blocks, _values(runs, quantity, work), strict=True))


def _ratio(runs: CellRuns, top: str, bottom: str) -> float:
    return math.fsum(runs.amount(top).tolist()) / math.fsum(runs.amount(bottom).tolist())


def _point(runs: CellRuns) -> cemp.Point:
    return cemp.Point(
        *(_ratio(runs, *names) for names in (("ops", "seconds"), ("ops", "joules"), ("joules", "seconds")))
    )


def _precision(cells: Mapping[str, CellRuns]) -> dict[str, Precision]:
    resampled = interval.bca_by_cell([(runs.ops, runs.joules) for runs in cells.values()])
    return {
        cell: _precision_of_cell(runs, bootstrap)
        for (cell, runs), bootstrap in zip(cells.items(), resampled, strict=True)
    }


def _precision_of_cell(runs: CellRuns, bootstrap: Interval | None) -> Precision:
    work, joules = runs.ops, runs.joules
    parts, unknown = _common(runs.rails, float(joules.sum()))
    common = math.sqrt(sum(part**2 for part in parts.values()))
    variance = interval.relative_variance(work, joules)
    if variance is None:
        unknown = [RUN_TO_RUN, *unknown]
    else:
        parts = {RUN_TO_RUN: math.sqrt(variance), **parts}
    alone, megabytes = interval.fieller(work, joules), runs.bytes_moved / 1e6
    bytes_known = not np.isnan(megabytes).any()
    if _UNBOUNDED & set(unknown) or parts.get("gaps", 0.0) >= _WHOLE:
        return Precision(alone, bootstrap, None, None, parts, {name: _NOT_KNOWN[name] for name in unknown})
    return Precision(
        alone,
        bootstrap,
        _with_common(work, joules, alone, common),
        _with_common(megabytes, joules, interval.fieller(megabytes, joules), common) if bytes_known else None,
        parts,
        {name: _NOT_KNOWN[name] for name in unknown},
    )


def _with_common(
    work: NDArray[np.float64], joules: NDArray[np.float64], alone: Interval | None, common: float
) -> Interval | None:
    """Return the interval of a ratio of sums with what no replicate averages out.

    `alone`: Fieller's, by the spread between runs.
    """
    if alone is None:
        return None
    return interval.with_common(work.sum() / joules.sum(), alone, common, len(work))


def _common(rails: Rails, joules: float) -> tuple[dict[str, float], list[str]]:
    """Return relative standard uncertainty by source, and the sources where it is not known.

    The sources are those that no replicate averages out. Errors are taken as one and the same in
    all rails and runs: they add up.
    """
    standards = standard_uncertainties(
        gap_low=rails.gap_low,
        gap_high=rails.gap_high,
        interpolation=rails.interpolation,
        alignment=rails.alignment,
        product=rails.product,
        meter=rails.meter,
        gap_correction=rails.gap_correction,
        product_correction=rails.product_correction,
    )
    sums = {name: sum(values.tolist()) for name, values in standards.items()} if len(rails) else {}
    known = {name: total / joules for name, total in sums.items() if not math.isnan(total)}
    parts = {name: known[name] for name in _NOT_KNOWN if name in known}
    return parts, [name for name in _NOT_KNOWN if name not in known and name != RUN_TO_RUN]
