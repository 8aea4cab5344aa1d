# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what a drive reports with the error that it states: power, histogram, lifetime energy.

An interval of a ratio is Student's over the runs, widened by what no run averages out: the meters'
limit, and what the seconds' ends leave open. A drive is found to err only where a wider interval,
whose error is 1 % over all of its ratios together, lies outside of what it states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from joulerig.analysis.audit.rails import Compared, open_share
from joulerig.analysis.audit.readings import Counter, Histogram
from joulerig.analysis.statistics.interval import Interval, student
from joulerig.plural import counted

FALSE_ACCUSATIONS = 0.01  # of a drive that errs nowhere, over all of its ratios
JOULES_PER_WATT_HOUR = 3600
FEWEST_WATT_HOURS = 10  # with fewer, the rounding of a counter is over 10 % of them
UNSTATED_SHARE = 0.5  # of a lifetime energy: what a drive that states no error may be off by


class Verdict(StrEnum):
    """What a comparison says of a drive's report."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_STATED = "no error stated"
    NOT_REPORTED = "not reported"


@dataclass(frozen=True)
class PowerCheck:
    """A drive's power in a condition, over that of its rails.

    `ratio`: mean over the runs. `interval`: at 95 %; `certain`: the wider one by which a drive is
    found to err. Both None with a single run.
    """

    condition: str
    quantity: str
    runs: int
    watts: float
    reported_watts: float
    ratio: float
    interval: Interval | None
    certain: Interval | None
    limit: float
    open_share: float
    error_percent: float | None
    verdict: Verdict


@dataclass(frozen=True)
class HistogramCheck:
    """Whether histograms agree with the mean and the count that stand in the same logs."""

    readings: int
    contradictions: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        if not self.readings:
            return Verdict.NOT_REPORTED
        return Verdict.CONTRADICTED if self.contradictions else Verdict.HOLDS


@dataclass(frozen=True)
class Stretch:
    """A drive's lifetime energy at two instants, and the joules its rails can have given between.

    `most`: infinite where that is not known.
    """

    before: Counter
    after: Counter
    least: float
    most: float


@dataclass(frozen=True)
class LifetimeCheck:
    """A drive's counter of lifetime energy over all that was measured.

    `watt_hours`: by which it grew, without its falls; `least`, `most`: what the rails allow.
    `falls`: where it went down, each with how.
    """

    watt_hours: int
    least: float
    most: float
    falls: tuple[tuple[str, str], ...]
    error_percent: float | None
    verdict: Verdict

    @property
    def sentence(self) -> str:
        """Return by how much it grew and what its rails gave, and where it fell."""
        most = f"{self.most:.3g} Wh" if math.isfinite(self.most) else "an unknown energy"
        falls = "".join(f"; {how} in {run}" for run, how in self.falls)
        return f"grew by {self.watt_hours} Wh; its rails gave {self.least:.3g} Wh to {most}{falls}"


def power_checks(compared: Sequence[Compared]) -> list[PowerCheck]:
    """Judge the power of each quantity and condition, in the order in which they come."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in compared:
        groups.setdefault((one.reading.quantity, one.reading.condition), []).append(one)
    return [_power(group, len(groups)) for group in groups.values()]


def _power(group: Sequence[Compared], tests: int) -> PowerCheck:
    ratios = [one.ratio for one in group]
    ratio = float(np.mean(ratios))
    limit = max(one.limit for one in group)
    left_open = open_share(group)
    stated = [one.reading.error_percent for one in group if one.reading.error_percent is not None]
    error = max(stated) if stated else None
    interval = certain = None
    if len(group) > 1:
        # Relative to the rails, so that a drive that reports 0 W has an interval too.
        wider = (limit + left_open) * max(ratio, 0.0) + (left_open if ratio == 0 else 0.0)
        interval = student(ratios).widened(wider)
        certain = student(ratios, 1 - FALSE_ACCUSATIONS / tests).widened(wider)
    first = group[0].reading
    return PowerCheck(
        first.condition, first.quantity, len(group),
        float(np.mean([one.watts for one in group])),
        float(np.mean([one.reading.watts for one in group])),
        ratio, interval, certain, limit, left_open, error, _judge(interval, certain, error),
    )  # fmt: skip


