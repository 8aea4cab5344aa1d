# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapters that answer the campaign's question: answers, heat maps, ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.drawing import Svg
from joulerig.analysis.report import answer, figures, standings
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import Status


@dataclass(frozen=True)
class Answers:
    """The answers to the campaign's question.

    `statuses`: how many runs have each status. `seconds`: from the first run to the last, if known.
    """

    answers: list[answer.Answer]
    caveat: str
    statuses: list[tuple[Status, int]]
    seconds: float | None


@dataclass(frozen=True)
class Figures:
    """One figure for each drive and workload."""

    figures: list[tuple[answer.Group, Svg]]


def answers(analysed: Analysed) -> Answers:
    """Return the best combination of each drive and workload, and what qualifies the answers."""
    campaign = analysed.campaign
    return Answers(
        [answer.answer(group) for group in analysed.groups],
        answer.caveat(analysed.groups),
        [
            (status, count)
            for status in Status
            if (count := sum(run.status == status for run in campaign.runs))
        ],
        _elapsed(campaign),
    )


def heat_maps(analysed: Analysed) -> Figures:
    """Return a map of AI, file system by scheduler, for each drive and workload."""
    calls = [_heat_map(analysed.campaign, group) for group in analysed.groups]
    drawn = analysed.draw(figures.heat_map, calls)
    return Figures(list(zip(analysed.groups, drawn, strict=True)))


def ranking(analysed: Analysed) -> Figures | None:
    """Return the ranking of each drive and workload with two cells or more that have an AI."""
    ranked = [group for group in analysed.groups if len(group.ranked) > 1]
    if not ranked:
        return None
    calls = [{"cells": group.ranked, "virtual": analysed.campaign.virtual} for group in ranked]
    return Figures(list(zip(ranked, analysed.draw(standings.figure, calls), strict=True)))


def _elapsed(campaign: Campaign) -> float | None:
    instants = [time for run in campaign.runs for time in (run.started_ns, run.ended_ns) if time is not None]
    return (max(instants) - min(instants)) * 1e-9 if instants else None


def _heat_map(campaign: Campaign, group: answer.Group) -> dict[str, Any]:
    """Return the arguments of a group's map."""
    one = group.comparison
    shared = [run for run in campaign.runs if (run.drive, run.workload) == (one.drive, one.workload)]
    return {
        "cells": group.cells,
        "filesystems": comparison.levels(campaign, "filesystem", {run.filesystem for run in shared}),
        "schedulers": comparison.levels(campaign, "scheduler", {run.scheduler for run in shared}),
        "virtual": campaign.virtual,
    }


ANSWERS = Chapter("answers", "", answers)
HEAT_MAPS = Chapter("heat_maps", "Work per joule by file system and scheduler", heat_maps)
RANKING = Chapter("ranking", "Ranking, and performance against power", ranking)
