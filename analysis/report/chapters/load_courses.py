# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed while the runs' loads ran: in words, by run, and one of them drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from joulerig.analysis.drawing import COLOURS, INK, STYLE, WIDTH_INCHES, Svg, to_svg
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Status
from joulerig.analysis.runs import series
from joulerig.analysis.runs.series import POWER, Course
from joulerig.plural import counted
from joulerig.text import number

_MOST_RUNS = 15  # listed; all of them are in series.csv


@dataclass(frozen=True)
class Row:
    """A quantity of a run whose level changed or that rises or falls."""

    run: Run
    course: Course

    @property
    def changes(self) -> str:
        """Return when the level changed, in seconds since the load began: "2.1, 5.6"."""
        return ", ".join(number(at, 3) for at in self.course.changes or ())

    @property
    def levels(self) -> str:
        return " → ".join(number(level) for level in self.course.levels)


@dataclass(frozen=True)
class LoadCourses:
    """What the chapter shows of the runs' loads.

    `rows`: those that change most first, at most `_MOST_RUNS` of `count`. `drawn`: the first of
    them.
    """

    summary: str
    rows: tuple[Row, ...]
    count: int
    drawn: Row | None
    figure: Svg | None


def from_courses(campaign: Campaign, found: Mapping[str, Sequence[Course]]) -> LoadCourses:
    rows = [Row(run, course) for run in campaign.runs for course in found.get(run.id, ())]
    powers = [row for row in rows if row.course.series.quantity == POWER]
    shown = [row for row in rows if row.course.changes or row.course.rises_or_falls]
    shown.sort(key=lambda row: (not row.course.changes, -_extent(row.course), row.run.ordinal))
    drawn = shown[0] if shown else None
    return LoadCourses(
        _summary(campaign, powers),
        tuple(shown[:_MOST_RUNS]),
        len(shown),
        drawn,
        figure(drawn.course, virtual=campaign.virtual) if drawn else None,
    )


def _extent(course: Course) -> float:
    """Return how far the power went, relative to its mean.

    That is between levels, or by its trend from begin to end.
    """
    if course.changes:
        return course.swing
    return abs(course.trend_over_load or 0.0)


def _summary(campaign: Campaign, rows: Sequence[Row]) -> str:
    """Return what the runs' power did, in words, also where there is nothing to report."""
    ended = sum(run.status == Status.OK for run in campaign.runs)
    if not rows:
        if not ended:
            return "No run is ok, so there is no power over a run to look at."
        return "No run that is ok kept its power.csv, so there is no power over a run to look at."
    judged = [row for row in rows if row.course.changes is not None]
    changed = sum(bool(row.course.changes) for row in judged)
    trended = sum(row.course.rises_or_falls for row in judged)
    are = "is" if len(judged) == 1 else "are"
    parts = [
        f"Of {counted(len(rows), 'run')} with a power trace, {len(judged)} {are} long enough to be judged"
    ]
    if judged:
        parts.append(
            f"power changes its level in {changed or 'none'} of these, and rises or falls steadily in"
            f" {trended or 'none'}"
        )
    without = ended - len(rows)
    if without:
        parts.append(f"{counted(without, 'run')} that {'is' if without == 1 else 'are'} ok kept no trace")
    return "; ".join(parts) + "."


def figure(course: Course, *, virtual: bool) -> Svg:
    """Draw a quantity at each step of a run's load, with its levels.

    What was not measured is left blank.
    """
    found = course.series
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(WIDTH_INCHES, 1.9))
        axes = drawn.add_axes((0.085, 0.225, 0.904, 0.745))
        half = found.step_seconds / 2
        edges = np.append(found.instants - half, found.instants[-1] + half)
        axes.stairs(found.values, edges, baseline=None, color=COLOURS[0], linewidth=0.9)
        ends = [edges[0], *(course.changes or ()), edges[-1]]
        if course.changes:
            for level, begin, end in zip(course.levels, ends[:-1], ends[1:], strict=True):
                axes.plot(
                    [begin, end], [level, level], color=COLOURS[1], linewidth=1.8, solid_capstyle="butt"
                )
            for at in course.changes:
                axes.axvline(at, color=COLOURS[1], linewidth=0.8, linestyle="--")
        elif course.slope is not None:
            values, middle = found.values[found.known], (edges[0] + edges[-1]) / 2
            mean, slope = float(values.mean()), course.slope * float(values.mean()) / 60
            line = [mean + slope * (at - middle) for at in (edges[0], edges[-1])]
            axes.plot([edges[0], edges[-1]], line, color=COLOURS[1], linewidth=1.6)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_xlabel("seconds since the load began", labelpad=2, color=INK)
        axes.set_ylabel("power (W)" if found.quantity == POWER else found.quantity)
        axes.spines[["top", "right"]].set_visible(False)
        return to_svg(drawn, virtual)


def load_courses(analysed: Analysed) -> LoadCourses:
    """Return how power and performance went over the runs' loads."""
    return from_courses(analysed.campaign, series.courses_by_run(analysed.campaign, analysed.over_time))


LOAD_COURSES = Chapter("load_courses", "Power and performance over the runs' loads", load_courses)
