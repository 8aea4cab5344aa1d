# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the loads were steady while they were measured, in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.runs import steadiness as rule
from joulerig.analysis.runs.over_time import FIFTHS
from joulerig.analysis.runs.steadiness import Steadiness
from joulerig.analysis.statistics import steady_state

_MOST_REASONS = 3


@dataclass(frozen=True)
class SteadyCell:
    """A cell's runs by verdict.

    `figures`: median over the runs of range and slope of operations per second, and of watts, each
    over its mean; None where none was judged.
    """

    cell: dict[str, Any]
    steady: int
    unsteady: int
    open: int
    not_judged: int
    figures: tuple[float | None, ...]


@dataclass(frozen=True)
class SteadinessContent:
    """The cells by drive and workload, why runs could not be judged, and the rule's limits."""

    groups: list[tuple[str, list[SteadyCell]]]
    reasons: list[str]
    parts: int = FIFTHS
    range_limit: float = steady_state.RANGE_LIMIT
    slope_limit: float = steady_state.SLOPE_LIMIT


def content(analysed: Analysed) -> SteadinessContent | None:
    """Return the verdicts by cell; None where no run did a load."""
    judged = analysed.steadiness
    if not judged:
        return None
    runs = analysed.campaign.cells()
    groups = []
    for group in analysed.groups:
        cells = []
        for cell in group.compared:
            found = [judged[run.id] for run in runs[cell["cell"]] if run.id in judged]
            if found:
                cells.append(_cell(cell, found))
        if cells:
            groups.append((group.name, cells))
    reasons = Counter(one.reason for one in judged.values() if one.verdict == rule.NOT_JUDGED)
    return SteadinessContent(groups, [why for why, _ in reasons.most_common(_MOST_REASONS)])


def _cell(cell: dict[str, Any], found: Sequence[Steadiness]) -> SteadyCell:
    def middle(series: str, figure: str) -> float | None:
        values = [getattr(one.windows[series], figure) for one in found if series in one.windows]
        known = [value for value in values if value is not None]
        return median(known) if known else None

    return SteadyCell(
        cell,
        sum(one.verdict == rule.STEADY for one in found),
        sum(one.is_unsteady for one in found),
        sum(one.verdict.startswith(rule.CANNOT_TELL) for one in found),
        sum(one.verdict == rule.NOT_JUDGED for one in found),
        tuple(
            middle(series, figure)
            for series in (rule.OPS, rule.WATTS)
            for figure in ("range_fraction", "slope_fraction")
        ),
    )


STEADINESS = Chapter("steadiness", "Steadiness of the measured phase", content)
