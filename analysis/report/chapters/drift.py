# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed from the first to the last run, and which runs are outliers, in the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from joulerig.analysis.compare import drift, outliers
from joulerig.analysis.compare.cells import AI, Comparison
from joulerig.analysis.compare.drift import Drift
from joulerig.analysis.compare.outliers import Judged, Outlier
from joulerig.analysis.drawing import COLOURS, FAINT, MARKERS, STYLE, WIDTH_INCHES, Svg, to_svg
from joulerig.analysis.report import answer
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.answer import Answer
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.tables import runs_and_cells
from joulerig.plural import counted
from joulerig.text import DASH, duration, probability, signed

_PANEL_INCHES = 1.65
_LIMIT = outliers.FAR  # modified z-score
_MOST_PANELS = 8  # a figure is on one page


@dataclass(frozen=True)
class BothWays:
    """One comparison's answer with all its runs, and without its outliers."""

    all_runs: Answer
    without: Answer


@dataclass(frozen=True)
class DriftAndOutliers:
    """What the chapter shows of drift and outliers.

    `drawn`: the comparisons in `figure`, the surest of a drift first; `figure` is None where no
    cell has two runs. `judged`: what is said where no run is an outlier. `both`: of the comparisons
    with outliers.
    """

    sentences: tuple[str, ...]
    drawn: tuple[str, ...]
    figure: Svg | None
    outliers: tuple[tuple[Comparison, Outlier], ...]
    judged: str
    both: tuple[BothWays, ...]
    limit: float = _LIMIT


def from_groups(campaign: Campaign, groups: Sequence[answer.Group]) -> DriftAndOutliers:
    compared = [group.comparison for group in groups]
    drifts = [one for one in drift.estimate_drifts(campaign, compared) if one.comparison.ranking.order]
    judged = outliers.find_outliers(campaign, compared)
    shown = sorted((one for one in drifts if one.residuals), key=_sureness)[:_MOST_PANELS]
    outlying = {outlier.run.id for one in judged for outlier in one.outliers}
    return DriftAndOutliers(
        tuple(sentence(one) for one in drifts),
        tuple(one.comparison.name for one in shown),
        figure(shown, outlying, virtual=campaign.virtual) if shown else None,
        tuple((one.comparison, outlier) for one in judged for outlier in one.outliers),
        _judged(judged),
        _both_ways(campaign, groups, judged),
    )


def _sureness(one: Drift) -> float:
    return one.trend.p if one.trend else 1.0


def sentence(one: Drift) -> str:
    """Return the drift of one comparison as a sentence.

    "nvme-plp, varmail: over 1 h 12 min AI changed by +0.3 % (95 % −0.4 to +1.0 %): no drift seen".
    """
    quantity = "AI" if one.comparison.quantity == AI else "performance"
    if one.trend is None:
        return f"{one.comparison.name}: drift cannot be judged: {one.why}."
    change, low, high = (one.change(slope) for slope in one.trend[:3])
    between = "too few runs for an interval" if low is None else f"95 % {_percent(low)} to {_percent(high)} %"
    blocks = len({residual.run.block for residual in one.residuals})
    seen = f"it drifted, or its {blocks} blocks differ" if one.seen else "no drift seen"
    return (
        f"{one.comparison.name}: over {duration(one.span_seconds)} {quantity} changed by {_percent(change)} %"
        f" ({between}; p {probability(one.trend.p, sign=True)}): {seen}."
    )


def _percent(share: float | None) -> str:
    if share is None:
        return DASH
    return signed(100 * share, 1 if abs(share) >= 0.001 else 2)


def _judged(found: Sequence[Judged]) -> str:
    """Return a sentence on which runs could be judged at all, where none is an outlier."""
    runs = sum(one.judged for one in found if one.judged >= outliers.FEWEST)
    if not runs:
        return (
            f"No run can be called an outlier: that takes cells with {outliers.FEWEST_IN_CELL} runs or more,"
            f" and {outliers.FEWEST} such runs of a drive and workload."
        )
    return f"Of {counted(runs, 'run')} in cells with {outliers.FEWEST_IN_CELL} or more, no run is an outlier."


def _both_ways(
    campaign: Campaign, groups: Sequence[answer.Group], judged: Sequence[Judged]
) -> tuple[BothWays, ...]:
    rest, compared = outliers.without(campaign, judged)
    if not compared:
        return ()
    others = answer.groups(compared, runs_and_cells.cells(rest, compared, {}, {}).to_dicts())
    return tuple(
        BothWays(answer.answer(group), answer.answer(other))
        for group, other, one in zip(groups, others, judged, strict=True)
        if one.outliers
    )


def figure(found: Sequence[Drift], far: set[str], *, virtual: bool) -> Svg:
    """Draw each run's AI over the mean of its cell's, and the drift as a line.

    AI over the mean is in percent, against the time since the first run. Outliers have another
    mark.
    """
    columns = min(2, len(found))
    lines = math.ceil(len(found) / columns)
    with mpl.rc_context(STYLE):
        drawn = Figure(figsize=(WIDTH_INCHES, 0.1 + _PANEL_INCHES * lines), layout="constrained")
        panels = np.atleast_1d(drawn.subplots(lines, columns, squeeze=False).ravel())
        for axes, one in zip(panels, found, strict=False):
            _panel(axes, one, far)
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        return to_svg(drawn, virtual)


def _panel(axes: Axes, one: Drift, far: set[str]) -> None:
    hours = one.span_seconds >= 7200
    scale = 1 / 3600 if hours else 1 / 60
    for outlier in (False, True):
        mine = [residual for residual in one.residuals if (residual.run.id in far) == outlier]
        axes.plot(
            [residual.seconds * scale for residual in mine],
            [100 * math.expm1(residual.value) for residual in mine],
            linestyle="none",
            marker=MARKERS[3] if outlier else MARKERS[0],
            markersize=4.6 if outlier else 3.4,
            markeredgewidth=0,
            color=COLOURS[1] if outlier else COLOURS[0],
        )
    axes.axhline(0, color=FAINT, linewidth=0.6, zorder=0)
    if one.trend:
        ends = np.array([0.0, one.span_seconds])
        logs = one.trend.slope * (ends - one.span_seconds / 2)
        axes.plot(ends * scale, 100 * np.expm1(logs), color=COLOURS[1], linewidth=1.2)
    axes.set_title(one.comparison.name, fontsize=8.5, loc="left", pad=3)
    axes.set_xlabel(f"{'hours' if hours else 'minutes'} since the first run", labelpad=2)
    axes.set_ylabel("off its cell (%)")
    axes.spines[["top", "right"]].set_visible(False)


def drift_and_outliers(analysed: Analysed) -> DriftAndOutliers:
    """Return what changed from the first run to the last, and which runs are outliers."""
    return from_groups(analysed.campaign, analysed.groups)


DRIFT = Chapter("drift", "Drift, and outliers", drift_and_outliers)
