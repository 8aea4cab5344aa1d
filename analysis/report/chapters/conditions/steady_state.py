# SPDX-License-Identifier: GPL-3.0-or-later
"""How the drives of a campaign came to their state before its runs, as the report says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joulerig import text
from joulerig.analysis.drawing import Svg
from joulerig.analysis.report import figures
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.statistics import steady_state as rule


@dataclass(frozen=True)
class Settling:
    """A precondition that runs of a drive stand on.

    `windows`: of iops and of watts, empty where not judged; `figure`: its rounds, None where
    another campaign made it.
    """

    host: str
    drive: str
    by: str
    runs: str
    recipe: Mapping[str, Any]
    rounds: int
    steady: bool
    windows: tuple[Mapping[str, Any], ...]
    reason: str
    figure: Svg | None


@dataclass(frozen=True)
class SteadyState:
    """The preconditions, and the limits of the verdict.

    The limits are the rounds of its window, and range and slope over mean.
    """

    settlings: list[Settling]
    rounds: int = rule.ROUNDS
    range_limit: float = rule.RANGE_LIMIT
    slope_limit: float = rule.SLOPE_LIMIT


def steady_state(analysed: Analysed) -> SteadyState | None:
    """Return how each drive was brought to its state, in order.

    None where no run was preconditioned.
    """
    found, _ = _preconditions(analysed.campaign)
    order = sorted(found, key=lambda key: (*key[:2], found[key][0].ordinal))
    settlings = [_settling(analysed.campaign, found[key]) for key in order]
    return SteadyState(settlings) if settlings else None


def damaged_files(campaign: Campaign) -> list[str]:
    """Return which runs' records of their precondition cannot be read."""
    return _preconditions(campaign)[1]


def _preconditions(campaign: Campaign) -> tuple[dict[tuple[str, str, str], list[Run]], list[str]]:
    """Return the preconditioned runs, and the damaged files.

    The runs are by host, drive and the run that made the precondition.
    """
    found: dict[tuple[str, str, str], list[Run]] = {}
    damaged = []
    for run in campaign.runs:
        try:
            if run.precondition:
                found.setdefault((run.host, run.drive, run.precondition["by"]), []).append(run)
        except ResultsError as error:
            damaged.append(str(error))
    return found, damaged


def _settling(campaign: Campaign, runs: Sequence[Run]) -> Settling:
    first = runs[0]
    # The run that it was made for has its rounds; that need not be the first one that stands on it.
    made = next((run.precondition for run in runs if not run.precondition["reused"]), None)
    verdict = first.precondition["verdict"]
    windows = {window["series"]: window for window in verdict["windows"]}
    rounds = [one for stretch in made["stretches"] for one in stretch] if made else []
    return Settling(
        host=first.host,
        drive=first.drive,
        by=first.precondition["by"],
        runs=text.ranges([run.ordinal for run in runs]),
        recipe=first.precondition["recipe"],
        rounds=verdict["rounds_before"] + verdict["rounds"],
        steady=verdict["steady"],
        windows=tuple(windows.get(series, {}) for series in rule.SERIES),
        reason=verdict["reason"],
        figure=figures.rounds(rounds, windows, virtual=campaign.virtual) if rounds else None,
    )


STEADY_STATE = Chapter("steady_state", "Steady state of the drives", steady_state)
