# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what is wrong with a report that the rails contradict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from joulerig.analysis.audit.checks import (
    RESETS,
    WRAPS,
    HistogramCheck,
    LifetimeCheck,
    PowerCheck,
    Verdict,
)

NO_IDLE_SHARE = 0.1  # of the idle rails: a drive that reports less leaves its idle power out
UNITS = (1e-6, 1e-3, 0.01, 0.1, 10.0, 100.0, 1e3, 1e6, 3.6, 1 / 3.6, 3600.0, 1 / 3600)
UNIT_SHARE = 0.25  # by which a report in another unit may be off besides
SAME_WATTS_SHARE = 0.002  # of a report: less is no change
LEAST_CHANGE = 1.1  # of the rails, which a report that stays alike does not follow


class Finding(StrEnum):
    """A way in which a report is wrong."""

    NONE = ""
    STUCK = "stays alike whatever the drive does"
    NO_IDLE = "leaves out what the drive draws at idle"
    UNIT = "is in another unit"
    SCALE = "is off by one factor"
    SHAPE = "is off, by no one factor"
    RESETS = "counts its lifetime energy from power on"
    WRAPS = "has a lifetime energy that wraps around"
    LIFETIME = "has a lifetime energy that the rails rule out"
    HISTOGRAM = "has a histogram that contradicts its mean"


def finding(
    powers: Sequence[PowerCheck], histogram: HistogramCheck, lifetime: LifetimeCheck | None
) -> tuple[Finding, str]:
    """Return what is wrong, and by how much; NONE where nothing is contradicted.

    Power goes first, as a wrong power makes the energy wrong too.
    """
    # Of each quantity by itself: both have the same flaw, and one of them may be too coarse.
    for quantity in dict.fromkeys(one.quantity for one in powers):
        own = [one for one in powers if one.quantity == quantity]
        if _is_stuck(own):
            return Finding.STUCK, f"at {own[0].reported_watts:.3g} W"
        if any(one.verdict == Verdict.CONTRADICTED for one in own) or _is_gross(own):
            return _of_power(own)
    if histogram.verdict == Verdict.CONTRADICTED:
        return Finding.HISTOGRAM, histogram.contradictions[0]
    if lifetime is not None and lifetime.verdict == Verdict.CONTRADICTED:
        return _of_lifetime(lifetime)
    return Finding.NONE, ""


def _is_stuck(powers: Sequence[PowerCheck]) -> bool:
    """Return whether a report stays alike while what the rails give surely changes."""
    reported = [one.reported_watts for one in powers]
    if len(powers) < 2 or max(reported) == 0:
        return False
    if max(reported) - min(reported) > SAME_WATTS_SHARE * max(reported):
        return False
    least, most = min(powers, key=lambda one: one.watts), max(powers, key=lambda one: one.watts)
    limits = 1 + least.limit + most.limit + least.open_share + most.open_share
    return most.watts > LEAST_CHANGE * limits * least.watts


def _is_gross(powers: Sequence[PowerCheck]) -> bool:
    """Return whether a report without a stated error is in another unit, or leaves idle out."""
    return _unit(powers) is not None or _leaves_idle_out(powers)


def _of_power(powers: Sequence[PowerCheck]) -> tuple[Finding, str]:
    if _leaves_idle_out(powers):
        idle = next(one for one in powers if one.condition == "idle")
        return Finding.NO_IDLE, f"{idle.reported_watts:.3g} W for {idle.watts:.3g} W"
    if (unit := _unit(powers)) is not None:
        return Finding.UNIT, f"{unit:g} times"
    known = [one.certain for one in powers if one.certain is not None]
    if max(one.low for one in known) <= min(one.high for one in known):
        middle = math.exp(sum(math.log(one.ratio) for one in powers) / len(powers))
        return Finding.SCALE, f"{100 * (middle - 1):+.1f} %"
    off = max(powers, key=lambda one: abs(one.ratio - 1))
    return Finding.SHAPE, f"{100 * (off.ratio - 1):+.1f} % in {off.condition}"


def _leaves_idle_out(powers: Sequence[PowerCheck]) -> bool:
    idle = next((one for one in powers if one.condition == "idle"), None)
    loads = [one for one in powers if one.condition != "idle"]
    if idle is None or not loads or idle.reported_watts > NO_IDLE_SHARE * idle.watts:
        return False
    # A report in another unit is as small at idle, and in its loads too.
    return any(one.reported_watts > NO_IDLE_SHARE * one.watts for one in loads)


def _unit(powers: Sequence[PowerCheck]) -> float | None:
    for unit in UNITS:
        if all(one.ratio > 0 and abs(one.ratio / unit - 1) <= UNIT_SHARE for one in powers):
            return unit
    return None


def _of_lifetime(lifetime: LifetimeCheck) -> tuple[Finding, str]:
    falls = [how for _, how in lifetime.falls]
    for how in falls:
        if how.startswith(WRAPS):
            return Finding.WRAPS, how.removeprefix(WRAPS).strip()
    if RESETS in falls:
        return Finding.RESETS, f"in {lifetime.falls[falls.index(RESETS)][0]}"
    if falls:
        return Finding.LIFETIME, f"falls in {lifetime.falls[0][0]}"
    return (
        Finding.LIFETIME,
        f"{lifetime.watt_hours} Wh, where the rails gave {lifetime.least:.3g} to {lifetime.most:.3g} Wh",
    )
