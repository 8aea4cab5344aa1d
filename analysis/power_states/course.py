# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the rests of a drive in its power over time: when it goes to rest, and what a rest costs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.runs.over_time import Floats, Steps

FEWEST_RESTS = 3
LEAST_DEPTH = 0.1  # of the power awake: less is no rest
CERTAIN = 16.0  # standard deviations of noise that a rest is deep: none passes a threshold by chance
SMOOTHED = (1, 2, 4, 8, 16, 32, 64)  # steps
ENTERED, LEFT = 0.35, 0.65  # of the way from the power at rest to that awake
SHORTEST = 3  # steps of a rest
_DEEP = 0.2  # of a rest: its end, by when a drive is in its deepest state
_LOW = 0.02  # of the steps lie below what is taken for the power at rest
_BEFORE = 0.1  # of a cycle that a course shows before the drive is woken
_LONGEST_COURSE = 4000  # steps


@dataclass(frozen=True)
class Rests:
    """What the rests of one load have in common. A cycle is from one wake to the next.

    `count`: of the rests. `rest_seconds`, `awake_seconds`: means of a cycle's two parts.
    `resolution_seconds`: what either may be off by. `rest_watts`: at the end of rests.
    `cycle_joules`: mean. `course`: the mean power of all cycles, which begins `lead_seconds` before
    the wake.
    """

    count: int
    rest_seconds: float
    awake_seconds: float
    resolution_seconds: float
    rest_watts: float
    cycle_joules: float
    course: Steps
    lead_seconds: float

    @property
    def cycle_seconds(self) -> float:
        return self.rest_seconds + self.awake_seconds


def find(power: Steps, awake_watts: float) -> Rests | None:
    """Find rests in a load's power. `awake_watts`: what the drive draws where it never rests.

    None where it does not rest, or fewer than `FEWEST_RESTS` times, or where what a rest saves is
    lost in the meter's noise. Steps that were not measured end a cycle, which then does not count.
    """
    watts = power.watts
    known = ~np.isnan(watts)
    if known.sum() < FEWEST_RESTS * SHORTEST:
        return None
    low = _low(np.where(known, watts, np.inf), awake_watts, _noise(watts[known]))
    if low is None:
        return None
    smooth, rest, steps = low
    begins, ends = _stretches(_levels(smooth, rest, awake_watts))
    ends = ends[ends < len(watts)]
    ends = ends[np.isfinite(smooth[ends])]  # wakes: what ends for want of samples is none
    cycles = [
        (wake, _between(begins, wake, after), after)
        for wake, after in itertools.pairwise(ends)
        if known[wake:after].all()
    ]
    whole = [(wake, down, after) for wake, down, after in cycles if down is not None]
    if len(whole) < FEWEST_RESTS:
        return None
    step = power.step_seconds
    deep = [watts[after - max(1, int(_DEEP * (after - down))) : after].mean() for _, down, after in whole]
    return Rests(
        len(whole),
        float(np.mean([after - down for _, down, after in whole])) * step,
        float(np.mean([down - wake for wake, down, _ in whole])) * step,
        step * (1 + steps),
        float(np.mean(deep)),
        float(np.mean([watts[wake:after].sum() for wake, _, after in whole])) * step,
        *_course(power, [wake for wake, _, _ in whole], min(after - wake for wake, _, after in whole)),
    )


def _noise(watts: Floats) -> float:
    """Return the standard deviation of a step's noise, by what follows each other."""
    return float(np.median(np.abs(np.diff(watts)))) * 1.4826 / math.sqrt(2)


def _low(watts: Floats, awake: float, noise: float) -> tuple[Floats, float, int] | None:
    """Return power as smooth as noise asks for, the level of rests, and the steps of a mean.

    None where there are no rests.
    """
    for steps in SMOOTHED:
        smooth = np.convolve(watts, np.full(steps, 1 / steps), "same") if steps > 1 else watts
        rest = float(np.quantile(smooth[np.isfinite(smooth)], _LOW)) if np.isfinite(smooth).any() else awake
        depth = awake - rest
        if depth < LEAST_DEPTH * awake:
            return None
        if depth >= CERTAIN * noise / math.sqrt(steps):
            return smooth, rest, steps
    return None


def _levels(watts: Floats, rest: float, awake: float) -> NDArray[np.bool_]:
    """Return whether the drive rests in each step; between both thresholds as in the one before."""
    enters, leaves = (rest + part * (awake - rest) for part in (ENTERED, LEFT))
    state = np.where(watts < enters, 1, np.where(watts > leaves, 0, -1))
    place = np.where(state >= 0, np.arange(len(state)), 0)
    np.maximum.accumulate(place, out=place)
    resting: NDArray[np.bool_] = state[place] == 1
    return resting


def _stretches(is_low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where rests begin and end (one after the last step); too short ones are none."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_low.astype(int), [0]))))
    begins, ends = edges[::2], edges[1::2]
    long = ends - begins >= SHORTEST
    return begins[long], ends[long]


def _between(places: np.ndarray, first: int, last: int) -> int | None:
    """Return the place that lies from `first` to `last`; None without one."""
    found = places[(places >= first) & (places < last)]
    return int(found[0]) if len(found) else None


def _course(power: Steps, wakes: list[int], length: int) -> tuple[Steps, float]:
    """Return the mean power around wakes, and the seconds before them that it has."""
    lead = min(int(_BEFORE * length), wakes[0])
    parts = [power.watts[wake - lead : wake - lead + length] for wake in wakes]
    mean = np.mean([part for part in parts if not np.isnan(part).any()], axis=0)
    every = -(-length // _LONGEST_COURSE)
    mean = mean[: len(mean) // every * every].reshape(-1, every).mean(axis=1)
    return Steps(mean, power.step_seconds * every), lead * power.step_seconds
