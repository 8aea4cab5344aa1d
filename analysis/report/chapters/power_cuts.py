# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's chapter of power cuts: verdicts, what was lost beyond promises, energy, method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from joulerig.analysis.powercut import confidence, tables
from joulerig.analysis.powercut import folder as folders
from joulerig.analysis.powercut.check import Violation
from joulerig.analysis.powercut.folder import Subject
from joulerig.analysis.powercut.verdict import Verdict
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.schema import CampaignKind

MOST_VIOLATIONS = 50  # that are listed; violations.csv has them all

Span = tuple[float, float]  # least and greatest over a subject's cuts


@dataclass(frozen=True)
class SubjectResult:
    """What became of one subject's writes, energy and file system.

    `statement`: the verdict as a sentence without the subject's name. `failed`: why cuts could not
    be checked. `repaired_to_mount`, `checked`, `check_complaints`: numbers of cuts. Spans are None
    where no cut has the figure.
    """

    subject: Subject
    verdict: Verdict
    statement: str
    beyond: str
    failed: list[str]
    joules_per_durable_write: float | None
    hold_up_milliseconds: Span | None
    hold_up_millijoules: Span | None
    mount_seconds: Span | None
    repaired_to_mount: int
    checked: int
    check_complaints: int


@dataclass(frozen=True)
class CutResults:
    """The chapter. `alone`: it is the whole report. `level`: of confidence, as text.

    `violations`: (subject, number of the cut, broken promise) of the first; `more_violations`: how
    many are not among them.
    """

    campaign: folders.PowerCuts
    alone: bool
    subjects: list[SubjectResult]
    violations: list[tuple[Subject, int, Violation]]
    more_violations: int
    level: str


def power_cuts(analysed: Analysed) -> CutResults | None:
    """Return what became of the writes, None for a campaign of another kind.

    Raises PowerCutError.
    """
    campaign = analysed.campaign
    if campaign.kind != CampaignKind.POWER_CUT:
        return None
    return content(folders.from_campaign(campaign))


def content(campaign: folders.PowerCuts, *, alone: bool = False) -> CutResults:
    """Return what the chapter shows; `alone`: it is the whole report.

    Everything is checked again from witness logs and read-backs.
    """
    verdicts = campaign.verdicts()
    rows = tables.subjects(campaign).to_dicts()
    cuts = tables.cuts(campaign).to_dicts()
    violations = [
        (subject, cut.number, violation)
        for subject in campaign.subjects
        for cut in campaign.cuts[subject.name]
        for violation in cut.findings.violations
    ]
    return CutResults(
        campaign=campaign,
        alone=alone,
        subjects=[
            _subject_result(
                subject,
                verdicts[subject.name],
                row,
                [cut for cut in cuts if cut["subject"] == subject.name],
                campaign.failed[subject.name],
            )
            for subject, row in zip(campaign.subjects, rows, strict=True)
        ],
        violations=violations[:MOST_VIOLATIONS],
        more_violations=max(0, len(violations) - MOST_VIOLATIONS),
        level=f"{100 * confidence.CONFIDENCE:g} %",
    )


def _subject_result(
    subject: Subject, verdict: Verdict, row: dict[str, Any], cuts: list[dict[str, Any]], failed: list[str]
) -> SubjectResult:
    """Return a subject's result from its rows of the tables of subjects and of cuts."""
    return SubjectResult(
        subject=subject,
        verdict=verdict,
        statement=_sentence(verdict.statement.removeprefix(f"{subject}: ")),
        beyond=row["beyond"],
        failed=failed,
        joules_per_durable_write=row["joules_per_durable_write"],
        hold_up_milliseconds=_span(cuts, "longest_hold_up_seconds", 1e3),
        hold_up_millijoules=_span(cuts, "hold_up_joules", 1e3),
        mount_seconds=_span(cuts, "mount_seconds", 1.0),
        repaired_to_mount=row["repaired_to_mount"],
        checked=row["checked"],
        check_complaints=row["check_complaints"],
    )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _span(cuts: list[dict[str, Any]], key: str, scale: float) -> Span | None:
    """Return the least and the greatest of a figure over the cuts that have it."""
    known = [scale * cut[key] for cut in cuts if cut[key] is not None]
    return (min(known), max(known)) if known else None


POWER_CUTS = Chapter("power_cuts", "", power_cuts)
