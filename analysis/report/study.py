# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's section on the study that a campaign repeats: its figures, and a verdict on each claim."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis import studies
from joulerig.analysis.drawing import Svg
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.studies.claims import Verdict
from joulerig.analysis.studies.study import Study


@dataclass(frozen=True)
class StudySection:
    """What the section shows.

    `figures`: captions and the study's own figures, for each part of the campaign that is judged separately
    (`studies.split_by_other_factors`), where its runs have what the figure needs. `elsewhere`: where the
    figures are, for a study that has none itself.
    """

    study: Study
    verdicts: list[Verdict]
    figures: list[tuple[str, Svg]]
    elsewhere: str


def section(campaign: Campaign) -> StudySection | None:
    """Return the section's content; None where the campaign repeats no study."""
    study = studies.find_study(campaign)
    if study is None:
        return None
    figures = [
        (f"{levels}: {one.caption}" if levels else one.caption, drawn)
        for levels, part in (studies.split_by_other_factors(campaign) if study.figures else ())
        for one in study.figures
        if (drawn := one.draw(part)) is not None
    ]
    return StudySection(study, studies.verdicts(campaign), figures, study.figures_elsewhere)
