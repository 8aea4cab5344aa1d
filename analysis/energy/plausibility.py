# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a rail's volts and amps can both be right: what one says of the other.

A supply's volts fall where its amps rise, by its resistance: volts are a second, coarse reading of
the amps. What contradicts it is wrong in one of the two. A rail whose volts do not move with the
load is judged by its mean volts alone. How far a gain is off does not show in volts and amps: for
that there is `check_standard`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.energy.interval import CounterPoints

Span = tuple[int, int]  # from, to; UTC ns

MOST_VOLTS, LEAST_VOLTS = 1.02, 0.85
"""Of a supply's declared volts, which include its tolerance: standards of drives' supplies allow
5 % either way, and a meter's class is far below 2 %."""
FEWEST_POINTS = 50
MOVED_LIMIT = 4.0
"""Variance of the volts under load over that in quiet phases: less is not by the load."""
UNEXPLAINED_LIMIT = 0.2
"""Of the variance of the volts, what the amps may leave unexplained."""
SKEW_LIMIT_SAMPLES = 0.5
SKEW_LIMIT_STANDARDS = 5.0
CLOCK_LIMIT_SECONDS = 0.05
"""Times of points are fitted: a fit that gets better moves them by milliseconds."""
EARLY_LIMIT_SECONDS = 0.1
"""Of power that rises before its load: ten times what clocks of hosts are known to."""
CLOCK_PPM = 100.0
"""Of a meter whose clock is not declared: a crystal's."""
UNSEEN_LIMIT = 0.01
"""Of the joules, what may lie between or within samples of a fast load."""
STEPS_OF_DROOP = 5.0
"""Of the meter's volts, by which a load has to move them for them to be missed."""


@dataclass(frozen=True)
class Means:
    """Volts and amps of the points of some spans, (n,) each, and the points' period in seconds."""

    volts: NDArray[np.float64]
    amps: NDArray[np.float64]
    period: float


def means(points: CounterPoints, spans: Sequence[Span]) -> Means | None:
    """Return the means of whole points within `spans`; None where they have no volts or amps."""
    if points.volts is None or points.amps is None or len(points.time_ns) < 2:
        return None
    before = np.concatenate([[points.time_ns[0]], points.time_ns[:-1]])
    inside = np.zeros(len(points.time_ns), bool)
    for start, end in spans:
        inside |= (before >= start) & (points.time_ns <= end)
    inside &= np.isfinite(points.volts) & np.isfinite(points.amps)
    period = float(np.median(np.diff(points.time_ns))) * 1e-9
    return Means(points.volts[inside], points.amps[inside], period)


def unlike_supply(load: Means, volts: float, ohms: float) -> float | None:
    """Return the supply's volts as measured, where they are not those declared; else None.

    `ohms`: the supply's resistance, 0 where it is not known.
    """
    if not len(load.volts):
        return None
    found = float(np.mean(load.volts + ohms * load.amps))
    return None if LEAST_VOLTS <= found / volts <= MOST_VOLTS else found


def unexplained(load: Means, quiet: Means) -> float | None:
    """Return which fraction of the volts' variance under load the amps do not explain.

    The variance around the line of volts over amps, less what there is of it in the quiet phases:
    noise, and other loads of the same supply. None where the volts do not move with the load, or
    points are too few.
    """
    if min(len(load.volts), len(quiet.volts)) < FEWEST_POINTS:
        return None
    moved = float(np.var(load.volts))
    # Single-precision volts are not alike to the last bit where they do not move.
    rounding = float(np.finfo(np.float32).eps * np.abs(load.volts).max()) ** 2
    if moved <= MOVED_LIMIT * max(float(np.var(quiet.volts)), rounding):
        return None
    slope = _slope(load)
    around = (float(np.var(one.volts - slope * one.amps)) for one in (load, quiet))
    return (next(around) - next(around)) / moved


@dataclass(frozen=True)
class Skew:
    """How much later amps are than volts, in seconds, and its standard uncertainty."""

    seconds: float
    standard: float


