# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether drives that were loaded side by side disturbed each other, in the report."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.compare import cross_talk
from joulerig.analysis.compare.cross_talk import CrossTalk
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter


@dataclass(frozen=True)
class CrossTalkContent:
    """Cross-talk by drive and quantity. `controls`: how many runs were executed alone."""

    rows: list[CrossTalk]
    controls: int
    fewest_pairs: int = cross_talk.FEWEST_PAIRS


def content(analysed: Analysed) -> CrossTalkContent | None:
    """Return what the control runs say; None of a campaign without them."""
    controls = sum(run.is_control for run in analysed.campaign.runs)
    return CrossTalkContent(analysed.cross_talk, controls) if controls else None


CROSS_TALK = Chapter("cross_talk", "Drives side by side, and alone", content)
