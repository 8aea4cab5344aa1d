# SPDX-License-Identifier: GPL-3.0-or-later
"""The study that a campaign repeats, as the report tells it: its own figure, and a verdict on each claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from joulerig.analysis import studies
from joulerig.analysis.report.figures import COLOURS, INK, MARKERS, STYLE, WIDTH_INCHES, Svg, to_svg
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.studies import f2fs_supercap, journal_placement, mtime_interval, nvmm_fs
from joulerig.analysis.studies.claims import Verdict

_HEIGHT_INCHES = 2.9
_HATCHES = ("", "////", "....")
_MAPS = "The study's figure is the maps of AI, and Cemp, below."
_ABOVE = {"fontsize": 8, "frameon": False, "loc": "lower left", "bbox_to_anchor": (0, 1)}  # a legend, of bars


Draw = Callable[[Campaign], Svg | None]


@dataclass(frozen=True)
class Told:
    """`figures`: captions and the study's own figures, for each part of the campaign that is judged by itself
    (`studies.apart`); those alone for which runs have what they take. `elsewhere`: where they are, for a
    study that has none of its own.
    """

    study: ModuleType
    verdicts: list[Verdict]
    figures: list[tuple[str, Svg]]
    elsewhere: str


def of_campaign(campaign: Campaign) -> Told | None:
    """None where the campaign repeats no study."""
    study = studies.of_campaign(campaign)
    if study is None:
        return None
    drawn = _FIGURES.get(study.NAME, ())
    figures = [
        (f"{levels}: {caption}" if levels else caption, figure)
        for levels, part in (studies.apart(campaign) if drawn else ())
        for draw, caption in drawn
        if (figure := draw(part)) is not None
    ]
    return Told(study, studies.verdicts(campaign), figures, "" if drawn else _MAPS)


def _volume_by_rate(campaign: Campaign) -> Svg | None:
    """Written volume of a sync against syncs a second: measured points, and the model as lines."""
    found = mtime_interval.points(campaign)
    if not found:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
        axes = figure.subplots()
        rates = [point.rate for point in found]
        over = np.geomspace(min(rates) / 1.5, max(rates) * 1.5, 300)
        intervals = sorted({point.interval for point in found})
        for number, interval in enumerate(intervals):
            mine = [point for point in found if point.interval == interval]
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            parts = np.array([mtime_interval.part_with_new_mtime(interval, rate) for rate in over])
            modelled = mtime_interval.KIBIBYTES[0] + mtime_interval.KIBIBYTES[1] * parts
            axes.plot(over, modelled, color=colour, linewidth=0.9, label=f"{_interval(interval)}: model")
            axes.plot(
                [point.rate for point in mine],
                [point.kibibytes for point in mine],
                marker,
                color=colour,
                markersize=5,
                markeredgecolor=INK,
                markeredgewidth=0.4,
                label=f"{_interval(interval)}: measured",
            )
        axes.set(xscale="log", xlabel="syncs/s", ylabel="KiB written per sync", ylim=(0, None))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.legend(fontsize=8, frameon=False, ncols=2)
        return to_svg(figure, campaign.virtual)


def _interval(seconds: float) -> str:
    return "mtime never" if math.isinf(seconds) else f"mtime each {1000 * seconds:g} ms"


def _ratio_over_time(campaign: Campaign) -> Svg | None:
    """Operations a second of f2fs over those of ext4, in windows of a second, over the run."""
    drawn: list[tuple[str, np.ndarray, np.ndarray]] = []
    for where, f2fs, ext4 in f2fs_supercap.pairs(campaign):
        works = f2fs_supercap.works_of([*f2fs, *ext4])
        if of_blocks := f2fs_supercap.over_run(f2fs, ext4, works):
            windows = min(len(ratio) for _, _, ratio in of_blocks)
            ratio = np.mean([ratio[:windows] for _, _, ratio in of_blocks], axis=0)
            drawn.append((where, of_blocks[0][1][:windows], ratio))
    if not drawn:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
        axes = figure.subplots()
        for number, (where, instants, ratio) in enumerate(drawn):
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(
                instants,
                ratio,
                marker=marker,
                markersize=3.5,
                markevery=max(1, len(ratio) // 20),
                color=colour,
                linewidth=1,
                label=where,
            )
        axes.axhline(1, color=INK, linewidth=0.6, linestyle="--")
        axes.set(xlabel="seconds since the load began", ylabel="ops/s, f2fs over ext4", ylim=(0, None))
        axes.legend(fontsize=8, frameon=False)
        return to_svg(figure, campaign.virtual)


def _placements(campaign: Campaign) -> Svg | None:
    """MB/s, seeks and journal updates per MiB, J/MB by use of the journal, a bar each; runs as points."""
    bars = [
        (f"{name}\n{mine.where}", runs)
        for mine in journal_placement.placements(campaign)
        for name, runs in (
            ("A internal", mine.internal),
            *((f"B on {journal}", runs) for journal, runs in mine.external.items()),
            ("C amortised", mine.amortised),
        )
        if runs
    ]
    if not bars:
        return None
    panels = (
        ("MB/s", journal_placement.mb_per_second),
        ("seeks\nper MiB", lambda run: journal_placement.seeks_per_mib(campaign, run)),
        ("journal updates\nper MiB", journal_placement.updates_per_mib),
        ("J/MB", journal_placement.joules_per_mb),
    )
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 0.7 + 0.42 * len(bars)), layout="constrained")
        for axes, (label, value_of) in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
            for row, (_, runs) in enumerate(bars):
                values = [value for run in runs if (value := value_of(run)) is not None]
                if values:
                    axes.barh(
                        row, np.mean(values), height=0.6, color=COLOURS[4], edgecolor=INK, linewidth=0.4
                    )
                    axes.plot(values, [row] * len(values), "o", color=INK, markersize=2.5)
            axes.set(xlabel=label, xlim=(0, None))
            axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=8)
        axes.invert_yaxis()
        return to_svg(figure, campaign.virtual)


def _times(campaign: Campaign) -> Svg | None:
    """Time of an operation over that of the reference, by workload: a group of bars each."""
    times: dict[tuple[str, str], list[float]] = {}
    for run in campaign.runs:
        if (seconds := nvmm_fs.seconds_per_op(run)) is not None:
            times.setdefault((run.workload, f"{run.filesystem} on {run.drive}"), []).append(seconds)
    workloads = list(dict.fromkeys(workload for workload, _ in times))
    systems = sorted({system for _, system in times})
    if not systems:
        return None
    reference = min(systems, key=lambda system: (not system.startswith("ext4-dax"), system))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
        axes = figure.subplots()
        width = 0.8 / len(systems)
        for number, system in enumerate(systems):
            places, heights = [], []
            for place, workload in enumerate(workloads):
                mine, base = times.get((workload, system)), times.get((workload, reference))
                if mine and base:
                    places.append(place - 0.4 + (number + 0.5) * width)
                    heights.append(np.mean(mine) / np.mean(base))
            axes.bar(
                places,
                heights,
                width,
                color=COLOURS[number % len(COLOURS)],
                hatch=_HATCHES[number // len(COLOURS) % len(_HATCHES)],
                edgecolor=INK,
                linewidth=0.4,
                label=system,
            )
        axes.axhline(1, color=INK, linewidth=0.6, linestyle="--")
        axes.set(ylabel=f"time of an operation,\n{reference} = 1")
        axes.set_xticks(range(len(workloads)), workloads, fontsize=8)
        axes.legend(ncols=3, **_ABOVE)
        return to_svg(figure, campaign.virtual)


def _replays(campaign: Campaign) -> Svg | None:
    """Seconds in system calls of each replayed trace, by class: a bar each file system, means over runs."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for run in campaign.runs:
        if (told := nvmm_fs.replayed_seconds(run)) is not None:
            found.setdefault((run.workload, f"{run.filesystem} on {run.drive}"), []).append(told)
    if not found:
        return None
    bars = sorted(found)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, 0.9 + 0.3 * len(bars)), layout="constrained")
        axes = figure.subplots()
        begun = np.zeros(len(bars))
        for number, name in enumerate([*nvmm_fs.REPLAYED, "other"]):
            means = np.array([np.mean([told[name] for told in found[bar]]) for bar in bars])
            if means.any():
                axes.barh(
                    range(len(bars)),
                    means,
                    height=0.6,
                    left=begun,
                    color=COLOURS[number % len(COLOURS)],
                    edgecolor=INK,
                    linewidth=0.4,
                    label=name,
                )
            begun += means
        axes.set(xlabel="seconds in system calls, all threads", xlim=(0, None))
        axes.set_yticks(range(len(bars)), [f"{workload}\n{system}" for workload, system in bars], fontsize=8)
        axes.invert_yaxis()
        axes.legend(ncols=5, **_ABOVE)
        return to_svg(figure, campaign.virtual)


_FIGURES: dict[str, tuple[tuple[Draw, str], ...]] = {
    mtime_interval.NAME: (
        (
            _volume_by_rate,
            "What a sync writes, by how many there are in a second and how often mtime may change. Lines:"
            " KiB/sync = 4 + 12 min(1, 1 / (interval × syncs/s)), inferred from the study.",
        ),
    ),
    f2fs_supercap.NAME: (
        (
            _ratio_over_time,
            "Operations a second of f2fs over those of ext4 while the load runs; means over the blocks.",
        ),
    ),
    nvmm_fs.NAME: (
        (
            _times,
            "Normalised execution time: of an operation, by workload and file system; means over the runs.",
        ),
        (_replays, "Where the time of a replayed trace goes, by class of system call; means over the runs."),
    ),
    journal_placement.NAME: (
        (
            _placements,
            "A: journal on the disks, a commit for every write. B: journal on another drive. C: journal on"
            " the disks, a commit for many writes. Bars are means, points runs; seeks: of the data's drives.",
        ),
    ),
}
