# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive goes on drawing after its load, until its power is back at idle.

Write-back and garbage collection that a load leaves behind are in no joule of the workload phase.
AI to quiescence counts them: operations / (E_load + E_after - W_idle x T_after), where "after"
begins with the end of the load. W_idle is the mean power of the run's own idle phase.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import derived
from joulerig.analysis.runs.over_time import Floats, PowerOverTime
from joulerig.plural import counted

QUIET_SECONDS = 5.0  # that power must have been back at idle
DEVIATIONS = 2.0  # of idle power: how far from its mean counts as idle
# Of the steps of the quiet time that may lie outside: of a normal distribution 4.6 % do.
MOST_OUTSIDE = 0.1
FEWEST_STEPS = 10  # of the idle phase, for a standard deviation
# Of idle power. A virtual drive, or an instrument's last digit, can hold it constant: no deviation
# is taken to be less.
LEAST_DEVIATION = 0.001


class State(StrEnum):
    """Whether power came back to idle within what was recorded."""

    SETTLED = "settled"
    NOT_SETTLED = "not settled"
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class AfterLoad:
    """What a run's drives drew above idle after its load.

    `joules` above idle in `seconds` from the end of the load: until power was back at idle or,
    where it is not settled, to the end of the tail. Both are None where that is not known. `why`:
    why it is not settled, or not known.
    """

    state: State
    joules: float | None
    seconds: float | None
    why: str = ""

    def total(self, load_joules: float | None) -> float | None:
        """Return the joules of the load and of what came after.

        None where they are not known, or not above 0.
        """
        if self.joules is None or load_joules is None:
            return None
        total = load_joules + self.joules
        return total if total > 0 else None


def after_load(run: Run, idle_watts: float | None, power: PowerOverTime | None) -> AfterLoad:
    """Find what a run drew after its load, and when its power was back at idle.

    Power is at idle in a step (0.1 s, or longer where points are rare) whose mean is within 2
    standard deviations of the idle phase's steps of `idle_watts`. It is back at the first step from
    which on at least 90 % of the steps of 5 s are. A rail that was not measured leaves it unknown.

    `idle_watts`: analysis.runs.derived's figure of the run. `power`: None without power points.
    """
    if run.result is None or run.result.joules is None:
        return _unknown("no joules of the load")
    if power is None:
        return _unknown("no power points")
    if idle_watts is None:
        return _unknown("no watts of an idle phase that measured the same rails")
    idle = power.idle.watts[~np.isnan(power.idle.watts)]
    if len(idle) < FEWEST_STEPS:
        return _unknown(
            f"the idle phase has {counted(len(idle), 'step')} of power, {FEWEST_STEPS} are needed"
        )
    if not len(power.after.watts):
        return _unknown("no tail was recorded")
    deviation = max(float(idle.std(ddof=1)), LEAST_DEVIATION * idle_watts)
    off = power.after.watts - float(idle.mean())
    return _find(power.after.watts - idle_watts, off, power.after.step_seconds, DEVIATIONS * deviation)


def _find(above: Floats, off: Floats, step: float, reach: float) -> AfterLoad:
    """Find the end, by what each step is above idle, and how far off the idle phase's steps."""
    at_idle = np.abs(off) <= reach  # false where a step was not measured
    window = math.ceil(round(QUIET_SECONDS / step, 6))
    inside = np.concatenate(([0], np.cumsum(at_idle)))
    enough = inside[window:] - inside[:-window] >= math.ceil(round((1 - MOST_OUTSIDE) * window, 6))
    back = np.flatnonzero(enough & at_idle[: len(enough)])
    until = int(back[0]) if len(back) else len(above)
    joules = float(above[:until].sum()) * step
    if math.isnan(joules):
        return _unknown("a rail was not measured after the load")
    if len(back):
        return AfterLoad(State.SETTLED, joules, until * step)
    seconds = len(above) * step
    return AfterLoad(State.NOT_SETTLED, joules, seconds, _why_not(off, at_idle, step, reach))


def _why_not(off: Floats, at_idle: NDArray[np.bool_], step: float, reach: float) -> str:
    """Say why power was not back at idle for long enough when the tail ended."""
    outside = np.flatnonzero(~at_idle)
    quiet = (len(off) - 1 - outside[-1] if len(outside) else len(off)) * step
    ends = f"the tail ends {len(off) * step:.1f} s after the load"
    if quiet > 0:
        return f"{ends}, with power at idle for {quiet:.1f} s of the {QUIET_SECONDS:g} s needed"
    last = 1e3 * float(off[-1])
    return (
        f"{ends}, with power {abs(last):.3g} mW {'above' if last > 0 else 'below'} idle"
        f" (at idle within {1e3 * reach:.3g} mW)"
    )


def _unknown(why: str) -> AfterLoad:
    return AfterLoad(State.NOT_KNOWN, None, None, why)


def by_run(campaign: Campaign, over: Mapping[str, PowerOverTime]) -> dict[str, AfterLoad]:
    """Return what each run that counts drew after its load, by run."""
    found = {}
    for run in campaign.runs:
        if run.counts:
            power = over.get(run.id)
            measured = power is not None  # without, its watts while idle do not matter
            idle = derived.figure([derived.amounts(campaign, run)], "idle_watts") if measured else None
            found[run.id] = after_load(run, idle, power)
    return found
