# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's chapter of power cuts: verdicts, what was lost beyond promises, energy, method."""

from __future__ import annotations

from typing import Any

from joulerig.analysis.powercut import confidence, tables
from joulerig.analysis.powercut import folder as folders
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.schema import CampaignKind

MOST_VIOLATIONS = 50  # that are listed; violations.csv has them all


def power_cuts(analysed: Analysed) -> dict[str, Any] | None:
    """Return what became of the writes, None for a campaign of another kind.

    Raises PowerCutError.
    """
    campaign = analysed.campaign
    if campaign.kind != CampaignKind.POWER_CUT:
        return None
    return content(folders.from_campaign(campaign))


def content(campaign: folders.PowerCuts, *, alone: bool = False) -> dict[str, Any]:
    """Return what the chapter shows; `alone`: it is the whole report.

    Everything is checked again from witness logs and read-backs.
    """
    verdicts = campaign.verdicts()
    rows = tables.subjects(campaign).to_dicts()
    cuts = tables.cuts(campaign).to_dicts()
    for subject, row in zip(campaign.subjects, rows, strict=True):
        own = [cut for cut in cuts if cut["subject"] == subject.name]
        row |= {
            "name": str(subject),
            "said": _sentence(row["statement"].removeprefix(f"{subject}: ")),
            "phases": verdicts[subject.name].phases,
            "failed": campaign.failed[subject.name],
            "hold_up": _span(own, "longest_hold_up_seconds", 1e3),
            "hold_up_joules": _span(own, "hold_up_joules", 1e3),
            "mount": _span(own, "mount_seconds", 1.0),
        }
    definition = campaign.definition
    violations = [
        (subject, cut.number, violation)
        for subject in campaign.subjects
        for cut in campaign.cuts[subject.name]
        for violation in cut.findings.violations
    ]
    return {
        "alone": alone,
        "id": campaign.id,
        "name": definition.get("name") or campaign.id,
        "question": definition.get("question", ""),
        "virtual": campaign.virtual,
        "created_ns": campaign.created_ns,
        "definition": definition,
        "subjects": rows,
        "violations": violations[:MOST_VIOLATIONS],
        "more_violations": max(0, len(violations) - MOST_VIOLATIONS),
        "level": f"{100 * confidence.CONFIDENCE:g} %",
    }


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _span(cuts: list[dict[str, Any]], key: str, scale: float) -> tuple[float, float] | None:
    """Return the least and the greatest of a figure over the cuts that have it."""
    known = [scale * cut[key] for cut in cuts if cut[key] is not None]
    return (min(known), max(known)) if known else None


POWER_CUTS = Chapter("power_cuts", "", power_cuts)
