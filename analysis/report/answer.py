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
from joulerig.analysis.report.text import number, percent
from joulerig.analysis.statistics.ranking import Pair
from joulerig.plural import counted

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
        claim = f"no AI, as no rail is measured; fastest: {claim}"
    parts = [*(_sureness(group) if group.ranked else _rate(compared[0])), *_others(group)]
    absent = len(group.cells) - len(compared)
    if absent:
        parts.append(f"{counted(absent, 'cell')} of {len(group.cells)} without a result")
    return Answer(group, claim, _figure(group), "; ".join(parts))


def _claim(group: Group) -> str:
    """Return the combinations in the first place: one, or none that can be named."""
    by_name = {cell["cell"]: cell for cell in group.compared}
    ranking = group.comparison.ranking
    best = ranking.order[0]
    tied = ranking.not_separated(best) if ranking.method else []
    if len(tied) >= _MOST_NAMED:
        return f"no single best: {combination(by_name[best])} and {len(tied)} others not separated"
    return _together([by_name[cell] for cell in (best, *tied)])


def _together(cells: Sequence[Row]) -> str:
    """Return combinations as text, a file system named once: "f2fs with none or mq-deadline"."""
    by_filesystem: dict[str, list[str]] = {}
    for cell in cells:
        by_filesystem.setdefault(cell["filesystem"], []).append(cell["scheduler"])
    return " or ".join(f"{name} with {' or '.join(found)}" for name, found in by_filesystem.items())


def _figure(group: Group) -> str:
    best = group.compared[0]
    if not group.ranked:
        return f"{number(best['ops_per_second'])} ops/s"
    shown = number(best["ai_ops_per_joule"])
    if (half := half_width(best)) is not None:
        shown += f" ± {number(half, 2)}"
    return f"{shown} ops/J{EXPIRED if best['calibration'] == 'expired' else ''}"


def half_width(cell: Row) -> float | None:
    """Return half of the 95 % interval of a cell's AI; None where it has none."""
    low, high = cell["ai_ops_per_joule_interval_low"], cell["ai_ops_per_joule_interval_high"]
    return None if low is None or high is None else (high - low) / 2


def _sureness(group: Group) -> list[str]:
    best = group.compared[0]
    parts = [f"{number(best['ai_mb_per_joule'])} MB/J", f"n = {best['runs_counted']}"]
    if best["ai_ops_per_joule_energy_low"] is not None:
        low, high = best["ai_ops_per_joule_energy_low"], best["ai_ops_per_joule_energy_high"]
        parts.append(f"by the energy's interval alone {number(low)} to {number(high)} ops/J")
    unknown = group.comparison.precision[best["cell"]].unknown
    if half_width(best) is not None and unknown:
        parts.append(f"± without {', '.join(unknown.values())}")
    return parts


def _rate(best: Row) -> list[str]:
    return [f"{number(best['mb_per_second'])} MB/s", f"n = {best['runs_counted']}"]


def _others(group: Group) -> list[str]:
    """Return how the other cells compare with the best one."""
    ranking, compared = group.comparison.ranking, group.compared
    best = compared[0]
    if len(compared) == 1:
        return ["the only cell with a result, so nothing to compare it with"]
    if not ranking.method:
        shown = "ai_ops_per_joule" if group.ranked else "ops_per_second"
        less = 1 - compared[1][shown] / best[shown] if best[shown] else None
        return [
            f"next {combination(compared[1])}, {percent(less)} % less",
            f"nothing is separable ({ranking.why})",
        ]
    apart = [cell for cell in compared[1:] if ranking.pair(best["cell"], cell["cell"]).separated]
    if not apart:
        return ["not separated from any other"]
    nearest = apart[0]
    return [f"{combination(nearest)} is {_worse(ranking.pair(best['cell'], nearest['cell']))}"]


def _worse(pair: Pair) -> str:
    """Return the difference with its interval: "5.7 % worse (3.6 to 7.7 %)"."""
    least, greatest = sorted(abs(end) for end in pair.relative_difference_interval)
    word = "worse" if pair.relative_difference > 0 else "better"
    return f"{percent(abs(pair.relative_difference))} % {word} ({percent(least)} to {percent(greatest)} %)"


def caveat(found: Sequence[Group]) -> str:
    """Return what holds for all answers together."""
    rankings = [group.comparison.ranking for group in found if group.compared]
    if not any(group.ranked for group in found):
        return "No run ended with both performance and joules, so there is no AI to compare."
    if all(cell["runs_counted"] == 1 for group in found for cell in group.ranked):
        return (
            "One run a cell: the spread between runs is unknown, so nothing is separable; the order below is"
            " that of single runs and may be chance."
        )
    sentences = []
    if any(half_width(cell) is not None for group in found for cell in group.ranked):
        sentences.append("± is half of the 95 % interval: spread between runs, gaps, instants and meter.")
    if any(ranking.method for ranking in rankings):
        sentences.append(
            "Combinations named together are not separated by the runs. Differences come with 95 % intervals"
            " for all pairs of the campaign at once."
        )
    return " ".join(sentences)
