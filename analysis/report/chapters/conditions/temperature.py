# SPDX-License-Identifier: GPL-3.0-or-later
"""How warm the drives were, and whether work per joule goes with it, in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from joulerig.analysis.compare import temperature
from joulerig.analysis.compare.temperature import Warmth
from joulerig.analysis.drawing import COLOURS, FAINT, MARKERS, Svg, canvas, to_svg
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter

_PANEL_INCHES = 1.65
_MOST_PANELS = 8  # a figure is on one page


@dataclass(frozen=True)
class TemperatureContent:
    """The comparisons whose drives report a temperature.

    `figure`: each run off its cell's mean, against its temperature, of the comparisons `drawn`, the
    surest of a relation first; None where no cell has two runs at different temperatures.
    """

    comparisons: list[Warmth]
    drawn: list[str]
    figure: Svg | None
    notable_kelvin: float = temperature.NOTABLE_KELVIN


def content(analysed: Analysed) -> TemperatureContent | None:
    """Return the temperatures by comparison; None where no drive reports any."""
    found = [one for one in analysed.warmth if one.starts]
    if not found:
        return None
    related = sorted((one for one in found if one.trend), key=lambda one: one.p or 0.0)[:_MOST_PANELS]
    figure = _figure(related, virtual=analysed.campaign.virtual) if related else None
    return TemperatureContent(found, [one.comparison.name for one in related], figure)


def _figure(found: Sequence[Warmth], *, virtual: bool) -> Svg:
    """Draw each run's quantity over the mean of its cell's, in percent, against its temperature."""
    columns = min(2, len(found))
    lines = math.ceil(len(found) / columns)
    with canvas(0.1 + _PANEL_INCHES * lines) as drawn:
        panels = drawn.subplots(lines, columns, squeeze=False).ravel()
        for axes, one in zip(panels, found, strict=False):
            _panel(axes, one)
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        return to_svg(drawn, virtual)


def _panel(axes: Axes, one: Warmth) -> None:
    starts = np.array([start for start, _ in one.residuals])
    values = np.array([residual.value for _, residual in one.residuals])
    axes.plot(
        starts,
        100 * np.expm1(values),
        linestyle="none",
        marker=MARKERS[0],
        markersize=3.4,
        markeredgewidth=0,
        color=COLOURS[0],
    )
    axes.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    if one.trend:
        ends = np.array([starts.min(), starts.max()])
        logs = one.trend.slope * (ends - starts.mean())
        axes.plot(ends, 100 * np.expm1(logs), color=COLOURS[1], linewidth=1.2)
    axes.set_title(one.comparison.name, fontsize=8.5, loc="left", pad=3)
    axes.set_xlabel("drive at the start of the run (°C)", labelpad=2)
    axes.set_ylabel("off its cell (%)")
    axes.spines[["top", "right"]].set_visible(False)


TEMPERATURE = Chapter("temperature", "Temperature of the drives", content)
