# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the report's figures. No colour carries what a word or a mark does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from joulerig.analysis.drawing import COLOURS, INK, MARKERS, STYLE, WIDTH_INCHES, Svg, to_svg
from joulerig.analysis.energy.meters import EXPIRED
from joulerig.analysis.report.answer import Row, half_width
from joulerig.analysis.results.campaign import Run
from joulerig.analysis.results.schema import Phase, PhaseName, Status
from joulerig.text import number

_MOST_TRACE_POINTS = 900
_CELL_WIDTH = 0.86  # inches: two heat maps of three schedulers share a line of A4

_ABSENT = {
    Status.NOT_RUN: "not run",
    Status.REFUSED: "refused",
    Status.EXCLUDED: "excluded",
    Status.FAILED: "failed",
    Status.LOST: "host lost",
    Status.PARTIAL: "partial,\nno joules",
    Status.PLANNED: "not yet run",
    Status.RUNNING: "running",
    Status.OK: "no AI",
}


def heat_map(
    cells: Sequence[Row], filesystems: Sequence[str], schedulers: Sequence[str], *, virtual: bool
) -> Svg:
    """Draw AI in ops/J, file system x scheduler, each value printed; a cell without one says why.

    The colour scale reaches from the best down to the least, or to half of the best where the least
    is above that: a difference of a few percent must not look like one of black and white.
    """
    at = {(cell["filesystem"], cell["scheduler"]): cell for cell in cells}
    values = [cell["ai_ops_per_joule"] for cell in cells if cell["ai_ops_per_joule"] is not None]
    best = max(values, default=1.0)
    shade = Normalize(min(*values, best / 2) if values else 0.0, best)
    colours = mpl.colormaps["cividis"]
    with mpl.rc_context(STYLE):
        margin_left = 0.25 + 0.075 * max(map(len, filesystems))
        width = margin_left + _CELL_WIDTH * len(schedulers) + 0.1
        height = 0.42 + 0.46 * len(filesystems) + 0.2
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes(
            (
                margin_left / width,
                0.2 / height,
                _CELL_WIDTH * len(schedulers) / width,
                0.46 * len(filesystems) / height,
            )
        )
        for row, filesystem in enumerate(filesystems):
            for column, scheduler in enumerate(schedulers):
                _heat_cell(axes, column, row, at.get((filesystem, scheduler)), shade, colours)
        for cell in (cell for cell in cells if cell["may_be_best"]):
            corner = (schedulers.index(cell["scheduler"]), filesystems.index(cell["filesystem"]))
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=INK, linewidth=2.2, zorder=5))
        axes.set(xlim=(-0.01, len(schedulers) + 0.01), ylim=(len(filesystems) + 0.01, -0.01))
        axes.set_xticks([column + 0.5 for column in range(len(schedulers))], schedulers)
        axes.set_yticks([row + 0.5 for row in range(len(filesystems))], filesystems)
        axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return to_svg(figure, virtual)


def _heat_cell(axes: Axes, column: int, row: int, cell: Row | None, shade: Normalize, colours) -> None:
    value = cell["ai_ops_per_joule"] if cell else None
    centre = (column + 0.5, row + 0.5)
    if value is None:
        axes.add_patch(
            Rectangle(
                (column, row), 1, 1, facecolor="#f4f4f4", edgecolor="#c9c9c9", hatch="////", linewidth=0
            )
        )
        text = _ABSENT.get(cell["status"], cell["status"]) if cell else "not in plan"
        box = {"facecolor": "#f4f4f4", "edgecolor": "none", "pad": 1.5}
        axes.text(*centre, text, ha="center", va="center", fontsize=8, style="italic", bbox=box)
        return
    colour = colours(shade(value))
    axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
    luminance = 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]
    ink = "white" if luminance < 0.45 else "black"
    notes = []
    if (half := half_width(cell)) is not None:
        notes.append(f"± {number(half, 2)}")
    if cell["letters"] is not None:
        notes.append(cell["letters"])
    if cell["runs_counted"] < cell["runs_planned"]:
        notes.append(f"{cell['runs_counted']} of {cell['runs_planned']} runs")
    shift = 0.16 if notes else 0.0
    shown = number(value) + (EXPIRED if cell["calibration"] == "expired" else "")
    axes.text(centre[0], centre[1] - shift, shown, ha="center", va="center", color=ink, fontsize=10.5)
    if notes:
        axes.text(
            centre[0], centre[1] + 0.22, ", ".join(notes), ha="center", va="center", color=ink, fontsize=7.5
        )


