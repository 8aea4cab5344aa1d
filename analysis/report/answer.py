# SPDX-License-Identifier: GPL-3.0-or-later
"""The campaign's question answered: cells compared within one drive and workload, and the sentences that
say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.meters import EXPIRED
from analysis.report.text import number, several
from analysis.results import Campaign

Row = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Cells that are compared with each other: of one drive, workload, and level of each further factor.

    `cells`: rows of analysis.tables.cells, those with an AI first, best first.
    """

    drive: str
    workload: str
    further: str
    cells: tuple[Row, ...]

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.drive, self.workload, self.further) if part)

    @property
    def ranked(self) -> list[Row]:
        return [cell for cell in self.cells if cell["ai_ops_per_joule"] is not None]


def groups(campaign: Campaign, cells: Iterable[Row]) -> list[Group]:
    """All cells in groups, in the order of the campaign's factor levels."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for cell in cells:
        # the journal's name of a cell: drive/filesystem/scheduler/workload[/factor=level...]
        further = ", ".join(cell["cell"].split("/")[4:])
        found.setdefault((cell["drive"], cell["workload"], further), []).append(cell)
    drives = levels(campaign, "drive", {key[0] for key in found})
    workloads = levels(campaign, "workload", {key[1] for key in found})
    ordered = sorted(found, key=lambda key: (workloads.index(key[1]), drives.index(key[0]), key[2]))
    return [
        Group(
            *key,
            tuple(sorted(found[key], key=lambda cell: (-(cell["ai_ops_per_joule"] or 0.0), cell["cell"]))),
        )
        for key in ordered
    ]


def levels(campaign: Campaign, factor: str, present: set[str]) -> list[str]:
    """The levels of a factor in the order of the campaign's definition; sorted where that does not tell."""
    definition = campaign.definition
    factors = definition.get("factors")
    for source in (factors if isinstance(factors, dict) else {}, definition):
        for key in (factor, f"{factor}s"):
            listed = source.get(key)
            if isinstance(listed, list) and present <= {str(level) for level in listed}:
                return [str(level) for level in listed if str(level) in present]
    return sorted(present)


def combination(cell: Row) -> str:
    return f"{cell['filesystem']} with {cell['scheduler']}"


@dataclass(frozen=True)
class Answer:
    """One group's answer: the claim, and what qualifies it."""

    group: Group
    claim: str
    figure: str
    qualification: str


def answer(group: Group) -> Answer:
    """Best cell by ops/J, with its number, its spread, and which cells the data does not separate from it.

    Cells count as not separated where the ranges of their runs overlap. That describes the runs at hand; it
    is no test, and with few runs disjoint ranges are weak evidence too.
    """
    ranked = group.ranked
    if not ranked:
        if worked := [cell for cell in group.cells if cell["ops_per_second"] is not None]:
            return _by_performance(group, worked)
        statuses = sorted({cell["status"] for cell in group.cells})
        return Answer(group, "no answer: no run ended with joules", "", f"cells are {', '.join(statuses)}")
    best = ranked[0]
    figure = f"{number(best['ai_ops_per_joule'])} ops/J"
    deviation = best["ai_ops_per_joule_standard_deviation"]
    if deviation is not None:
        figure = f"{number(best['ai_ops_per_joule'])} ± {number(deviation, 2)} ops/J"
    if best["calibration"] == "expired":
        figure += EXPIRED
    parts = [f"{number(best['ai_mb_per_joule'])} MB/J", f"n = {best['runs_counted']}"]
    if best["ai_ops_per_joule_energy_low"] is not None:
        low, high = best["ai_ops_per_joule_energy_low"], best["ai_ops_per_joule_energy_high"]
        parts.append(f"by the energy's interval alone {number(low)} to {number(high)} ops/J")
    if len(ranked) == 1:
        parts.append("the only cell with a result, so nothing to compare it with")
    else:
        second = ranked[1]
        less = 100 * (1 - second["ai_ops_per_joule"] / best["ai_ops_per_joule"])
        parts.append(f"next {combination(second)}, {number(less, 2)} % less")
        parts.append(_separation(ranked))
    absent = len(group.cells) - len(ranked)
    if absent:
        parts.append(f"{several(absent, 'cell')} of {len(group.cells)} without a result")
    return Answer(group, combination(best), figure, "; ".join(parts))


def _by_performance(group: Group, worked: Sequence[Row]) -> Answer:
    """Of a drive without a rail: there is performance, and nothing to divide it by."""
    fastest = max(worked, key=lambda cell: cell["ops_per_second"])
    return Answer(
        group,
        f"no AI, as no rail is measured; fastest: {combination(fastest)}",
        f"{number(fastest['ops_per_second'])} ops/s",
        f"{number(fastest['mb_per_second'])} MB/s; n = {fastest['runs_counted']}",
    )


def _separation(ranked: Sequence[Row]) -> str:
    best = ranked[0]
    if best["runs_counted"] < 2:
        return "spread unknown, nothing is separable"
    close = [
        cell
        for cell in ranked[1:]
        if cell["runs_counted"] < 2 or cell["ai_ops_per_joule_max"] >= best["ai_ops_per_joule_min"]
    ]
    if not close:
        return "its runs' range overlaps no other cell's"
    return f"not separated from {', '.join(combination(cell) for cell in close)}"


def caveat(found: Sequence[Group]) -> str:
    """What holds for all answers together; empty where there is nothing to say."""
    ranked = [cell for group in found for cell in group.ranked]
    if not ranked:
        return "No run ended with both performance and joules, so there is no AI to compare."
    if all(cell["runs_counted"] == 1 for cell in ranked):
        return (
            "One run a cell: the spread between runs is unknown, so nothing is separable; the order below is"
            " that of single runs and may be chance."
        )
    if any(cell["runs_counted"] == 1 for cell in ranked):
        return "Some cells have a single run: their spread is unknown and they are separable from nothing."
    return "± is one standard deviation between runs. Comparing ranges of runs is description, not a test."
