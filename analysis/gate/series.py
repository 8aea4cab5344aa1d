# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of campaigns: from which one on each cell has had another level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.gate import levels
from joulerig.analysis.gate.figures import DEFAULT, FIGURES, Figure
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics.differences import limit_of_difference
from joulerig.analysis.statistics.ranking import sidak, sidak_level
from joulerig.plural import counted


@dataclass(frozen=True)
class Value:
    """A cell's figure in a campaign: the geometric mean of its runs."""

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
class CellSeries:
    """A cell over the campaigns that have a value of it. `why`: what leaves it without a test."""

    cell: str
    values: tuple[Value, ...]
    changes: tuple[Change, ...]
    why: str = ""


def follow(campaigns: Sequence[Campaign], figure: Figure = FIGURES[DEFAULT]) -> list[CellSeries]:
    """Return each cell's series over campaigns, which are in their order.

    A campaign is one value of a cell, however many runs it has: what changes from one campaign to
    the next without a cause (a warmer day, a drive that was used meanwhile) is part of the noise,
    and the campaigns show how large it is. Where nothing changes, some cell of a series shows a
    change in at most 5 % of series. What the campaigns' meters do not share is taken off.
    """
    cells = list(dict.fromkeys(cell for campaign in campaigns for cell in campaign.cells()))
    alpha = sidak_level(levels.ALPHA, max(1, len(cells)))
    errors = [MeterErrors(campaign) for campaign in campaigns]
    by_campaign = [campaign.cells() for campaign in campaigns]
    found = []
    for cell in cells:
        runs = [_with_figure(each.get(cell, []), figure) for each in by_campaign]
        present = [place for place, those in enumerate(runs) if those]
        if present:
            known = [(campaigns[place].id, errors[place], runs[place]) for place in present]
            found.append(_series(cell, known, figure, alpha, len(cells)))
    return found


def summary(series: Sequence[CellSeries]) -> str:
    """Return how many cells changed, in words."""
    if not series:
        return "no cell has a value"
    changed = sum(bool(one.changes) for one in series)
    untested = sum(bool(one.why) for one in series)
    said = [f"{counted(changed, 'cell')} changed", f"{len(series) - changed - untested} did not"]
    if untested:
        said.append(f"{untested} not testable")
    return ", ".join(said)


def _with_figure(runs: Sequence[Run], figure: Figure) -> list[Run]:
    return [run for run in runs if figure.of(run) is not None]


def _series(
    cell: str,
    known: Sequence[tuple[str, MeterErrors, Sequence[Run]]],
    figure: Figure,
    alpha: float,
    cells: int,
) -> CellSeries:
    logs = [float(np.mean([math.log(figure.of(run) or math.nan) for run in runs])) for _, _, runs in known]
    values = tuple(
        Value(name, math.exp(log), len(runs)) for (name, _, runs), log in zip(known, logs, strict=True)
    )
    if len(values) < levels.FEWEST:
        return CellSeries(
            cell, values, (), f"{counted(len(values), 'campaign')}: at least {levels.FEWEST} are needed"
        )
    limits = _limits(known) if figure.metered else np.zeros((len(known), len(known)))
    if not np.isfinite(limits).all():
        return CellSeries(cell, values, (), "what the meters did not measure may be as much as what they did")
    changes = tuple(
        Change(
            since=values[step.at].campaign,
            until=values[step.at - 1].campaign,
            ratio=math.expm1(step.difference),
            low=math.expm1(step.low),
            high=math.expm1(step.high),
            p=sidak(step.p, cells),
            meter=math.expm1(step.limit),
        )
        for step in levels.steps(logs, alpha, limits)
    )
    return CellSeries(cell, values, changes)


def _limits(known: Sequence[tuple[str, MeterErrors, Sequence[Run]]]) -> NDArray[np.float64]:
    """Return by how much each two campaigns' values can differ for their meters alone."""
    systematic = [errors.of_cell(CellRuns(runs)) for _, errors, runs in known]
    found = np.zeros((len(known), len(known)))
    for one in range(len(known)):
        for other in range(one + 1, len(known)):
            found[one, other] = found[other, one] = limit_of_difference(systematic[one], systematic[other])
    return found
