# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's workload phase at steps: its power, and its performance where its progress was kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from joulerig.analysis.energy.interval import DEFAULT_MAX_GAP_NS
from joulerig.analysis.results import power_points, progress, run_file
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Phase, PhaseName

LEAST_STEP_SECONDS = 0.1
POINTS_A_STEP = 3  # at least: a step's ends lie within points, whose power is then taken as even
MOST_STEPS = 120
FIFTHS = 5  # a phase is judged in as many parts as there are rounds in PTS' window
MOST_UNEVEN = 0.25  # that a step may be shorter than the others
MOST_GAP = 0.01  # of a step: with more, the mean of what is left is not the step's

WINDOWS = (1.0, 10.0)  # seconds, over which the greatest mean is looked for
WINDOW_PARTS = 100  # of a window, by which it slides; a part's ends lie within points

_NEEDED = ("time_ns", "drive", "meter", "rail", "watts")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """Mean watts of all rails together in each of some steps of equal length, NaN: not measured."""

    watts: Floats = field(default_factory=lambda: np.array([]))
    step_seconds: float = 0.0


@dataclass(frozen=True)
class GreatestMean:
    """The greatest mean of all rails together over a window. `begins`: seconds into the phase."""

    watts: float
    begins: float


@dataclass(frozen=True)
class PowerOverTime:
    """Of all rails of a run's drives together, over its workload phase.

    `watts`: mean of each step, NaN where a rail was not measured; `instants`: the steps' middles,
    seconds since the phase began. `peak_watts`: the greatest sum of what the rails' stored points
    tell for one instant, each point being the mean since the one before; None where no instant has
    all rails. `after`: from the end of the load to the end of the tail, which is longer than the
    phase `tail` by what the host does before it syncs; `fifths`: of the workload phase in `FIFTHS`
    steps. `greatest`: by the seconds of a window, of those of `WINDOWS` that the phase and its
    points allow; `spacing_seconds`: of the points. `reported`: the progress points, None without
    any.
    """

    instants: Floats
    watts: Floats
    step_seconds: float
    peak_watts: float | None
    work: WorkOverTime | None = None
    after: Steps = field(default_factory=Steps)
    fifths: Steps = field(default_factory=Steps)
    reported: pl.DataFrame | None = None
    greatest: dict[float, GreatestMean] = field(default_factory=dict)
    spacing_seconds: float = 0.0


@dataclass(frozen=True)
class WorkOverTime:
    """What the load reported of itself, at the instants at which it did.

    Operations a second, and per joule of all rails, NaN where a rail was not measured.
    """

    instants: Floats
    ops_per_second: Floats
    ops_per_joule: Floats
    step_seconds: float


def power_by_run(campaign: Campaign) -> tuple[dict[str, PowerOverTime], list[str]]:
    """Return power over time by run, of runs that have it, and which files of runs are unreadable.

    The files are given by their error messages.
    """
    found, damaged = {}, []
    for run in campaign.runs:
        try:
            if (power := read_run(run)) is not None:
                found[run.id] = power
        except (power_points.PowerFileError, run_file.RunFileError) as error:
            damaged.append(str(error))
    return found, damaged


def read_run(run: Run) -> PowerOverTime | None:
    """Return a run's power over time; None without power points or workload phase.

    From its power.csv, and progress.csv where it kept one; None also where `from_points` gives
    none. Raises power_points.PowerFileError, run_file.RunFileError.
    """
    return read(run.folder, run.phases.get(PhaseName.WORKLOAD), run.phases.get(PhaseName.TAIL))


def read(folder: Path, load: Phase | None, tail: Phase | None) -> PowerOverTime | None:
    """Return the power over time of a run of these phases, as `read_run` does."""
    frame = power_points.read(folder / "power.csv", _NEEDED) if load else None
    if frame is None or load is None:
        return None
    return from_points(frame, load, progress.read(folder), tail=tail)


def from_points(
    frame: pl.DataFrame,
    phase: Phase,
    reported: pl.DataFrame | None = None,
    *,
    tail: Phase | None = None,
) -> PowerOverTime | None:
    """Return power over time by power points; None where the phase has too few.

    `frame`: power points with time_ns, drive, meter, rail and watts. `phase`: the load's; `tail`:
    the run's, where it came to one. `reported`: progress points with
    time_ns and ops.
    """
    rails = stored_rails(frame, phase.start_ns)
    spacing = max((float(np.median(np.diff(rail.times))) for rail in rails), default=0.0)
    least = max(LEAST_STEP_SECONDS, POINTS_A_STEP * spacing)
    count = min(MOST_STEPS, int(phase.seconds / least))
    if not rails or count < 1:
        return None
    edges = np.linspace(0.0, phase.seconds, count + 1)
    watts = watts_between(rails, edges)
    work = None if reported is None else _work(rails, reported, phase)
    return PowerOverTime(
        (edges[1:] + edges[:-1]) / 2,
        watts,
        phase.seconds / count,
        _peak(rails, phase),
        work,
        _steps(rails, phase, phase.end_ns, tail.end_ns, least) if tail else Steps(),
        _fifths(rails, phase, least),
        reported,
        greatest_means(rails, phase, spacing),
        spacing,
    )


