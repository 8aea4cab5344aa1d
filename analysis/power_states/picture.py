# SPDX-License-Identifier: GPL-3.0-or-later
"""The course of a drive's power through a rest, by setting: one panel a drive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from joulerig.analysis.drawing import COLOURS, FAINT, Svg, canvas, to_svg
from joulerig.analysis.power_states.campaign import DriveStates, Setting

MOST_DRIVES = 4
MOST_SETTINGS = len(COLOURS)
_PANEL_INCHES = 1.9
_SPACE = "\u202f"


def drawable(found: Sequence[DriveStates]) -> list[tuple[DriveStates, list[Setting]]]:
    """Return the drives that rested, with the settings of which a course is known."""
    rested = [(one, [setting for setting in one.settings if setting.rests]) for one in found]
    return [(one, settings[:MOST_SETTINGS]) for one, settings in rested if settings][:MOST_DRIVES]


def draw(found: Sequence[DriveStates], *, virtual: bool) -> Svg | None:
    """Draw the first drives that rested; None without any."""
    shown = drawable(found)
    if not shown:
        return None
    with canvas(0.3 + _PANEL_INCHES * len(shown)) as drawn:
        panels = drawn.subplots(len(shown), 1, squeeze=False).ravel()
        for axes, (one, settings) in zip(panels, shown, strict=True):
            _panel(axes, f"{one.host}/{one.drive}", settings)
        panels[-1].set_xlabel("time since the drive is called", labelpad=2)
        return to_svg(drawn, virtual)


def _panel(axes: Axes, title: str, settings: Sequence[Setting]) -> None:
    for colour, setting in zip(COLOURS, settings, strict=False):
        course = setting.rests[0].course
        start = -setting.rests[0].lead_seconds
        times = start + course.step_seconds * np.arange(len(course.watts))
        axes.step(times, course.watts, where="post", color=colour, linewidth=0.9, label=setting.name)
    awake = next((one.awake_watts for one in settings if one.awake_watts is not None), None)
    if awake is not None:
        axes.axhline(awake, color=FAINT, linewidth=0.9, linestyle="--", label="kept awake")
    axes.set_yscale("log")
    axes.set_title(title, fontsize=8.5, loc="left", pad=3)
    axes.yaxis.set_major_formatter(EngFormatter("W", sep=_SPACE))
    axes.yaxis.set_minor_formatter("")
    axes.xaxis.set_major_formatter(EngFormatter("s", sep=_SPACE))
    axes.legend(frameon=False, fontsize=7, loc="upper right")
    axes.spines[["top", "right"]].set_visible(False)
