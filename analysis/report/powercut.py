# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a power-cut campaign: verdicts, what was lost beyond promises, energy, method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joulerig import atomic
from joulerig.analysis.powercut import confidence, tables
from joulerig.analysis.powercut import folder as folders
from joulerig.analysis.report import document

MOST_VIOLATIONS = 50  # that are listed; violations.csv has them all


def write(folder: Path) -> list[Path]:
    """report.html, report.pdf and the tables of the campaign in `folder`, in `folder`/report/ (atomic).

    Everything is checked again from logs and read-backs. Raises analysis.powercut.folder.PowerCutError.
    """
    campaign = folders.load(folder)
    place = folder / "report"
    html = document.rendered("powercut.html.j2", content(campaign))
    return [
        atomic.write(place / "report.html", html.encode()),
        atomic.write(place / "report.pdf", document.pdf(html)),
        *tables.write(campaign, place),
    ]


def content(campaign: folders.Campaign) -> dict[str, Any]:
    """What the template shows."""
    verdicts = campaign.verdicts()
    rows = tables.subjects(campaign).to_dicts()
    cuts = tables.cuts(campaign).to_dicts()
    for subject, row in zip(campaign.subjects, rows, strict=True):
        of_subject = [cut for cut in cuts if cut["subject"] == subject.name]
        row |= {
            "name": str(subject),
            "said": _sentence(row["statement"].removeprefix(f"{subject}: ")),
            "phases": verdicts[subject.name].phases,
            "failed": campaign.failed[subject.name],
            "hold_up": _span(of_subject, "longest_hold_up_seconds", 1e3),
            "hold_up_joules": _span(of_subject, "hold_up_joules", 1e3),
            "mount": _span(of_subject, "mount_seconds", 1.0),
        }
    definition = campaign.manifest.get("definition", {})
    violations = [
        (subject, cut.number, violation)
        for subject in campaign.subjects
        for cut in campaign.cuts[subject.name]
        for violation in cut.findings.violations
    ]
    return {
        "id": campaign.manifest["id"],
        "name": definition.get("name") or campaign.manifest["id"],
        "question": definition.get("question", ""),
        "virtual": campaign.manifest["virtual"],
        "created_ns": campaign.manifest.get("created_ns"),
        "definition": definition,
        "subjects": rows,
        "violations": violations[:MOST_VIOLATIONS],
        "more_violations": max(0, len(violations) - MOST_VIOLATIONS),
        "level": f"{100 * confidence.CONFIDENCE:g} %",
    }


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _span(cuts: list[dict[str, Any]], key: str, scale: float) -> tuple[float, float] | None:
    """The least and the greatest of a figure over the cuts that have it."""
    known = [scale * cut[key] for cut in cuts if cut[key] is not None]
    return (min(known), max(known)) if known else None