def skew(load: Means) -> Skew | None:
    """Estimate how much later the amps are than the volts; None where nothing moves.

    With volts V(t) = V0 - R I(t) and amps read late by d, V = V0 - R (I + d dI/dt) to first order
    in the amps as read: least squares on amps and their central difference (as B. D. Lucas and T.
    Kanade register images, An iterative image registration technique with an application to stereo
    vision, IJCAI 1981, equation 2).
    """
    amps = load.amps
    if len(amps) < FEWEST_POINTS or np.ptp(amps) == 0 or np.ptp(load.volts) == 0:
        return None
    rises = (amps[2:] - amps[:-2]) / (2 * load.period)
    columns = np.column_stack([np.ones(len(rises)), amps[1:-1], rises])
    volts = load.volts[1:-1]
    found, _, rank, _ = np.linalg.lstsq(columns, volts, rcond=None)
    if rank < 3 or found[1] >= 0:
        return None  # volts that rise with the amps are no supply's
    left = volts - columns @ found
    variance = float(left @ left) / (len(left) - 3) * np.linalg.inv(columns.T @ columns)[2, 2]
    return Skew(float(found[2] / found[1]), math.sqrt(variance) / abs(float(found[1])))


def is_skewed(found: Skew, sample_seconds: float) -> bool:
    """Return whether amps and volts are of different samples, and not by chance."""
    late = abs(found.seconds)
    return late >= SKEW_LIMIT_SAMPLES * sample_seconds and late > SKEW_LIMIT_STANDARDS * found.standard


def volts_stand_still(load: Means, ohms: float, volts_step: float) -> bool:
    """Return whether the volts never change, though the amps make them by several steps."""
    if len(load.volts) < FEWEST_POINTS or np.ptp(load.volts) > 0:
        return False
    return bool(ohms * np.ptp(load.amps) > STEPS_OF_DROOP * volts_step > 0)


def clock_moved(points: CounterPoints, span: Span, rate_hz: float, clock_ppm: float) -> float:
    """Return how much less time the points' clock counted than the meter's samples, in seconds.

    0 where they agree within what the two clocks may differ by (`clock_ppm`), and where a session
    ends within the span. A clock that is set back while a meter measures makes it positive.
    """
    inside = (points.time_ns >= span[0]) & (points.time_ns <= span[1])
    if points.expected is None or np.count_nonzero(inside) < 2 or len(set(points.session[inside])) > 1:
        return 0.0
    clock = float(np.ptp(points.time_ns[inside])) * 1e-9
    samples = float(np.ptp(points.expected[inside])) / rate_hz
    moved = samples - clock
    return moved if abs(moved) > CLOCK_LIMIT_SECONDS + 1e-6 * clock_ppm * clock else 0.0


def rises_early(points: CounterPoints, load: Span, quiet: Span) -> float:
    """Return for how many seconds before the load the rail drew as under load; else 0.

    Its power rises where the sum of power less the middle of two levels, taken back from the load's
    beginning, is greatest (E. S. Page, Biometrika 41, 1954): the levels of the first half of the
    quiet phase, and of the load. Nothing but a wrong time makes power rise in the quiet phase.
    Between that and the load its program starts, which reads files of the drive.
    """
    middle = (quiet[0] + quiet[1]) // 2
    low, high = _mean_watts(points, (quiet[0], middle)), _mean_watts(points, load)
    before = (points.time_ns > middle) & (points.time_ns <= load[0])
    if low is None or high is None or np.count_nonzero(before) < 2 or high < 2 * low:
        return 0.0
    back = (load[0] - points.time_ns[before][::-1]) * 1e-9
    joules = points.joules[before][::-1]
    above = joules[0] - joules - (low + high) / 2 * (back - back[0])
    early = float(back[np.argmax(above)])
    starting = (load[0] - quiet[1]) * 1e-9
    return early if early >= starting + EARLY_LIMIT_SECONDS else 0.0


