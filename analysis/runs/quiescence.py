# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive goes on drawing after its load, until its power is back at idle.

Write-back and garbage collection that a load leaves behind are in no joule of the workload phase.
AI to quiescence counts them: operations / (E_load + E_after - W_idle x T_after), where "after"
begins with the end of the load. W_idle is what the drive draws at rest (analysis.runs.idle).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.runs.idle import NO_POINTS, NOT_FOUND, Idle
from joulerig.analysis.runs.over_time import Floats, PowerOverTime
from joulerig.analysis.statistics.interval import Interval, student
from joulerig.analysis.statistics.segments import BATCHES

QUIET_SECONDS = 5.0  # that power must have been back at idle
DEVIATIONS = 2.0  # of idle power: how far from its mean counts as idle
# Of the steps of the quiet time that may lie outside: of a normal distribution 4.6 % do.
MOST_OUTSIDE = 0.1
# Of idle power. A virtual drive, or an instrument's last digit, can hold it constant: no deviation
# is taken to be less.
LEAST_DEVIATION = 0.001
ALARM = "ALARM: "  # begins a reason that says that idle power is wrong


class State(StrEnum):
    """Whether power came back to idle within what was recorded."""

    SETTLED = "settled"
    NOT_SETTLED = "not settled"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class AfterLoad:
    """What a run's drives drew above idle after its load.

    `joules` above idle in `seconds` from the end of the load: until power was back at idle or,
    where it is not settled, to the end of the tail. Both are None where that is not known. `low` to
    `high`: within which the joules lie, by the uncertainty of idle power and what of them cannot be
    seen in it after those seconds; None where nothing bounds idle power. `why`: why it is not
    settled, or not known.
    """

    state: State
    joules: float | None
    seconds: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""

    def total(self, load_joules: float | None) -> float | None:
        """Return the joules of the load and of what came after.

        None where they are not known, or not above 0.
        """
        if self.joules is None or load_joules is None:
            return None
        total = load_joules + self.joules
        return total if total > 0 else None


def after_load(run: Run, idle: Idle, power: PowerOverTime | None) -> AfterLoad:
    """Find what a run drew after its load, and when its power was back at idle.

    Power is at idle in a step (0.1 s, or longer where points are rare) whose mean is within 2
    standard deviations of such steps at rest, and what idle power is uncertain by. It is back at
    the first step that begins 5 s of which at least 90 % of the steps are, and the mean of these is
    no further from idle power than both are uncertain. A rail that was not measured leaves it
    unknown, and so does power below idle beyond its uncertainty: then it was not at rest.

    `power`: None without power points.
    """
    if run.result is None or run.result.joules is None:
        return _unknown("no joules of the load")
    if power is None:
        return _unknown(NO_POINTS)
    if idle.watts is None:
        return _unknown(idle.why)
    after = power.after
    if not len(after.watts):
        return _unknown("no tail was recorded")
    base, step = idle.points_watts, after.step_seconds
    uncertain = max(idle.reach, LEAST_DEVIATION * base)
    reach = DEVIATIONS * max(idle.deviation(step), LEAST_DEVIATION * base) + uncertain
    above = after.watts - base
    at_idle = np.abs(above) <= reach  # false where a step was not measured
    until = _end(at_idle, step)
    if np.isnan(above[: len(above) if until is None else until]).any():
        return _unknown("a rail was not measured after the load")
    if until is None:
        why = _why_not(above, at_idle, step, reach)
    else:
        rest = _mean(above[until:]).widened(uncertain)
        why = f"it stays above idle power by {1e3 * rest.low:.3g} mW or more" if rest.low > 0 else ""
        if rest.high < 0:
            return _alarm(base, float(np.nanmean(above[until:])))
    return _found(above, len(above) if why else until or 0, step, uncertain, run, base, why)


def _end(at_idle: NDArray[np.bool_], step: float) -> int | None:
    """Return the first step after which power is at idle for long enough; None: there is none."""
    window = math.ceil(round(QUIET_SECONDS / step, 6))
    inside = np.concatenate(([0], np.cumsum(at_idle)))
    enough = inside[window:] - inside[:-window] >= math.ceil(round((1 - MOST_OUTSIDE) * window, 6))
    back = np.flatnonzero(enough & at_idle[: len(enough)])
    return int(back[0]) if len(back) else None


def _found(
    above: Floats, until: int, step: float, uncertain: float, run: Run, base: float, why: str
) -> AfterLoad:
    """Return the joules up to a step, and their interval.

    Wrong are idle power all the time, and the meters as much as in the load. What is above idle
    after that step cannot be seen, and counts as far as the mean of the steps allows it.
    """
    joules, seconds = float(above[:until].sum()) * step, until * step
    loads = [rail for rail in run.energy if rail.phase == PhaseName.WORKLOAD]
    meters = math.fsum(rail.meter_joules or 0.0 for rail in loads)
    off = uncertain * seconds + abs(joules) * meters / math.fsum(rail.joules or 0.0 for rail in loads)
    unseen = max(0.0, _mean(above[until:]).high + uncertain) * step * (len(above) - until)
    if joules + off + unseen < 0:
        return _alarm(base, joules / seconds)
    state = State.NOT_SETTLED if why else State.SETTLED
    return AfterLoad(state, joules, seconds, joules - off, joules + off + unseen, why)


def _mean(watts: Floats) -> Interval:
    """Return the interval of the mean of steps, by means of a tenth of them."""
    known = watts[~np.isnan(watts)]
    parts = [part.mean() for part in np.array_split(known, BATCHES) if len(part)]
    return student(parts) if len(parts) > 1 else Interval(*(float(sum(parts)),) * 2)


def _alarm(idle_watts: float, above: float) -> AfterLoad:
    return _unknown(
        f"{ALARM}{idle_watts + above:.3g} W after the load is less than idle power, {idle_watts:.3g} W,"
        " beyond its uncertainty: that was not at rest"
    )


def _why_not(above: Floats, at_idle: NDArray[np.bool_], step: float, reach: float) -> str:
    """Say why power was not back at idle for long enough when the tail ended."""
    outside = np.flatnonzero(~at_idle)
    quiet = (len(above) - 1 - outside[-1] if len(outside) else len(above)) * step
    ends = f"the tail ends {len(above) * step:.1f} s after the load"
    if quiet > 0:
        return f"{ends}, with power at idle for {quiet:.1f} s of the {QUIET_SECONDS:g} s needed"
    last = 1e3 * float(above[-1])
    return (
        f"{ends}, with power {abs(last):.3g} mW {'above' if last > 0 else 'below'} idle"
        f" (at idle within {1e3 * reach:.3g} mW)"
    )


def _unknown(why: str) -> AfterLoad:
    return AfterLoad(State.NOT_KNOWN, None, None, why=why)


def by_run(
    campaign: Campaign, over: Mapping[str, PowerOverTime], idles: Mapping[str, Idle]
) -> dict[str, AfterLoad]:
    """Return what each run that counts drew after its load, by run.

    `idles`: by run, of analysis.runs.idle.
    """
    return {
        run.id: after_load(run, idles.get(run.id, NOT_FOUND), over.get(run.id))
        for run in campaign.runs
        if run.counts
    }
