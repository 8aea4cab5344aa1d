# SPDX-License-Identifier: GPL-3.0-or-later
"""What a meter's own errors make of an energy: a budget per rail, after the GUM (JCGM 100:2008).

Errors of a meter's gain, offset and steps stay the same over an interval, as far as anybody knows:
they are taken as constant in it, so they do not average out over samples. With P = V I and constant
errors dV and dI, to first order (JCGM 100:2008, equation 10, V and I independent) ``dE = dV *
integral of I + dI * integral of V`` for an offset, ``dE = E * dg`` for a gain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

COVERAGE_FACTOR = 2.0  # expanded uncertainty: about 95 % where no single rectangular part dominates
QUANTITIES = ("volts", "amps", "watts", "watt_hours")


@dataclass(frozen=True)
class Component:
    """One source of uncertainty.

    `standard`: in joules (of a power: watts); `share`: of the variance.
    """

    source: str
    standard: float
    share: float


@dataclass(frozen=True)
class MeterBudget:
    """A rail's budget.

    `standard` and `expanded` (k = 2) are None where `unknown` names what is missing.
    """

    components: tuple[Component, ...]
    unknown: str = ""

    @property
    def standard(self) -> float | None:
        return None if self.unknown else math.sqrt(sum(part.standard**2 for part in self.components))

    @property
    def expanded(self) -> float | None:
        return None if self.standard is None else COVERAGE_FACTOR * self.standard


def energy_uncertainty(
    *,
    joules: float,
    seconds: float,
    channels: Mapping[str, str],
    volt_seconds: float | None = None,
    amp_seconds: float | None = None,
    accuracy: Mapping[str, Mapping[str, float]] | None = None,
    calibration: Mapping[str, Any] | None = None,
    expired: bool = False,
) -> MeterBudget:
    """Compute the budget of a rail's energy over an interval.

    Parameters
    ----------
    joules, seconds : float
        Energy as measured (corrected by the calibration, where there is one), and the interval's
        length.
    channels : mapping of quantity to channel name
        The rail's channels: volts and amps, or watts, or watt_hours (a register of energy).
    volt_seconds, amp_seconds : float
        Integrals of the volts and of the amps over the interval; needed with volts and amps.
    accuracy : mapping of quantity to {gain_percent, offset, resolution}
        The meter's class from its data sheet, in SI units (watt_hours: offset and resolution in J):
        the error of a reading is at most gain_percent of it plus offset, anything within being
        equally likely, so u = limit / sqrt(3) (JCGM 100:2008, 4.3.7). A reading is one of steps of
        `resolution`: u = resolution / sqrt(12) (the same with half a step as limit). What is left
        out is 0, but a class of neither gain_percent nor offset is not stated: no meter is perfect.
    calibration : mapping
        `channels`: by channel name {gain, offset, u_gain, u_offset, cov}, corrected = gain *
        reading + offset, standard uncertainties of gain and offset and their covariance. A channel
        that is in it needs no class.
    expired : bool
        The calibration is past its date: nothing vouches that the meter has not moved since, so its
        class, where it is stated, counts as well.

    Returns
    -------
    MeterBudget
        Greatest part first.

    Notes
    -----
    With volts and amps that change their sign within the interval the integrals are smaller than
    those of the magnitudes, and so is the part of a class' offset.
    """
    kinds = [kind for kind in QUANTITIES if kind in channels]
    if kinds not in (["volts", "amps"], ["watts"], ["watt_hours"]):
        raise ValueError(f"channels: {sorted(channels)}; allowed: volts and amps, or watts, or watt_hours")
    if kinds[0] == "volts" and (volt_seconds is None or amp_seconds is None):
        return MeterBudget((), "volts and amps are not known")
    # What an offset of the quantity is multiplied with to give joules.
    weights = {"volts": amp_seconds, "amps": volt_seconds, "watts": seconds, "watt_hours": 1.0}
    parts: list[tuple[str, float]] = []
    for kind in kinds:
        weight = abs(weights[kind])
        limits = _class(accuracy, kind, seconds)
        fitted = ((calibration or {}).get("channels") or {}).get(channels[kind])
        if fitted is None and not _states_limits(limits):
            return MeterBudget((), f"meter class not stated ({kind.replace('_', '-')})")
        if fitted is not None:
            parts.append((f"{kind} calibration", _calibration(fitted, joules, weights[kind], kind)))
        if _states_limits(limits) and (fitted is None or expired):
            meter_class = class_standard(
                joules, limits.get("gain_percent", 0.0), limits.get("offset", 0.0) * weight
            )
            parts.append((f"{kind} class", meter_class))
        if limits.get("resolution"):
            # A register is read twice, at the beginning and at the end.
            readings = math.sqrt(2) if kind == "watt_hours" else 1.0
            steps = quantisation_standard(limits["resolution"] * weight)
            parts.append((f"{kind} quantisation", readings * steps))
    return MeterBudget(_shared(parts))


def class_standard(value: float, gain_percent: float, offset: float) -> float:
    """Compute the standard uncertainty by a class.

    A class gives limits, and all within them is equally likely (JCGM 100:2008, 4.3.7).
    """
    return (gain_percent / 100 * abs(value) + offset) / math.sqrt(3)


def quantisation_standard(resolution: float) -> float:
    """Compute the standard uncertainty of a reading in steps of `resolution`.

    Half a step is the limit.
    """
    return resolution / math.sqrt(12)


def line_standard(reading: float, weight: float, u_gain: float, u_offset: float, cov: float) -> float:
    """Compute the standard uncertainty of gain * reading + offset * weight.

    Source: JCGM 100:2008, equation 13.
    """
    variance = (reading * u_gain) ** 2 + (weight * u_offset) ** 2 + 2 * reading * weight * cov
    return math.sqrt(max(0.0, variance))


def combined(budgets: Sequence[MeterBudget]) -> MeterBudget:
    """Combine the budgets of energies that are summed.

    Their errors may be one and the same (one meter's rails), so errors add up.
    """
    unknown = next((budget.unknown for budget in budgets if budget.unknown), "")
    if unknown:
        return MeterBudget((), unknown)
    summed: dict[str, float] = {}
    for budget in budgets:
        for part in budget.components:
            summed[part.source] = summed.get(part.source, 0.0) + part.standard
    return MeterBudget(_shared(list(summed.items())))


def calibration_state(entry: Mapping[str, Any] | None, at_ns: int | None = None) -> str:
    """Return the state of a calibration at an instant (UTC ns): `none`, `valid` or `expired`.

    Empty where it was not recorded. A calibration holds to the end of the day it expires on.
    """
    if not entry or not entry.get("state"):
        return ""
    state = str(entry["state"])
    if state == "valid" and at_ns is not None and entry.get("expires"):
        try:
            last = date.fromisoformat(str(entry["expires"])[:10])
        except ValueError:
            return state
        if datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).date() > last:
            return "expired"
    return state


def _class(accuracy: Mapping[str, Mapping[str, float]] | None, kind: str, seconds: float) -> dict[str, float]:
    """Return the class of a quantity.

    That of an energy register follows from one of power, but for its steps.
    """
    accuracy = accuracy or {}
    found = {key: value for key, value in (accuracy.get(kind) or {}).items() if value is not None}
    if kind == "watt_hours" and not found and accuracy.get("watts"):
        power = {key: value for key, value in accuracy["watts"].items() if value is not None}
        power.pop("resolution", None)
        if "offset" in power:
            power["offset"] *= seconds
        return power
    return found


def _states_limits(limits: Mapping[str, float]) -> bool:
    return limits.get("gain_percent", 0) > 0 or limits.get("offset", 0) > 0


def _calibration(fitted: Mapping[str, float], joules: float, weight: float, kind: str) -> float:
    """Compute u of E = gain * R + offset * weight; R is what the raw readings would have given."""
    gain, offset = fitted.get("gain", 1.0), fitted.get("offset", 0.0)
    if kind == "watt_hours":  # a difference of two readings has no offset
        return abs(joules / gain) * fitted.get("u_gain", 0.0)
    raw = (joules - offset * weight) / gain
    parts = (fitted.get(key, 0.0) for key in ("u_gain", "u_offset", "cov"))
    return line_standard(raw, weight, *parts)


def _shared(parts: Sequence[tuple[str, float]]) -> tuple[Component, ...]:
    variance = sum(standard**2 for _, standard in parts)
    found = [
        Component(source, standard, standard**2 / variance if variance > 0 else 0.0)
        for source, standard in parts
    ]
    return tuple(sorted(found, key=lambda part: -part.standard))
