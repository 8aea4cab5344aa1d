# SPDX-License-Identifier: GPL-3.0-or-later
"""The races of a campaign whose order is `racing`: one for each group of cells that are compared.

The design stands in the campaign's provenance since before its first run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import FINISHED, PASSING, Cell, Status
from joulerig.analysis.runs import modes
from joulerig.analysis.statistics import ranking
from joulerig.analysis.statistics.differences import SystematicByCell
from joulerig.analysis.statistics.racing import Design, MetAlike, Race, replay

Group = tuple[str, str, tuple[tuple[str, str], ...]]  # drive, workload, levels of further factors
ORDER = "racing"
KEY = "race"  # of the provenance


def group_of(cell: Cell) -> Group:
    """Return what a cell has in common with those that it is compared with."""
    return cell.drive, cell.workload, cell.further


def design_for(blocks: int, groups: int, margin: float | None) -> Design:
    """Return the design of each race of a campaign: at most one in twenty errs in any of them.

    A race of five blocks has one occasion to end, its last: five runs are enough then.
    """
    least = modes.ENOUGH if blocks == modes.ENOUGH else modes.ENOUGH_IN_RACE
    even = Design.even(blocks, ranking.sidak_level(ranking.ALPHA, max(1, groups)), margin)
    return replace(even, least_runs=least)


def design_of(campaign: Campaign) -> Design | None:
    """Return the design that a campaign was planned with; None where its cells do not race."""
    found = campaign.provenance.get(KEY)
    return None if found is None else Design.from_json(found)


def races(campaign: Campaign) -> dict[Group, Race]:
    """Return each race of a campaign as far as its runs go; empty where its cells do not race."""
    design = design_of(campaign)
    if design is None:
        return {}
    cells: dict[Group, dict[str, list[Run]]] = {}
    for cell, runs in entered(campaign.cells()).items():
        cells.setdefault(group_of(runs[0].key), {})[cell] = runs
    errors = MeterErrors(campaign)
    return {
        group: replay(values(found), design, systematic(found, errors), met_alike(campaign, found))
        for group, found in cells.items()
    }


def met_alike(campaign: Campaign, cells: Mapping[str, Sequence[Run]]) -> MetAlike:
    """Return how a race asks whether its cells met the same modes."""

    def alike(names: Sequence[str], look: int) -> bool:
        counting = ([run for run in cells[name] if _counts(run) and run.block <= look] for name in names)
        return modes.met_alike(campaign, counting)

    return alike


def entered(cells: Mapping[str, list[Run]]) -> dict[str, list[Run]]:
    """Return the cells that race: those that the campaign's author did not leave out."""
    return {cell: runs for cell, runs in cells.items() if any(run.status != Status.EXCLUDED for run in runs)}


def values(cells: Mapping[str, Sequence[Run]]) -> dict[str, list[tuple[int, float | None]]]:
    """Return, by cell, (block, work per joule) of each run that has ended.

    None where it has no figure. Operations per second where no run of the group has joules.
    """
    metered = any(run.counts for runs in cells.values() for run in runs)
    return {
        cell: [(run.block, _value(run, metered)) for run in runs if _has_ended(run)]
        for cell, runs in cells.items()
    }


def systematic(cells: Mapping[str, Sequence[Run]], errors: MeterErrors) -> SystematicByCell:
    """Return, by cell, what is wrong with the values of `values` in all runs alike.

    Of runs without joules nothing is.
    """
    counting = {cell: CellRuns([run for run in runs if run.counts]) for cell, runs in cells.items()}
    return errors.by_cell(counting)


def _has_ended(run: Run) -> bool:
    """Check that no later attempt will give the run another value."""
    if run.status not in FINISHED or run.status == Status.LOST:
        return False
    cause = run.attempts[-1].cause if run.attempts else None
    return run.status == Status.OK or cause not in PASSING


def _counts(run: Run) -> bool:
    return run.counts or run.unmetered


def _value(run: Run, metered: bool) -> float | None:
    """Return the work per joule, or per second, of a run that has one."""
    if not (run.counts if metered else run.unmetered):
        return None
    assert run.performance is not None
    if not metered:
        return run.performance.ops / run.performance.seconds
    assert run.result is not None
    assert run.result.ai_joules is not None
    return run.performance.ops / run.result.ai_joules
