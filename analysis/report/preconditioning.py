# SPDX-License-Identifier: GPL-3.0-or-later
"""How the drives of a campaign came to their state before its runs, as the report says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.drawing import Svg
from joulerig.analysis.report import figures, text
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.statistics import steady_state


@dataclass(frozen=True)
class Settling:
    """A precondition that runs of a drive stand on. `windows`: of iops and of watts, empty where not judged;
    `figure`: its rounds, None where another campaign made it."""

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


def of_campaign(campaign: Campaign) -> tuple[list[Settling], list[str]]:
    """By drive, in order; and which files of runs cannot be read."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    damaged = []
    for run in campaign.runs:
        try:
            if run.precondition:
                found.setdefault((run.host, run.drive, run.precondition["by"]), []).append(run)
        except ResultsError as error:
            damaged.append(str(error))
    order = sorted(found, key=lambda key: (*key[:2], found[key][0].ordinal))
    return [_settling(campaign, found[key]) for key in order], damaged


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
        windows=tuple(windows.get(series, {}) for series in steady_state.SERIES),
        reason=verdict["reason"],
        figure=figures.rounds(rounds, windows, virtual=campaign.virtual) if rounds else None,
    )
