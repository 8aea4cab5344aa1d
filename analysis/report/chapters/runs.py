# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapters of single runs: those that did not run and why, and all of them in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from joulerig import text
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import FINISHED, Status

_MOST_CELLS = 4  # listed by name
MOST_RUNS = 200  # listed one by one; of more than these, runs.csv has all


@dataclass(frozen=True)
class Reason:
    """Runs that are not ok, with the same status and the same reason.

    `cells`: their cells or, of many, the levels.
    """

    status: str
    reason: str
    runs: str
    count: int
    cells: list[str]


@dataclass(frozen=True)
class NotRun:
    """`excluded`: what the campaign's definition leaves out, and why."""

    reasons: list[Reason]
    excluded: list[tuple[str, str]]


@dataclass(frozen=True)
class Runs:
    """The runs that are listed; of more than `most`, those that want a look."""

    listed: Sequence[dict[str, Any]]
    most: int


def not_run(analysed: Analysed) -> NotRun:
    """Return the runs that are not ok, and what the definition leaves out."""
    return NotRun(_reasons(analysed.campaign), _excluded(analysed.campaign))


def runs(analysed: Analysed) -> Runs:
    """Return the runs to list."""
    return Runs(to_list(analysed.runs), MOST_RUNS)


def to_list(runs: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the runs to list: all, or of more than `MOST_RUNS` the first ones that need a look."""
    if len(runs) <= MOST_RUNS:
        return runs
    return [run for run in runs if run["status"] != Status.OK or run["truth_within"] is False][:MOST_RUNS]


def _reasons(campaign: Campaign) -> list[Reason]:
    """Return the runs that are not ok, together where status and reason are the same."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in campaign.runs:
        if run.status != Status.OK:
            found.setdefault((run.status, run.reason), []).append(run)
    places: dict[str, int] = {status: place for place, status in enumerate(Status)}
    order = sorted(found, key=lambda key: (places[key[0]], found[key][0].ordinal))
    return [
        Reason(
            status=status,
            reason=reason or ("not finished yet" if status not in FINISHED else "no reason was recorded"),
            runs=text.ranges([run.ordinal for run in found[status, reason]]),
            count=len(found[status, reason]),
            cells=_which(found[status, reason]),
        )
        for status, reason in order
    ]


def _which(runs: Sequence[Run]) -> list[str]:
    """Return the runs' cells by name where they are few, else the levels that they have."""
    cells = list(dict.fromkeys(run.cell for run in runs))
    if len(cells) <= _MOST_CELLS:
        return cells
    named = {
        noun: sorted({getattr(run, name) for run in runs})
        for noun, name in (
            ("drive", "drive"),
            ("file system", "filesystem"),
            ("scheduler", "scheduler"),
            ("workload", "workload"),
        )
    }
    return [f"{noun} {', '.join(levels)}" for noun, levels in named.items()]


def _excluded(campaign: Campaign) -> list[tuple[str, str]]:
    """Return what the campaign's definition leaves out, with its reason: (what, why)."""
    listed = campaign.definition.get("exclude") or []
    rows = []
    for entry in listed if isinstance(listed, list) else [listed]:
        levels = text.flat(entry) if isinstance(entry, dict) else {"": str(entry)}
        why = levels.pop("reason", text.DASH)
        rows.append((", ".join(f"{name} {level}".strip() for name, level in levels.items()), why))
    return rows


NOT_RUN = Chapter("not_run", "What did not run, and why", not_run)
RUNS = Chapter("runs", "Runs", runs)
