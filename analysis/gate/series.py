# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of campaigns: from which one on each cell has had another level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare.campaigns import COMMON
from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.gate import history, levels
from joulerig.analysis.gate.figures import DEFAULT, FIGURES, Figure
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics import movements
from joulerig.analysis.statistics.differences import Systematic, limit_of_difference
from joulerig.analysis.statistics.ranking import sidak, sidak_level
from joulerig.plural import counted

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Value:
    """A cell's figure in a campaign: the geometric mean of its runs.

    Of all cells together: by what they differ from their own mean, as a factor; `runs` of all.
    """

    campaign: str
    value: float
    runs: int


@dataclass(frozen=True)
class Change:
    """A cell's change of level from the campaign `since` on; `until`: the last one before it.

    `ratio` = new level / old one - 1, from `low` to `high` (95 %, for all cells and all places of a
    change at once); `p` adjusted alike. `meter`: how far the meters can make it differ from 0.
    """

    since: str
    until: str
    ratio: float
    low: float
    high: float
    p: float
    meter: float


@dataclass(frozen=True)
class Drift:
    """A steady change of a cell over the series: last value over first one - 1, as in `Change`."""

    ratio: float
    low: float
    high: float
    p: float
    meter: float


@dataclass(frozen=True)
class CellSeries:
    """A cell over the campaigns that have a value of it, or all cells together (`COMMON`).

    `changes`, or a `drift`, are relative to what all cells did together. `wanders`: it changes more
    than chance would have it, and neither by steps nor steadily. `remembers`: nights that depend on
    the last one were allowed for; where not, they are taken to be independent. `why`: what leaves
    it without a test.
    """

    cell: str
    values: tuple[Value, ...]
    changes: tuple[Change, ...] = ()
    drift: Drift | None = None
    wanders: bool = False
    remembers: bool = False
    why: str = ""


def follow(campaigns: Sequence[Campaign], figure: Figure = FIGURES[DEFAULT]) -> list[CellSeries]:
    """Return each cell's series over campaigns, which are in their order, and that of all together.

    A campaign is one value of a cell, however many runs it has: what changes from one campaign to
    the next without a cause (what a drive was used for meanwhile) is part of the noise, and the
    campaigns show how large it is. What all cells of a campaign do together, as on a warmer day, is
    a separate series, the last one, and is taken out of theirs; with fewer than
    `movements.FEWEST_CELLS` cells it cannot be. Where nothing changes, some cell of a series, or
    all together, shows a change of level or a drift in at most 5 % of series. What the campaigns'
    meters do not share is taken off.
    """
    cells, table = history.table(campaigns, figure)
    if not cells:
        return []
    common = movements.common_movement(table)
    together = len(cells) >= movements.FEWEST_CELLS
    by_campaign = [campaign.cells() for campaign in campaigns]
    runs = [[_with_figure(each.get(cell, []), figure) for each in by_campaign] for cell in cells]
    apart, errors_of_all = _systematic(campaigns, runs, table, common, figure)
    tested = len(cells) + together
    found = []
    for row, cell in enumerate(cells):
        values = tuple(
            Value(campaigns[place].id, math.exp(table[row, place]), len(those))
            for place, those in enumerate(runs[row])
            if those
        )
        if values:
            course = table[row] - common
            found.append(_series(cell, values, campaigns, course, apart[row], tested))
    if together:
        of_all = tuple(
            Value(campaigns[place].id, math.exp(common[place]), sum(len(those[place]) for those in runs))
            for place in np.flatnonzero(~np.isnan(common)).tolist()
        )
        found.append(_series(COMMON, of_all, campaigns, common, errors_of_all, tested))
    return found


def summary(series: Sequence[CellSeries]) -> str:
    """Return how many cells changed, and what all did together, in words."""
    cells = [one for one in series if one.cell != COMMON]
    if not cells:
        return "no cell has a value"
    changed = sum(bool(one.changes) for one in cells)
    drift = sum(one.drift is not None for one in cells)
    wander = sum(one.wanders for one in cells)
    untested = sum(bool(one.why) for one in cells)
    said = [f"{counted(changed, 'cell')} changed"]
    said += [f"{number} {verb}" for number, verb in ((drift, "drifted"), (wander, "wandered")) if number]
    said.append(f"{len(cells) - changed - drift - wander - untested} did not")
    if untested:
        said.append(f"{untested} not testable")
    said += [f"{COMMON}: {course(one)}" for one in series if one.cell == COMMON and not one.why]
    return ", ".join(said)


def course(one: CellSeries) -> str:
    """Return what a series does, in a word or two."""
    if one.changes:
        return counted(len(one.changes), "change")
    if one.drift is not None:
        return "drifted"
    return "wandered" if one.wanders else "no change"


def _with_figure(runs: Sequence[Run], figure: Figure) -> list[Run]:
    return [run for run in runs if figure.of(run) is not None]


def _series(
    cell: str,
    values: tuple[Value, ...],
    campaigns: Sequence[Campaign],
    course: _Array,
    errors: Sequence[Systematic],
    tested: int,
) -> CellSeries:
    """Return what a series does, of `tested` ones; `course` has NaN where there is no value."""
    known = np.flatnonzero(~np.isnan(course)).tolist()
    if len(known) < levels.FEWEST:
        return CellSeries(
            cell, values, why=f"{counted(len(known), 'campaign')}: at least {levels.FEWEST} are needed"
        )
    limits = np.array([[limit_of_difference(errors[one], errors[other]) for other in known] for one in known])
    np.fill_diagonal(limits, 0.0)
    if not np.isfinite(limits).all():
        return CellSeries(cell, values, why="what the meters did not measure may be as much as what they did")
    found = levels.course(course[known], sidak_level(levels.ALPHA, tested), limits)
    changes = tuple(
        Change(
            campaigns[known[step.at]].id,
            campaigns[known[step.at - 1]].id,
            *_as_ratios(step, tested),
        )
        for step in found.steps
    )
    drift = None if found.drift is None else Drift(*_as_ratios(found.drift, tested))
    return CellSeries(cell, values, changes, drift, found.wanders, found.remembers)


def _as_ratios(found: levels.Step | levels.Drift, tested: int) -> tuple[float, float, float, float, float]:
    """Return ratio, low, high, p and meter."""
    return (
        math.expm1(found.difference),
        math.expm1(found.low),
        math.expm1(found.high),
        sidak(found.p, tested),
        math.expm1(found.limit),
    )


def _systematic(
    campaigns: Sequence[Campaign],
    runs: Sequence[Sequence[Sequence[Run]]],
    table: _Array,
    common: _Array,
    figure: Figure,
) -> tuple[list[list[Systematic]], list[Systematic]]:
    """Return what is wrong with each cell's values apart, by campaign, and with the common ones."""
    apart = [[Systematic() for _ in campaigns] for _ in runs]
    of_all = [Systematic() for _ in campaigns]
    if not figure.metered:
        return apart, of_all
    own = table - np.nanmean(table - common, axis=1, keepdims=True) - common
    for place, campaign in enumerate(campaigns):
        errors = MeterErrors(campaign)
        rows = [row for row, each in enumerate(runs) if each[place]]
        found = [errors.of_cell(CellRuns(runs[row][place])) for row in rows]
        moved = np.nan_to_num(own[rows, place])
        cells, of_all[place] = movements.split_systematic(moved, found)
        for row, one in zip(rows, cells, strict=True):
            apart[row][place] = one
    return apart, of_all
