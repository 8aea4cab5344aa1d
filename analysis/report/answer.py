# SPDX-License-Identifier: GPL-3.0-or-later
"""The campaign's question answered by comparing cells, and the sentences that say so.

Cells are compared within one drive and workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.energy.meters import EXPIRED
from joulerig.analysis.runs.modes import NOT_KNOWN, SCOPE
from joulerig.analysis.statistics.ranking import ONE_RUN, Pair
from joulerig.plural import counted
from joulerig.text import number, percent

Row = dict[str, Any]

_MOST_NAMED = 3  # combinations that share the first place, by name


@dataclass(frozen=True)
class Group:
    """A comparison with its rows of `runs_and_cells.cells`.

    Those with a figure come first, best first.
    """

    comparison: Comparison
    cells: tuple[Row, ...]

    @property
    def name(self) -> str:
        return self.comparison.name

    @property
    def ranked(self) -> list[Row]:
        """Return the cells with an AI."""
        return [cell for cell in self.cells if cell["ai_ops_per_joule"] is not None]

    @property
    def compared(self) -> list[Row]:
        """Return the cells that are ranked, by AI or, where there is none, by performance."""
        return [cell for cell in self.cells if cell["cell"] in self.comparison.ranking.letters]


def groups(compared: Iterable[Comparison], cells: Iterable[Row]) -> list[Group]:
    """Return all cells, by the comparison that they belong to."""
    by_name = {cell["cell"]: cell for cell in cells}
    found = []
    for one in compared:
        place = {cell: index for index, cell in enumerate(one.ranking.order)}
        rows = [by_name[cell] for cell in one.cells]
        rows.sort(key=lambda row: (place.get(row["cell"], len(place)), row["cell"]))
        found.append(Group(one, tuple(rows)))
    return found


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
    """Return a group's best cell by ops/J, its figure and how sure that is.

    The claim names or counts all cells that the runs do not separate from it.
    """
    compared = group.compared
    if not compared:
        statuses = sorted({cell["status"] for cell in group.cells})
        return Answer(group, "no answer: no run ended with joules", "", f"cells are {', '.join(statuses)}")
    claim = _claim(group)
    if not group.ranked:
        fastest = "fastest: " if group.comparison.ranking.contenders or len(compared) == 1 else ""
        claim = f"no AI, as no rail is measured; {fastest}{claim}"
    sureness = _sureness(group) if group.ranked else _rate(_first(group))
    if len(compared) > 1 and not group.comparison.ranking.contenders:
        parts = [*_readings(group), *sureness]
    else:
        parts = [*sureness, *_others(group), *_detectable(group)]
    if group.comparison.ranking.withheld:
        parts.insert(0, group.comparison.ranking.withheld)
    if group.comparison.ranking.winner and (met := _modes(group)):
        parts.append(met)
    absent = len(group.cells) - len(compared)
    if absent:
        parts.append(f"{counted(absent, 'cell')} of {len(group.cells)} without a result")
    return Answer(group, claim, _figure(group), "; ".join(parts))


def _claim(group: Group) -> str:
    """Return the combinations any of which may be the best: one, several, or none can be named."""
    ranking, first = group.comparison.ranking, _first(group)
    if len(group.compared) == 1:
        return combination(first)
    if not ranking.contenders:
        return ranking.why if ranking.why == ONE_RUN else f"nothing can be separated: {ranking.why}"
    if ranking.withheld:
        return f"no winner yet: {combination(first)} leads"
    by_name = {cell["cell"]: cell for cell in group.compared}
    if len(ranking.contenders) > _MOST_NAMED:
        others = len(ranking.contenders) - 1
        return f"no single best: {combination(first)} and {others} others not separated"
    return _together([by_name[cell] for cell in ranking.contenders])


def _first(group: Group) -> Row:
    """Return the cell that the others are compared with: of the greatest mean, blocks taken out.

    Where nothing could be tested, the one of the highest reading.
    """
    contenders = group.comparison.ranking.contenders
    name = contenders[0] if contenders else group.compared[0]["cell"]
    return next(cell for cell in group.compared if cell["cell"] == name)


def _together(cells: Sequence[Row]) -> str:
    """Return combinations as text, a file system named once: "f2fs with none or mq-deadline"."""
    by_filesystem: dict[str, list[str]] = {}
    for cell in cells:
        by_filesystem.setdefault(cell["filesystem"], []).append(cell["scheduler"])
    return " or ".join(f"{name} with {' or '.join(found)}" for name, found in by_filesystem.items())


def _figure(group: Group) -> str:
    best = _first(group)
    if len(group.compared) > 1 and not group.comparison.ranking.contenders:
        return ""
    if not group.ranked:
        return _rate_of(best)
    return _ai_of(best)


def _ai_of(cell: Row) -> str:
    shown = number(cell["ai_ops_per_joule"])
    if (half := half_width(cell)) is not None:
        shown += f" ± {number(half, 2)}"
    return f"{shown} ops/J{EXPIRED if cell['calibration'] == 'expired' else ''}"


def _rate_of(cell: Row) -> str:
    return f"{number(cell['ops_per_second'])} ops/s"


def half_width(cell: Row) -> float | None:
    """Return half of the 95 % interval of a cell's AI; None where it has none."""
    low, high = cell["ai_ops_per_joule_interval_low"], cell["ai_ops_per_joule_interval_high"]
    return None if low is None or high is None else (high - low) / 2


