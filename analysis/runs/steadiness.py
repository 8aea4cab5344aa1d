# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run's load was steady while it was measured, by SNIA PTS' rule on its fifths.

SNIA's rule is about the rounds before a measurement. A phase that is measured once is split into
five instead: operations per second and watts must both stay within 20 % of their mean, and their
least-squares lines within 10 % (analysis.statistics.steady_state). A verdict is given where the
noise of the series leaves it no other: a short or noisy load has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.results import progress, run_file
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import WORKED, Phase, PhaseName
from joulerig.analysis.runs.over_time import FIFTHS, Floats, PowerOverTime
from joulerig.analysis.statistics import noise, steady_state
from joulerig.analysis.statistics.steady_state import Window

OPS, WATTS = "ops", "watts"
STEADY, NOT_STEADY, NOT_JUDGED = "steady", "not steady", "not judged"
CANNOT_TELL = "cannot tell"
# A load whose phase was longer or shorter than asked for by more than this ends by itself.
SAME_LENGTH = 0.2
POINTS_A_FIFTH = 2  # reports of the load, at least: a fifth's ends lie within them
LEAST_REPORTED = 0.9  # of the phase, that its load must have reported
# In standard errors of a fifth's mean, 95 %: how far noise moves the range of five means (the
# studentized range, H. L. Harter, Annals of Mathematical Statistics 31(4), 1960, 1122-1147), and
# their line's rise from the first to the last.
RANGE_OPEN, SLOPE_OPEN = 3.858, 1.960 * 4 / math.sqrt(10)
FEWEST_FOR_MEMORY = 50  # values: fewer cannot tell noise that remembers from a level that moves


@dataclass(frozen=True)
class Steadiness:
    """Whether a load was steady.

    `verdict`: "steady", "not steady: ops", "not steady: ops, watts", "cannot tell: ops", "not
    judged". `windows`: what was judged, by series; a series without figures is not in it. `reason`:
    the figures, and why a series could not be judged. `undecided`: the series whose noise leaves
    the verdict open.
    """

    verdict: str
    windows: dict[str, Window]
    reason: str
    undecided: tuple[str, ...] = ()

    @property
    def unsteady(self) -> list[str]:
        """Return the series that are not steady."""
        judged = (name for name in self.windows if name not in self.undecided)
        return [name for name in judged if not self.windows[name].steady]

    @property
    def is_unsteady(self) -> bool:
        return bool(self.unsteady)


def ends_by_itself(took: float | None, asked: float | None) -> TypeGuard[float]:
    """Return whether a load of `took` seconds did not end when the `asked` ones were over.

    False where either is not known.
    """
    return took is not None and asked is not None and abs(took - asked) > SAME_LENGTH * asked


def judge(campaign: Campaign, run: Run, power: PowerOverTime | None) -> Steadiness | None:
    """Judge the load of a run; None where it did none.

    A load that ends by itself (a replay, a build) has done a piece of work whose parts differ by
    its nature: it is not judged. `power`: None without power points; the watts are not judged where
    no drive of the run has a rail.
    """
    phase = run.phases.get(PhaseName.WORKLOAD)
    if run.performance is None or phase is None:
        return None
    asked = meters.subtree(campaign.definition, "phases").get("workload_seconds")
    if ends_by_itself(run.performance.seconds, asked):
        return Steadiness(NOT_JUDGED, {}, f"the load ends by itself, not after {asked:g} s: its parts differ")
    ops, error, why = _reported(run, phase, power)
    series, errors = {OPS: ops}, {OPS: error}
    problems = [why] if why else []
    if not run.unmetered:
        series[WATTS], why = _measured(power)
        problems += [why] if why else []
        errors[WATTS] = error_of_fifth(power.watts) if power else 0.0
    known = {name: values for name, values in series.items() if values is not None}
    return from_fifths(known, problems, errors)


def by_run(campaign: Campaign, over: Mapping[str, PowerOverTime]) -> dict[str, Steadiness]:
    """Judge the load of each run that worked, by run."""
    found = {run.id: judge(campaign, run, over.get(run.id)) for run in campaign.runs if run.status in WORKED}
    return {run: one for run, one in found.items() if one is not None}


