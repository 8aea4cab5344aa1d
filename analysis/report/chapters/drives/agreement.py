# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether methods agree that read the same energies, in the report."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.agreement import picture
from joulerig.analysis.agreement.methods import TWIN, Compared
from joulerig.analysis.drawing import Svg
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter

_MOST_FIGURES = 4


@dataclass(frozen=True)
class AgreementContent:
    """Two methods on a drive each, and pictures of those without a twin, the first ones."""

    rows: list[Compared]
    figures: list[tuple[Compared, Svg]]


def content(analysed: Analysed) -> AgreementContent | None:
    """Return how methods agree; None where no drive has more than meters and a twin."""
    found = analysed.agreement
    if not found:
        return None
    drawn = [one for one in found if TWIN not in (one.one, one.other)][:_MOST_FIGURES]
    virtual = bool(analysed.campaign.virtual)
    return AgreementContent(found, [(one, picture.draw(one, virtual=virtual)) for one in drawn])


AGREEMENT = Chapter("agreement", "Whether meters and drives agree", content)
