# SPDX-License-Identifier: GPL-3.0-or-later
"""Published studies that a campaign can repeat, and whether what they found holds in it."""

from __future__ import annotations

from types import ModuleType

from analysis.results import Campaign
from analysis.studies import ai_matrix, f2fs_supercap, journal_placement, mtime_interval, nvmm_fs

# By the name that a campaign's `study` gives. Each has NAME, TITLE, SOURCE and `verdicts(campaign)`.
STUDIES: dict[str, ModuleType] = {
    module.NAME: module for module in (ai_matrix, mtime_interval, f2fs_supercap, journal_placement, nvmm_fs)
}


def of_campaign(campaign: Campaign) -> ModuleType | None:
    """The study that a campaign repeats; None where it names none that is known."""
    return STUDIES.get(campaign.definition.get("study") or "")