def from_fifths(
    series: Mapping[str, Floats], problems: Sequence[str] = (), errors: Mapping[str, float] | None = None
) -> Steadiness:
    """Judge series of five values each.

    `problems`: why others could not be judged. `errors`: by series the standard error of a value;
    0 where a series is not in it.
    """
    windows = {name: steady_state.judge_window(name, values.tolist()) for name, values in series.items()}
    errors = errors or {}
    open_ones = tuple(name for name, window in windows.items() if _is_open(window, errors.get(name, 0.0)))
    moves = {name: RANGE_OPEN * errors[name] / (windows[name].mean or 1.0) for name in open_ones}
    noise_of = (f"the noise of {name} moves its range by {100 * by:.3g} %" for name, by in moves.items())
    reason = "; ".join([*(window.reason for window in windows.values()), *noise_of, *problems])
    found = Steadiness("", windows, reason, open_ones)
    if found.unsteady:
        verdict = f"{NOT_STEADY}: {', '.join(found.unsteady)}"
    elif problems:
        verdict = NOT_JUDGED
    else:
        verdict = f"{CANNOT_TELL}: {', '.join(open_ones)}" if open_ones else STEADY
    return replace(found, verdict=verdict)


def _is_open(window: Window, error: float) -> bool:
    """Return whether noise may be why a window is steady, or is not."""
    if window.range_fraction is None or window.slope_fraction is None or not window.mean:
        return False
    in_range, in_slope = (of * error / window.mean for of in (RANGE_OPEN, SLOPE_OPEN))
    high = (window.range_fraction + in_range, window.slope_fraction + in_slope)
    low = (window.range_fraction - in_range, window.slope_fraction - in_slope)
    limits = (steady_state.RANGE_LIMIT, steady_state.SLOPE_LIMIT)
    is_steady = all(one <= limit for one, limit in zip(high, limits, strict=True))
    is_not = any(one > limit for one, limit in zip(low, limits, strict=True))
    return not is_steady and not is_not


def error_of_fifth(values: Floats) -> float:
    """Return the standard error of a fifth's mean, by the noise of a load's regular values.

    By differences of neighbours, which a level that moves is in little. Their autocorrelation is
    allowed for from `FEWEST_FOR_MEMORY` values on; 0 with fewer than ten.
    """
    if len(values) < POINTS_A_FIFTH * FIFTHS or np.isnan(values).any():
        return 0.0
    if len(values) < FEWEST_FOR_MEMORY:
        variance = float(np.var(np.diff(values), ddof=1)) / 2
    else:
        variance = noise.estimate(values).long_run_variance
    return math.sqrt(variance * FIFTHS / len(values))


def _measured(power: PowerOverTime | None) -> tuple[Floats | None, str]:
    """Return the watts of the fifths, or why there are none."""
    if power is None:
        return None, "no power points"
    if not len(power.fifths.watts):
        return None, "too few power points in a fifth"
    if np.isnan(power.fifths.watts).any():
        return None, "a rail was not measured for part of the load"
    return power.fifths.watts, ""


def _reported(run: Run, phase: Phase, power: PowerOverTime | None) -> tuple[Floats | None, float, str]:
    """Return the operations per second of the fifths and their error, or why there are none."""
    try:
        points = power.reported if power else progress.read(run.folder)
    except run_file.RunFileError as error:
        return None, 0.0, str(error)
    fifths, why = ops_in_fifths(points, phase)
    if fifths is None or points is None:
        return None, 0.0, why
    each, _ = ops_in_fifths(points, phase, points.height)
    return fifths, 0.0 if each is None else error_of_fifth(each), ""


def ops_in_fifths(
    points: pl.DataFrame | None, phase: Phase, parts: int = FIFTHS
) -> tuple[Floats | None, str]:
    """Return operations per second in fifths of what a load reported, or why there are none.

    `points`: joulerig.analysis.results.progress.read's. The last one may come a little before or
    after the end of the phase: the fifths are of the time up to it. `parts`: in place of five.
    """
    if points is None:
        return None, "the load reported no progress"
    points = points.filter(pl.col("ops").is_not_null()).unique("time_ns").sort("time_ns")
    fewest = POINTS_A_FIFTH * FIFTHS
    if points.height < fewest:
        return None, f"the load reported its progress {points.height} times, {fewest} are needed"
    times = np.concatenate(([0.0], (points["time_ns"] - phase.start_ns).to_numpy() * 1e-9))
    if times[-1] < LEAST_REPORTED * phase.seconds or not np.all(np.diff(times) > 0):
        return None, f"the load reported its progress for {times[-1]:.3g} of {phase.seconds:.3g} s"
    done = np.concatenate(([0], points["ops"].cum_sum().to_numpy())).astype(float)
    edges = np.linspace(0.0, times[-1], parts + 1)
    return np.diff(np.interp(edges, times, done)) / (times[-1] / parts), ""
