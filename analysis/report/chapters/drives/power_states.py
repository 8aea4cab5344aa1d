# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives declare of their power states, judged by their rails, in the report."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.drawing import Svg
from joulerig.analysis.power_states import picture
from joulerig.analysis.power_states.campaign import DriveStates
from joulerig.analysis.power_states.checks import UNITS
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter


@dataclass(frozen=True)
class PowerStatesContent:
    """The drives, and the course of a rest by setting of those that rested (`drawn`)."""

    drives: list[DriveStates]
    figure: Svg | None
    drawn: list[str]
    units = UNITS


def content(analysed: Analysed) -> PowerStatesContent | None:
    """Return what was measured of power states; None where no factor is about them."""
    found = [one for one in analysed.power_states if one.settings]
    if not found:
        return None
    shown = [one.drive for one, _ in picture.drawable(found)]
    return PowerStatesContent(found, picture.draw(found, virtual=analysed.campaign.virtual), shown)


POWER_STATES = Chapter("power_states", "Whether the drives obey: power states", content)
