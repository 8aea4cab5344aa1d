# SPDX-License-Identifier: GPL-3.0-or-later
"""Two campaigns compared: work per joule cell by cell, and the settings that differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics import movements
from joulerig.analysis.statistics.movements import Deviation, Moves
from joulerig.analysis.statistics.ranking import ALPHA, logs_by_block

COMMON = "all cells together"  # the name of what they do in common
ONE_RUN = "one run: its spread is unknown"
FEW_CELLS = (
    f"by the runs alone: fewer than {movements.FEWEST_CELLS} cells do not show what a campaign does to"
    " all, and how much campaigns differ is not known"
)


@dataclass(frozen=True)
class Movement:
    """The movement of all cells of the second campaign together, as a ratio - 1.

    From `low` to `high` (95 %), with `p`; by the runs of these two campaigns alone where `known` is
    False, as no deviation between campaigns was given, and p is None then. `meter` as in `Change`.
    """

    ratio: float
    low: float
    high: float
    p: float | None
    known: bool
    meter: float


@dataclass(frozen=True)
class Change:
    """The change of a cell that both campaigns have.

    `before`, `after`: AI in ops/J, ratio of sums. `total` = after / before - 1 of the runs' mean
    logarithms. `ratio` = the same relative to what all cells did together, from `low` to `high`
    (95 %, for all cells at once), `p` adjusted alike. Where `why` says that there is nothing to
    test by, p is None, and all of them where no runs show a spread. `meter`: how far the two
    campaigns' meters can make the ratio differ from 1 where nothing changed; it is in `low`, `high`
    and `p`.
    """

    cell: str
    before: float
    after: float
    runs: tuple[int, int]
    total: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    why: str = ""
    meter: float | None = None

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < ALPHA


@dataclass(frozen=True)
class Comparison:
    """The changes of cells, and what all did together (None: of too few cells)."""

    changes: list[Change]
    common: Movement | None


def compare(before: Campaign, after: Campaign, deviation: Deviation | None = None) -> Comparison:
    """Compare each cell with an AI in both campaigns, in the order of the first.

    The model is `move`'s; `deviation`: what is known of how much campaigns differ.
    """
    old, new = _counted(before), _counted(after)
    cells = [cell for cell in old if cell in new]
    changes = {cell: _untested(cell, old[cell], new[cell]) for cell in cells}
    known = MeterErrors(before), MeterErrors(after)
    errors = {
        cell: tuple(
            each.of_cell(CellRuns(runs)) for each, runs in zip(known, (old[cell], new[cell]), strict=True)
        )
        for cell in cells
        if not changes[cell].why
    }
    for cell, limits in errors.items():
        if max(one.own for one in limits) >= 1:
            changes[cell] = replace(
                changes[cell], why="what the meters did not measure may be as much as what they did"
            )
    tested = [cell for cell in cells if not changes[cell].why]
    tables = [_table([runs[cell] for cell in tested]) for runs in (old, new)]
    moves = movements.move(tables[0], tables[1], deviation, [errors[cell] for cell in tested])
    return describe(changes, tested, moves)


def describe(changes: Mapping[str, Change], tested: Sequence[str], moves: Moves) -> Comparison:
    """Return the comparison that `moves` of the `tested` ones of the cells make."""
    found = {cell: _tested(changes[cell], moves, place) for place, cell in enumerate(tested)}
    return Comparison([found.get(cell, change) for cell, change in changes.items()], _movement(moves))


def only_in(one: Campaign, other: Campaign) -> list[str]:
    """List the cells with an AI in one campaign and none in the other."""
    return [cell for cell in _counted(one) if cell not in _counted(other)]


def settings(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """List what differs between two flat mappings: (name, before, after).

    A value is empty where its mapping has no such name.
    """
    names = dict.fromkeys([*before, *after])
    pairs = [(name, before.get(name, ""), after.get(name, "")) for name in names]
    return [row for row in pairs if row[1] != row[2]]


def _counted(campaign: Campaign) -> dict[str, list[Run]]:
    found = {cell: [run for run in runs if run.counts] for cell, runs in campaign.cells().items()}
    return {cell: runs for cell, runs in found.items() if runs}


def _untested(cell: str, old: Sequence[Run], new: Sequence[Run]) -> Change:
    """Return a change without its test; `why` where there can be none."""
    change = Change(cell, _ai(old), _ai(new), (len(old), len(new)))
    if min(len({run.block for run in runs}) for runs in (old, new)) < 2:
        return replace(change, why=ONE_RUN)
    if min(_ai([run]) for run in (*old, *new)) <= 0:
        return replace(change, why="a run without operations")
    return change


def _tested(change: Change, moves: Moves, place: int) -> Change:
    if moves.why:
        return replace(change, why=moves.why)
    middle, reach = float(moves.own[place]), float(moves.reach[place])
    testable = moves.known or moves.common is not None
    return replace(
        change,
        total=math.expm1(moves.total[place]),
        ratio=math.expm1(middle),
        low=math.expm1(middle - reach),
        high=math.expm1(middle + reach),
        p=float(moves.p[place]) if testable else None,
        why="" if testable else FEW_CELLS,
        meter=math.expm1(moves.limit[place]),
    )


def _movement(moves: Moves) -> Movement | None:
    if moves.common is None:
        return None
    low, high = (moves.common + sign * moves.common_reach for sign in (-1, 1))
    p = moves.common_p if moves.known else None
    return Movement(
        math.expm1(moves.common),
        math.expm1(low),
        math.expm1(high),
        p,
        moves.known,
        math.expm1(moves.common_limit),
    )


def _table(cells: Sequence[Sequence[Run]]) -> NDArray[np.float64]:
    """Return the logarithms of runs by cell and block; several of one block as their mean."""
    return logs_by_block([[(run.block, _ai([run])) for run in runs] for runs in cells])[1]


def _ai(runs: Sequence[Run]) -> float:
    return math.fsum(run.performance.ops for run in runs) / math.fsum(run.result.ai_joules for run in runs)
