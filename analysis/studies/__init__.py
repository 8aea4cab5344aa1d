# SPDX-License-Identifier: GPL-3.0-or-later
"""Published studies that a campaign can repeat, and whether what they found holds in it."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from joulerig.analysis.compare import cells
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.studies import ai_matrix, f2fs_supercap, journal_placement, mtime_interval, nvmm_fs
from joulerig.analysis.studies.claims import Verdict

# By the name that a campaign's `study` gives. Each has NAME, TITLE, SOURCE, FACTORS (those that it tells
# apart itself) and `verdicts(campaign)`.
STUDIES: dict[str, ModuleType] = {
    module.NAME: module for module in (ai_matrix, mtime_interval, f2fs_supercap, journal_placement, nvmm_fs)
}


def of_campaign(campaign: Campaign) -> ModuleType | None:
    """The study that a campaign repeats; None where it names none that is known."""
    return STUDIES.get(campaign.definition.get("study") or "")


def verdicts(campaign: Campaign) -> list[Verdict]:
    """On each claim of the campaign's study, by `apart`; none where it repeats none."""
    study = of_campaign(campaign)
    return [
        replace(one, where=f"{one.where}, {levels}" if levels else one.where)
        for levels, part in (apart(campaign) if study else ())
        for one in study.verdicts(part)
    ]


def apart(campaign: Campaign) -> list[tuple[str, Campaign]]:
    """The campaign's runs by the levels of those factors that its study knows nothing of, so that no claim
    compares runs which such a factor sets apart: "fill 0.5, kernel hz100" and the campaign with these runs
    alone. Factors of one level are not named.
    """
    study = of_campaign(campaign)
    known = study.FACTORS if study else ()
    parts = [("", campaign)]
    for factor in sorted({name for run in campaign.runs for name in run.factors} - {*known}):
        present = {_level(run.factors.get(factor)) for run in campaign.runs}
        if len(present) > 1:
            parts = [
                (", ".join(filter(None, (levels, f"{factor} {level}"))), of_it)
                for levels, part in parts
                for level in cells.levels(campaign, factor, present)
                if (of_it := _with(part, factor, level)).runs
            ]
    return parts


def _with(campaign: Campaign, factor: str, level: str) -> Campaign:
    runs = tuple(run for run in campaign.runs if _level(run.factors.get(factor)) == level)
    return replace(campaign, runs=runs)


def _level(level: object) -> str:
    return "as it is" if level is None else str(level)