def power_trace(points: pl.DataFrame, phases: Sequence[Phase], *, virtual: bool) -> Svg:
    """Draw the watts of each rail over a run, with the phases shaded.

    The mean is drawn as a line, the range from least to greatest sample as a band. Long runs are
    thinned for print to buckets that keep mean, least and greatest.
    """
    origin = min((phase.start_ns for phase in phases), default=int(points["time_ns"].min()))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 2.75))
        axes = figure.add_axes((0.072, 0.165, 0.917, 0.735))
        by_rail = points.group_by("drive", "meter", "rail", maintain_order=True)
        rails = [(names, rows) for names, rows in by_rail if rows["watts"].count()]
        top = 0.0
        for index, ((drive, _, rail), rows) in enumerate(rails):
            thin = _thin(rows.sort("time_ns"))
            seconds = (thin["time_ns"].to_numpy() - origin) * 1e-9
            colour = COLOURS[index % len(COLOURS)]
            name = f"{drive} {rail}" if drive else rail
            if thin["watts_min"].null_count() == 0 and thin["watts_max"].null_count() == 0:
                low, high = thin["watts_min"].to_numpy(), thin["watts_max"].to_numpy()
                axes.fill_between(seconds, low, high, color=colour, alpha=0.28, linewidth=0, zorder=2)
                top = max(top, float(high.max()))
            axes.plot(seconds, thin["watts"].to_numpy(), color=colour, linewidth=0.8, label=name, zorder=3)
            top = max(top, float(thin["watts"].max()))
        for index, phase in enumerate(phases):
            start, end = (phase.start_ns - origin) * 1e-9, (phase.end_ns - origin) * 1e-9
            shade = "#e4e9ef" if phase.phase == PhaseName.WORKLOAD else ("#f3f3f3", "#fafafa")[index % 2]
            axes.axvspan(start, end, facecolor=shade, edgecolor="#bbbbbb", linewidth=0.5, zorder=0)
        lowest = float(points["watts"].min())
        axes.set_ylim(min(0.0, 1.1 * lowest), 1.2 * top if top > 0 else 1.0)  # the legend's room
        axes.set_xlim(*_limits(points, phases, origin))
        _label_phases(axes, phases, origin)
        axes.set_xlabel("seconds since the start of the run's first phase", labelpad=3)
        axes.set_ylabel("power (W)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            loc="upper left",
            frameon=False,
            fontsize=8.5,
            handlelength=1.4,
            borderaxespad=0.2,
            ncols=len(rails),
        )
        return to_svg(figure, virtual)


def _label_phases(axes: Axes, phases: Sequence[Phase], origin: int) -> None:
    """Put names above their phases.

    A phase that has no room for its name is known by its neighbours, so it goes without.
    """
    low, high = axes.get_xlim()
    for phase in phases:
        start, end = (phase.start_ns - origin) * 1e-9, (phase.end_ns - origin) * 1e-9
        room = (min(end, high) - max(start, low)) / (high - low) * WIDTH_INCHES * 0.917
        if room > 0.062 * len(phase.phase):
            axes.annotate(
                phase.phase,
                ((start + end) / 2, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
                style="italic",
            )


def _limits(points: pl.DataFrame, phases: Sequence[Phase], origin: int) -> tuple[float, float]:
    if phases:
        return 0.0, (max(phase.end_ns for phase in phases) - origin) * 1e-9
    last = (int(points["time_ns"].max()) - origin) * 1e-9
    return 0.0, last if last > 0 else 1.0


def _thin(rows: pl.DataFrame) -> pl.DataFrame:
    per_bucket = -(-rows.height // _MOST_TRACE_POINTS)
    if per_bucket < 2:
        return rows
    return (
        rows.with_row_index("n")
        .group_by(pl.col("n") // per_bucket, maintain_order=True)
        .agg(
            pl.col("time_ns").last(),
            pl.col("watts").mean(),
            pl.col("watts_min").min(),
            pl.col("watts_max").max(),
        )
    )


def measured_against_true(runs: Sequence[Run], *, virtual: bool) -> Svg:
    """Draw the error of measured joules against the virtual drive's own, run by run.

    The joules are those of the workload phase.
    """
    drives = list(dict.fromkeys(run.drive for run in runs))
    errors = [run.result.error_percent for run in runs]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 2.15))
        axes = figure.add_axes((0.085, 0.2, 0.904, 0.74))
        axes.axhspan(-1, 1, color="#f1f1f1", linewidth=0, zorder=0)
        axes.axhline(0, color="#777777", linewidth=0.6, zorder=1)
        for index, drive in enumerate(drives):
            mine = [run for run in runs if run.drive == drive]
            axes.plot(
                [run.ordinal for run in mine],
                [run.result.error_percent for run in mine],
                linestyle="none",
                marker=MARKERS[index % len(MARKERS)],
                markersize=4.2,
                markeredgewidth=0,
                color=COLOURS[index % len(COLOURS)],
                label=drive,
                zorder=3,
            )
        reach = max(1.25, 1.15 * float(np.max(np.abs(errors))))
        axes.set_ylim(-reach, reach)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("run", labelpad=2)
        axes.set_ylabel("measured − true (%)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            loc="upper right",
            ncols=min(4, len(drives)),
            frameon=False,
            fontsize=8.5,
            handletextpad=0.1,
            borderaxespad=0,
        )
        return to_svg(figure, virtual)


def rounds(
    made: Sequence[Mapping[str, float | None]], windows: Mapping[str, Mapping[str, Any]], *, virtual: bool
) -> Svg:
    """Draw operations per second and watts of each round of a precondition.

    The verdict's windows are shaded.
    """
    shown = {"iops": "ops/s", "watts": "power (W)"}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 1.75))
        for index, (series, label) in enumerate(shown.items()):
            values = [np.nan if one.get(series) is None else one[series] for one in made]
            if np.isnan(values).all():
                continue
            axes = figure.add_axes((0.085 + 0.5 * index, 0.25, 0.4, 0.7))
            if window := windows.get(series):
                first, last = window["first"] - 0.5, window["last"] + 0.5
                axes.axvspan(first, last, color="#e2e8f0", linewidth=0, zorder=0)
            axes.plot(
                range(1, len(values) + 1),
                values,
                marker=MARKERS[index],
                markersize=4,
                linewidth=1,
                color=COLOURS[index],
            )
            axes.set(xlim=(0.5, len(values) + 0.5), ylim=(0, 1.05 * np.nanmax(values)))
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel("round", labelpad=2)
            axes.set_ylabel(label)
            axes.spines[["top", "right"]].set_visible(False)
        return to_svg(figure, virtual)
