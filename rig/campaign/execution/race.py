# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide, after each whole block of a race, which cells are executed no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from joulerig.analysis import results
from joulerig.analysis.compare import races
from joulerig.analysis.results.schema import Status, level_texts
from joulerig.analysis.statistics.racing import Outcome, Race
from joulerig.rig.campaign.journal import Journal


def decide(journal: Journal, host: str, say: Callable[[str], None]) -> None:
    """End the planned runs of cells that are out, and of races that are over, on one host.

    The looks are worked out from all runs that ended, so that it does not matter who decides, or
    how often. What is new goes into the journal, and a line of it to `say`. A host decides its own
    races alone: that a run of another host has failed may not be its end.
    """
    campaign = results.load(journal.folder)
    drives = {run.drive for run in campaign.runs if run.host == host}
    reasons: dict[str, str] = {}
    looks: list[dict[str, Any]] = []
    planned: dict[str, list[str]] = {}
    for run in campaign.runs:
        if run.status == Status.PLANNED:
            planned.setdefault(run.cell, []).append(run.id)
    for group, race in races.races(campaign).items():
        if group[0] not in drives:
            continue
        name = ", ".join([*group[:2], *level_texts(group[2])])
        looks += _looks(name, race)
        for cell, out in race.dropped.items():
            reasons |= dict.fromkeys(planned.get(cell, ()), out.reason)
        if race.outcome is not Outcome.GOES_ON:
            for cell in race.kept:
                reasons |= dict.fromkeys(planned.get(cell, ()), f"the race is over: {race.verdict}")
    for look in journal.race_out(reasons, looks):
        words = [f"{one['cell']} {one['reason']}" for one in look["dropped"]]
        say(f"{look['race']}, look {look['look']}: {'; '.join([*words, look['verdict']])}")


def _looks(name: str, race: Race) -> list[dict[str, Any]]:
    """Return the looks of a race as the journal keeps them."""
    found: list[dict[str, Any]] = []
    for look in race.looks:
        last = look is race.looks[-1]
        found.append(
            {
                "race": name,
                "look": look.look,
                "dropped": [{"cell": one.cell, "reason": one.reason} for one in look.dropped],
                "kept": list(look.kept),
                "alpha_spent": look.alpha_spent,
                "verdict": race.verdict if last else f"goes on with {len(look.kept)}",
            }
        )
    return found
