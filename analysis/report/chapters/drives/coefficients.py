# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive's idle time, bytes, requests and flushes cost, in the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from joulerig.analysis.coefficients import estimates
from joulerig.analysis.coefficients.estimates import DriveEstimates, Estimate
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter

_MOST_CELLS = 3


@dataclass(frozen=True)
class CoefficientsContent:
    """The coefficients of each drive, exported or withheld, and their meanings by name."""

    drives: list[DriveEstimates]
    meanings: dict[str, str]

    @staticmethod
    def given(drive: DriveEstimates) -> int:
        """Return how many coefficients are exported."""
        return sum(not one.withheld for one in drive.estimates)

    @staticmethod
    def shown(drive: DriveEstimates) -> list[Estimate]:
        """Return the coefficients of the drive, and of those of its cells the least."""
        given = [one for one in drive.estimates if not one.withheld]
        cells = sorted((one for one in given if one.cell), key=lambda one: one.value or 0.0)
        return [one for one in given if not one.cell] + cells[:_MOST_CELLS]

    @staticmethod
    def withheld(drive: DriveEstimates) -> dict[str, Counter[str]]:
        """Return by reason the names that are withheld, and of how many cells each."""
        found: dict[str, Counter[str]] = {}
        for one in drive.estimates:
            if one.withheld:
                found.setdefault(one.withheld, Counter())[one.name] += 1
        return found


def content(analysed: Analysed) -> CoefficientsContent | None:
    """Return the estimates; None where no drive has a coefficient that could be exported."""
    found = estimates.of_campaign(analysed.campaign, analysed.idles)
    given = any(not one.withheld for drive in found for one in drive.estimates)
    return CoefficientsContent(found, estimates.MEANINGS) if given else None


COEFFICIENTS = Chapter("coefficients", "Energy coefficients of the drives", content)