def _sureness(group: Group) -> list[str]:
    best = _first(group)
    parts = [f"{number(best['ai_mb_per_joule'])} MB/J", f"n = {best['runs_counted']}"]
    if best["ai_ops_per_joule_energy_low"] is not None:
        low, high = best["ai_ops_per_joule_energy_low"], best["ai_ops_per_joule_energy_high"]
        parts.append(f"by the energy's interval alone {number(low)} to {number(high)} ops/J")
    unknown = group.comparison.precision[best["cell"]].unknown
    if half_width(best) is not None and unknown:
        parts.append(f"± without {', '.join(unknown.values())}")
    return parts


def _modes(group: Group) -> str:
    """Return the modes of the drive that the best cell's runs met; empty where none is known."""
    best = _first(group)
    unknown = f"{NOT_KNOWN} {best['runs_counted']}"
    return "" if best["modes"] in (None, unknown) else f"its runs met: {best['modes']}"


def _rate(best: Row) -> list[str]:
    return [f"{number(best['mb_per_second'])} MB/s", f"n = {best['runs_counted']}"]


def _others(group: Group) -> list[str]:
    """Return how the other cells compare with the best one."""
    ranking, compared = group.comparison.ranking, group.compared
    if len(compared) == 1:
        return ["the only cell with a result, so nothing to compare it with"]
    behind = [cell for cell in compared if cell["cell"] not in ranking.contenders]
    if not behind:
        return ["not separated from any other"]
    return [f"{combination(behind[0])} is {_worse(ranking.behind_best(behind[0]['cell']))}"]


def _detectable(group: Group) -> list[str]:
    """Return what these runs would have shown, where they leave more than one cell."""
    ranking = group.comparison.ranking
    left = [
        pair.detectable for pair in ranking.with_best if not pair.separated and pair.detectable is not None
    ]
    if not left:
        return []
    return [f"a difference of {percent(max(left))} % would show in 9 of 10 such campaigns"]


def _readings(group: Group) -> list[str]:
    """Return the two highest readings, where they are all that there is to say."""
    highest, next_ = group.compared[:2]
    name, of = ("ai_ops_per_joule", _ai_of) if group.ranked else ("ops_per_second", _rate_of)
    less = 1 - next_[name] / highest[name] if highest[name] else None
    return [
        f"highest reading {combination(highest)}, {of(highest)}",
        f"next {combination(next_)}, {percent(less)} % less",
    ]


def _worse(pair: Pair) -> str:
    """Return the difference with its interval: "5.7 % worse (3.6 to 7.7 %)"."""
    least, greatest = pair.relative_difference_interval or (None, None)
    return f"{percent(pair.relative_difference)} % worse ({percent(least)} to {percent(greatest)} %)"


def caveat(found: Sequence[Group]) -> str:
    """Return what holds for all answers together."""
    rankings = [group.comparison.ranking for group in found if group.compared]
    if not any(group.ranked for group in found):
        return "No run ended with both performance and joules, so there is no AI to compare."
    if all(cell["runs_counted"] == 1 for group in found for cell in group.ranked):
        return (
            "One run a cell: the spread between runs is unknown, so nothing can be separated; the order"
            " below is that of single readings and may be chance."
        )
    sentences = []
    if any(half_width(cell) is not None for group in found for cell in group.ranked):
        sentences.append("± is half of the 95 % interval: spread between runs, gaps, instants and meter.")
    if any(ranking.method for ranking in rankings):
        sentences.append(
            "Any of the combinations named together may be the best: at 5 % for the whole campaign the runs"
            " do not separate them. Differences from the best come with 95 % intervals, for all at once."
            f" The best is that {SCOPE}: a mode of the drive that they did not meet, such as garbage"
            " collection, may change it."
        )
    return " ".join(sentences)
