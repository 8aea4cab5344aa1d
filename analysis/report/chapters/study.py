# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapter on the study that a campaign repeats: its figures, and a verdict on each claim."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis import studies
from joulerig.analysis.drawing import Svg
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.studies.claims import Verdict
from joulerig.analysis.studies.study import Study


@dataclass(frozen=True)
class StudyContent:
    """What the chapter shows.

    `figures`: captions and the study's own figures, for each part of the campaign that is judged
    separately (`studies.split_by_other_factors`), where its runs have what the figure needs.
    `elsewhere`: where the figures are, for a study that has none itself.
    """

    study: Study
    verdicts: list[Verdict]
    figures: list[tuple[str, Svg]]
    elsewhere: str


def study_content(analysed: Analysed) -> StudyContent | None:
    """Return the study with its verdicts and figures; None where the campaign repeats no study."""
    campaign = analysed.campaign
    study = studies.find_study(campaign)
    if study is None:
        return None
    figures = [
        (f"{levels}: {one.caption}" if levels else one.caption, drawn)
        for levels, part in (studies.split_by_other_factors(campaign) if study.figures else ())
        for one in study.figures
        if (drawn := one.draw(part)) is not None
    ]
    return StudyContent(study, studies.verdicts(campaign), figures, study.figures_elsewhere)


STUDY = Chapter("study", "", study_content)
