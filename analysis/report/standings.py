# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison as a figure: ranking with intervals and letters, performance against power."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulerig.analysis.drawing import COLOURS, FAINT, MARKERS, STYLE, WIDTH_INCHES, Svg, to_svg
from joulerig.analysis.report.answer import Row, combination

_ROW = 0.185  # inches a cell
_BELOW, _ABOVE = 0.42, 0.1  # inches: the axis with its name, and air
_LEAST = 2.1


def figure(cells: Sequence[Row], *, virtual: bool) -> Svg:
    """Draw the ranking of a group's cells, best first, and their performance against power.

    Left: each cell's AI with its 95 % interval, best first, numbered, with letters. Right: ops/s
    against W, the same numbers, and the Pareto front. Colour is by file system, mark by scheduler.
    """
    height = max(_LEAST, _BELOW + _ABOVE + _ROW * len(cells))
    names = [f"{combination(cell)}  {rank}" for rank, cell in enumerate(cells, start=1)]
    left = (0.12 + 0.062 * max(map(len, names))) / WIDTH_INCHES
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(WIDTH_INCHES, height))
        bottom, tall = _BELOW / height, 1 - (_BELOW + _ABOVE) / height
        _ranking(drawn.add_axes((left, bottom, 0.55 - left, tall)), cells, names)
        _front(drawn.add_axes((0.675, bottom, 0.315, tall)), cells)
        return to_svg(drawn, virtual)


def _looks(cells: Sequence[Row]) -> list[dict[str, str]]:
    """Return the colour and mark of each cell."""
    filesystems = sorted({cell["filesystem"] for cell in cells})
    schedulers = sorted({cell["scheduler"] for cell in cells})
    return [
        {
            "color": COLOURS[filesystems.index(cell["filesystem"]) % len(COLOURS)],
            "marker": MARKERS[schedulers.index(cell["scheduler"]) % len(MARKERS)],
        }
        for cell in cells
    ]


def _ranking(axes: Axes, cells: Sequence[Row], names: Sequence[str]) -> None:
    for row, (cell, look) in enumerate(zip(cells, _looks(cells), strict=True)):
        value, low = cell["ai_ops_per_joule"], cell["ai_ops_per_joule_interval_low"]
        if low is not None:
            high = cell["ai_ops_per_joule_interval_high"]
            axes.plot([low, high], [row, row], color=look["color"], linewidth=1.6, solid_capstyle="butt")
        axes.plot(value, row, **look, markersize=4.6, markeredgewidth=0)
        axes.annotate(
            cell["letters"] or "",
            (1.0, row),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_yticks(range(len(cells)), names, fontsize=8.5)
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel("AI (ops/J)", labelpad=2)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _front(axes: Axes, cells: Sequence[Row]) -> None:
    front = sorted((cell["mean_watts"], cell["ops_per_second"]) for cell in cells if cell["pareto"])
    if front:
        line = tuple(zip(*front, strict=True))
        axes.step(*line, where="post", color=FAINT, linewidth=0.9, linestyle="--", zorder=1)
    for rank, (cell, look) in enumerate(zip(cells, _looks(cells), strict=True), start=1):
        at = cell["mean_watts"], cell["ops_per_second"]
        axes.plot(*at, **look, markersize=4.6, markeredgewidth=0, zorder=2)
        # Neighbours in AI often lie close together here: their numbers go to opposite sides.
        place, side = ((-4, 3), "right") if rank % 2 else ((4, -7), "left")
        axes.annotate(str(rank), at, xytext=place, textcoords="offset points", ha=side, fontsize=7.5)
    axes.margins(0.12)
    axes.set_xlabel("mean power (W)", labelpad=2)
    axes.set_ylabel("ops/s")
    axes.spines[["top", "right"]].set_visible(False)