def greatest_means(rails: Sequence[Rail], load: Phase, spacing: float) -> dict[float, GreatestMean]:
    """Return the greatest mean of each of `WINDOWS`, none of which has a part without power.

    A window that is longer than the load, or shorter than ten points, has none.
    """
    found = {}
    for seconds in WINDOWS:
        part = seconds / WINDOW_PARTS
        count = int(load.seconds / part * (1 + 1e-9))
        if count < WINDOW_PARTS or spacing * 10 > seconds:
            continue
        watts = watts_between(rails, np.linspace(0.0, part * count, count + 1))
        means = np.lib.stride_tricks.sliding_window_view(watts, WINDOW_PARTS).mean(axis=1)
        if np.isnan(means).all():
            continue
        place = int(np.nanargmax(means))
        found[seconds] = GreatestMean(float(means[place]), place * part)
    return found


def _fifths(rails: Sequence[Rail], load: Phase, least: float) -> Steps:
    """Return the load in fifths; none where a fifth is shorter than `least` seconds."""
    if load.seconds < FIFTHS * least:
        return Steps()
    edges = np.linspace(0.0, load.seconds, FIFTHS + 1)
    return Steps(watts_between(rails, edges), load.seconds / FIFTHS)


def _steps(rails: Sequence[Rail], load: Phase, start_ns: int, end_ns: int, least: float) -> Steps:
    """Return an interval at steps of `least` seconds or a little more; none where it is shorter."""
    begin, end = ((at - load.start_ns) * 1e-9 for at in (start_ns, end_ns))
    count = int((end - begin) / least)
    if count < 1:
        return Steps()
    return Steps(watts_between(rails, np.linspace(begin, end, count + 1)), (end - begin) / count)


def _work(rails: Sequence[Rail], reported: pl.DataFrame, phase: Phase) -> WorkOverTime | None:
    """Return what the load did over time, by its progress points; None where they give no steps.

    Points are taken together where there are more than `MOST_STEPS`; the last one, reported when
    the load ended, is left out where it comes sooner than the others do.
    """
    reported = reported.filter(pl.col("ops").is_not_null()).unique("time_ns").sort("time_ns")
    if reported.is_empty():
        return None
    edges = np.concatenate(([0.0], (reported["time_ns"] - phase.start_ns).to_numpy() * 1e-9))
    done = np.concatenate(([0], reported["ops"].cum_sum().to_numpy())).astype(float)
    every = -(-reported.height // MOST_STEPS)
    edges, done = edges[::every], done[::every]
    if len(edges) > 2 and edges[-1] - edges[-2] < (1 - MOST_UNEVEN) * np.median(np.diff(edges)):
        edges, done = edges[:-1], done[:-1]
    lengths = np.diff(edges)
    if len(lengths) < 1 or not np.all(lengths > 0):
        return None
    joules = watts_between(rails, edges) * lengths
    per_joule = np.divide(np.diff(done), joules, out=np.full(len(lengths), np.nan), where=joules > 0)
    middles = (edges[1:] + edges[:-1]) / 2
    return WorkOverTime(middles, np.diff(done) / lengths, per_joule, float(np.median(lengths)))


@dataclass(frozen=True)
class Rail:
    """Stored points of one rail.

    `watts[k]` is the mean from `times[k]` to `times[k + 1]` (seconds since the phase began), NaN
    where nothing was measured.
    """

    times: Floats
    watts: Floats


def stored_rails(frame: pl.DataFrame, origin_ns: int) -> list[Rail]:
    """Return the rails with two points or more, times in seconds since `origin_ns`.

    A pause that is long for the rail's points counts as not measured.
    """
    found = []
    for _, rows in frame.group_by("drive", "meter", "rail", maintain_order=True):
        instants, first = np.unique(rows["time_ns"].to_numpy(), return_index=True)
        times = (instants - origin_ns) * 1e-9
        if len(times) < 2:
            continue
        lengths = np.diff(times)
        pause = max(DEFAULT_MAX_GAP_NS * 1e-9, POINTS_A_STEP * np.median(lengths))
        watts = rows["watts"].to_numpy()[first][1:].astype(float)
        found.append(Rail(times, np.where(lengths > pause, np.nan, watts)))
    return found


def watts_between(rails: Sequence[Rail], edges: Floats) -> Floats:
    """Compute the mean watts of all rails together from each edge to the next.

    That is n values for n + 1 edges; NaN where one rail was not measured for more than `MOST_GAP`
    of the step.
    """
    lengths = np.diff(edges)
    total = np.zeros(len(lengths))
    for rail in rails:
        durations = np.diff(rail.times)
        known = ~np.isnan(rail.watts)
        energy = np.diff(_counted(rail.times, np.where(known, rail.watts, 0.0) * durations, edges))
        measured = np.diff(_counted(rail.times, known * durations, edges))
        with np.errstate(invalid="ignore", divide="ignore"):
            total += np.where(measured >= (1 - MOST_GAP) * lengths, energy / measured, np.nan)
    return total


def _counted(times: Floats, amounts: Floats, at: Floats) -> Floats:
    """Return what has come together by each instant `at`, amounts spread evenly between times."""
    return np.interp(at, times, np.concatenate(([0.0], np.cumsum(amounts))))


def _peak(rails: Sequence[Rail], phase: Phase) -> float | None:
    """Return the greatest power of all rails together; None where no instant has all rails.

    Power is taken as even within each point, so its greatest value is that at the end of some
    point.
    """
    instants = np.unique(np.concatenate([rail.times[1:] for rail in rails]))
    begins = np.max([rail.times[0] for rail in rails])
    instants = instants[(instants > max(0.0, begins)) & (instants <= phase.seconds)]
    total = np.zeros(len(instants))
    for rail in rails:
        place = np.searchsorted(rail.times, instants, "left") - 1
        inside = place < len(rail.watts)
        total += np.where(inside, rail.watts[np.minimum(place, len(rail.watts) - 1)], np.nan)
    known = total[~np.isnan(total)]
    return float(known.max()) if len(known) else None