def describe(
    points: CounterPoints,
    load: Span,
    quiet: Sequence[Span],
    *,
    sample_rate_hz: float,
    clock_ppm: float = CLOCK_PPM,
    supply_volts: float | None = None,
    supply_ohms: float | None = None,
    volts_step: float | None = None,
) -> list[str]:
    """Return what contradicts itself in a rail's points, in words; empty where nothing does.

    Parameters
    ----------
    load, quiet : spans
        The workload phase, and phases in which the drive is idle.
    sample_rate_hz, clock_ppm : float
        Of a meter that samples volts and amps together, and how far its clock may be off.
    supply_volts, supply_ohms : float or None
        Of the rail's supply, as declared.
    volts_step : float or None
        The meter's resolution of volts.
    """
    found = []
    first, last = min(start for start, _ in [load, *quiet]), max(end for _, end in [load, *quiet])
    if moved := clock_moved(points, (first, last), sample_rate_hz, clock_ppm):
        found.append(
            f"the controller's clock was set {'back' if moved > 0 else 'forward'} by about {abs(moved):.2g} s"
        )
    before = max((span for span in quiet if span[1] <= load[0]), default=None)
    if before and (early := rises_early(points, load, before)):
        found.append(
            f"its power rises {early:.2g} s before the load begins: the host's clock, or the meter's, is off"
        )
    under_load, at_rest = means(points, [load]), means(points, quiet)
    if under_load is None or at_rest is None:
        return found
    if supply_volts and (volts := unlike_supply(under_load, supply_volts, supply_ohms or 0.0)) is not None:
        found.append(
            f"its supply is at {volts:.3g} V, and is declared as {supply_volts:g} V:"
            " another rail's channels, or wrong volts"
        )
    if (late := skew(under_load)) and is_skewed(late, 1 / sample_rate_hz):
        found.append(
            f"its amps are {1e3 * abs(late.seconds):.2g} ms {'later' if late.seconds > 0 else 'earlier'}"
            " than its volts"
        )
    elif (left := unexplained(under_load, at_rest)) and left > UNEXPLAINED_LIMIT:
        found.append(
            f"its amps do not explain {100 * left:.0f} % of how its volts move under load:"
            " wrong amps, or another load on its supply"
        )
    if supply_ohms and volts_step and volts_stand_still(under_load, supply_ohms, volts_step):
        found.append("its volts stand still, whatever its amps do")
    return found


def faster_than_samples(
    ops: int, seconds: float, sample_rate_hz: float, joules: float, unseen_joules: float
) -> str:
    """Describe a load that may change between or within samples, where that matters; "" where not.

    A load of fewer operations than half of the samples is resolved by them (the sampling theorem).
    One of more may change alike within each, and no sample shows it. `unseen_joules`: how far the
    joules can be off by what no sample shows.
    """
    if ops / seconds <= sample_rate_hz / 2 or unseen_joules <= UNSEEN_LIMIT * joules:
        return ""
    return (
        f"{ops / seconds:.0f} operations per second are faster than {sample_rate_hz:g} samples per second:"
        f" {100 * unseen_joules / joules:.1f} % of the joules are bounded by its supply alone"
    )


def _mean_watts(points: CounterPoints, span: Span) -> float | None:
    """Return the mean power from the first to the last point within `span`; None without two."""
    inside = np.flatnonzero((points.time_ns >= span[0]) & (points.time_ns <= span[1]))
    if len(inside) < 2:
        return None
    first, last = inside[0], inside[-1]
    seconds = float(points.time_ns[last] - points.time_ns[first]) * 1e-9
    return float(points.joules[last] - points.joules[first]) / seconds


def _slope(load: Means) -> float:
    """Return the slope of volts over amps by least squares; 0 where the amps do not move."""
    amps = load.amps - load.amps.mean()
    spread = float(amps @ amps)
    return float(amps @ load.volts) / spread if spread > 0 else 0.0
