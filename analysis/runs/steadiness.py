# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run's load was steady while it was measured, by SNIA PTS' rule on its fifths.

SNIA's rule is about the rounds before a measurement. A phase that is measured once is split into
five instead: operations per second and watts must both stay within 20 % of their mean, and their
least-squares lines within 10 % (analysis.statistics.steady_state).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.results import progress, run_file
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import WORKED, Phase, PhaseName
from joulerig.analysis.runs.over_time import FIFTHS, Floats, PowerOverTime
from joulerig.analysis.statistics import steady_state
from joulerig.analysis.statistics.steady_state import Window

OPS, WATTS = "ops", "watts"
STEADY, NOT_STEADY, NOT_JUDGED = "steady", "not steady", "not judged"
# A load whose phase was longer or shorter than asked for by more than this ends by itself.
SAME_LENGTH = 0.2
POINTS_A_FIFTH = 2  # reports of the load, at least: a fifth's ends lie within them
LEAST_REPORTED = 0.9  # of the phase, that its load must have reported


@dataclass(frozen=True)
class Steadiness:
    """Whether a load was steady.

    `verdict`: "steady", "not steady: ops", "not steady: ops, watts", "not judged". `windows`: what
    was judged, by series; a series without figures is not in it. `reason`: the figures, and why a
    series could not be judged.
    """

    verdict: str
    windows: dict[str, Window]
    reason: str

    @property
    def unsteady(self) -> list[str]:
        """Return the series that are not steady."""
        return [name for name, window in self.windows.items() if not window.steady]

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
    ops, why = _reported(run, phase, power)
    series = {OPS: ops}
    problems = [why] if why else []
    if not run.unmetered:
        series[WATTS], why = _measured(power)
        problems += [why] if why else []
    return from_fifths({name: values for name, values in series.items() if values is not None}, problems)


def by_run(campaign: Campaign, over: Mapping[str, PowerOverTime]) -> dict[str, Steadiness]:
    """Judge the load of each run that worked, by run."""
    found = {run.id: judge(campaign, run, over.get(run.id)) for run in campaign.runs if run.status in WORKED}
    return {run: one for run, one in found.items() if one is not None}


def from_fifths(series: dict[str, Floats], problems: Sequence[str] = ()) -> Steadiness:
    """Judge series of five values each. `problems`: why others could not be judged."""
    windows = {name: steady_state.judge_window(name, values.tolist()) for name, values in series.items()}
    reason = "; ".join([*(window.reason for window in windows.values()), *problems])
    unsteady = ", ".join(name for name, window in windows.items() if not window.steady)
    verdict = f"{NOT_STEADY}: {unsteady}" if unsteady else NOT_JUDGED if problems else STEADY
    return Steadiness(verdict, windows, reason)


def _measured(power: PowerOverTime | None) -> tuple[Floats | None, str]:
    """Return the watts of the fifths, or why there are none."""
    if power is None:
        return None, "no power points"
    if not len(power.fifths.watts):
        return None, "too few power points in a fifth"
    if np.isnan(power.fifths.watts).any():
        return None, "a rail was not measured for part of the load"
    return power.fifths.watts, ""


def _reported(run: Run, phase: Phase, power: PowerOverTime | None) -> tuple[Floats | None, str]:
    """Return the operations per second of the fifths, or why there are none."""
    try:
        points = power.reported if power else progress.read(run.folder)
    except run_file.RunFileError as error:
        return None, str(error)
    return ops_in_fifths(points, phase)


def ops_in_fifths(points: pl.DataFrame | None, phase: Phase) -> tuple[Floats | None, str]:
    """Return operations per second in fifths of what a load reported, or why there are none.

    `points`: joulerig.analysis.results.progress.read's. The last one may come a little before or
    after the end of the phase: the fifths are of the time up to it.
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
    edges = np.linspace(0.0, times[-1], FIFTHS + 1)
    return np.diff(np.interp(edges, times, done)) / (times[-1] / FIFTHS), ""