def _judge(interval: Interval | None, certain: Interval | None, error: float | None) -> Verdict:
    if error is None:
        return Verdict.NOT_STATED
    if interval is None or certain is None:
        return Verdict.UNDECIDED
    low, high = 1 - error / 100, 1 + error / 100
    if certain.low > high or certain.high < low:
        return Verdict.CONTRADICTED
    return Verdict.HOLDS if low <= interval.low and interval.high <= high else Verdict.UNDECIDED


def histogram_check(compared: Sequence[Compared]) -> HistogramCheck:
    """Compare each histogram with the mean, the count and the greatest power in the same log."""
    found, readings = [], 0
    for one in compared:
        reading = one.reading
        if reading.histogram is None:
            continue
        readings += 1
        if why := _contradiction(
            reading.histogram, reading.seconds, reading.watts, reading.most_watts, reading.step_watts
        ):
            found.append(f"{reading.run}, {reading.condition}: {why}")
    return HistogramCheck(readings, tuple(found))


def _contradiction(
    histogram: Histogram, seconds: int, watts: float, most_watts: float | None, step: float
) -> str:
    total = sum(histogram.counts) + histogram.overflow
    if total != seconds:
        return f"the histogram has {counted(total, 'second')} of {seconds}"
    low = sum(c * w for c, w in zip(histogram.counts, histogram.watts, strict=True)) / total
    high = low + sum(histogram.counts) * histogram.bin_watts / total
    if histogram.overflow:
        low += histogram.overflow * (histogram.watts[-1] + histogram.bin_watts) / total
        high = math.inf
    if not low - step <= watts <= high + step:
        return f"the histogram's mean is {low:.3g} to {high:.3g} W, its own mean {watts:.3g} W"
    highest = max((n for n, count in enumerate(histogram.counts) if count), default=None)
    if most_watts is not None and highest is not None and not histogram.overflow:
        low, high = histogram.watts[highest], histogram.watts[highest] + histogram.bin_watts
        if not low - step <= most_watts <= high + step:
            return f"the histogram's greatest power is {low:.3g} to {high:.3g} W, its own {most_watts:.3g} W"
    return ""


def lifetime_check(stretches: Sequence[Stretch], error_percent: float | None) -> LifetimeCheck | None:
    """Judge a counter of whole watt-hours; None where the drive reports none at two instants.

    Between falls it may be off by its rounding, a watt-hour, and by the error that the drive
    states, or by half where it states none.
    """
    if not any(one.before.watt_hours or one.after.watt_hours for one in stretches):
        return None  # 0 is what a drive has that does not count
    falls: list[tuple[str, str]] = []
    grown, parts, least, most = 0, 1, 0.0, 0.0
    for one in stretches:
        rise = one.after.watt_hours - one.before.watt_hours
        if rise < 0:
            falls.append((one.after.run, _how_it_fell(one)))
            parts += 1
            continue
        grown += rise
        least += one.least / JOULES_PER_WATT_HOUR
        most += one.most / JOULES_PER_WATT_HOUR
    share = UNSTATED_SHARE if error_percent is None else error_percent / 100
    too_few = grown + parts < least * (1 - share)
    too_many = grown - parts > most * (1 + share)
    if falls or too_few or too_many:
        verdict = Verdict.CONTRADICTED
    elif error_percent is None:
        verdict = Verdict.NOT_STATED
    else:
        inside = least * (1 - share) <= grown - parts and grown + parts <= most * (1 + share)
        verdict = Verdict.HOLDS if inside and least >= FEWEST_WATT_HOURS else Verdict.UNDECIDED
    return LifetimeCheck(grown, least, most, tuple(falls), error_percent, verdict)


RESETS, WRAPS, FALLS = "starts over with power", "wraps around", "falls"


def _how_it_fell(one: Stretch) -> str:
    cycles = one.before.power_cycles, one.after.power_cycles
    bits = one.before.watt_hours.bit_length()
    full = 1 << bits
    could_grow = 1 + (one.most / JOULES_PER_WATT_HOUR if math.isfinite(one.most) else 1.0)
    if bits >= 8 and full - one.before.watt_hours <= could_grow and one.after.watt_hours <= could_grow:
        return f"{WRAPS} at {bits} bits"
    if None not in cycles and cycles[0] != cycles[1]:
        return RESETS
    return FALLS
