# SPDX-License-Identifier: GPL-3.0-or-later
"""Joules and wear of an operation, in one picture and a table, in the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

from joulerig.analysis.drawing import COLOURS, FAINT, MARKERS, Svg, canvas, to_svg
from joulerig.analysis.drives import endurance
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter

_PANEL_INCHES = 2.2
_MOST_ROWS = 40
_MOST_PANELS = 6  # a figure is on one page
_NOUNS = {"nand_bytes_per_op": "NAND bytes", "host_bytes_per_op": "host bytes"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class EnduranceContent:
    """Rows of the table `endurance`, and their picture: a panel a drive and workload.

    Points are numbered by the rows, from 1. `rows`: those on the front, then by joules, of `cells`
    as many as a reader looks at; `missing`: what they lack, with how many cells do. `drives`: those
    that the picture has; `left_out`: how many panels it would have had in addition.
    """

    rows: list[dict[str, Any]]
    cells: int
    missing: dict[str, int]
    figure: Svg | None
    drives: list[str]
    left_out: int
    given_rate: float = endurance.GIVEN_RATE


def content(analysed: Analysed) -> EnduranceContent | None:
    """Return joules and wear of the cells; None where no cell has both."""
    rows = endurance.table(analysed.campaign, analysed.cells).to_dicts()
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["joules_per_op"] is not None and row["host_bytes_per_op"]:
            groups.setdefault((row["drive"], row["workload"]), []).append(row)
    if not groups:
        return None
    drawn = list(groups.items())[:_MOST_PANELS]
    missing = Counter(why for row in rows for why in (row["nand_missing"], row["life_missing"]) if why)
    listed = sorted(rows, key=lambda row: (not row["pareto"], row["joules_per_op"] or math.inf))[:_MOST_ROWS]
    numbers = {row["cell"]: str(number) for number, row in enumerate(listed, 1)}
    figure = _figure(drawn, numbers, virtual=analysed.campaign.virtual)
    drives = list(dict.fromkeys(drive for (drive, _), _ in drawn))
    return EnduranceContent(listed, len(rows), dict(missing), figure, drives, len(groups) - len(drawn))


def _figure(
    groups: Sequence[tuple[tuple[str, str], Sequence[Row]]], numbers: Mapping[str, str], *, virtual: bool
) -> Svg:
    columns = min(2, len(groups))
    lines = math.ceil(len(groups) / columns)
    with canvas(0.1 + _PANEL_INCHES * lines) as drawn:
        panels = drawn.subplots(lines, columns, squeeze=False).ravel()
        for axes, (name, rows) in zip(panels, groups, strict=False):
            _panel(axes, " · ".join(name), rows, numbers)
        for axes in panels[len(groups) :]:
            axes.set_visible(False)
        return to_svg(drawn, virtual)


def _panel(axes: Axes, title: str, rows: Sequence[Row], numbers: Mapping[str, str]) -> None:
    key = endurance.wear_column(rows)
    filesystems = sorted({row["filesystem"] for row in rows})
    schedulers = sorted({row["scheduler"] for row in rows})
    front = sorted((row["joules_per_op"], row[key]) for row in rows if row["pareto"])
    if front:
        line = tuple(zip(*front, strict=True))
        axes.step(*line, where="post", color=FAINT, linewidth=0.9, linestyle="--", zorder=1)
    for row in rows:
        axes.plot(
            row["joules_per_op"],
            row[key],
            color=COLOURS[filesystems.index(row["filesystem"]) % len(COLOURS)],
            marker=MARKERS[schedulers.index(row["scheduler"]) % len(MARKERS)],
            markersize=4.6,
            markeredgewidth=0,
            linestyle="none",
        )
        axes.annotate(
            numbers.get(row["cell"], ""),
            (row["joules_per_op"], row[key]),
            xytext=(4, 2),
            textcoords="offset points",
            fontsize=6.5,
        )
    axes.margins(0.18)
    axes.set_title(title, fontsize=8.5, loc="left", pad=3)
    axes.xaxis.set_major_formatter(EngFormatter("J", sep="\u202f"))
    axes.set_xlabel("energy of an operation", labelpad=2)
    axes.set_ylabel(f"{_NOUNS[key]} an operation")
    axes.spines[["top", "right"]].set_visible(False)


ENDURANCE = Chapter("endurance", "Joules and wear of an operation", content)
