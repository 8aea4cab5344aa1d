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
    at_ns: int | None = None,
) -> MeterBudget:
    """Compute the budget of a rail's energy over an interval.

    Parameters
    ----------
    joules, seconds : float
        Energy as measured (corrected by the calibration, where there is one), and the interval's
        length.
    channels : mapping of quantity to channel name
        The rail's channels: volts and amps, or amps alone (of volts that are stated: how far those
        can be off is in the bounds of the joules), or watts, or watt_hours (a register of energy).
    volt_seconds, amp_seconds : float
        Integrals of the volts and of the amps over the interval; needed with volts and amps.
    accuracy : mapping of quantity to {gain_percent, offset, resolution}
        The meter's class from its data sheet, in SI units (watt_hours: offset and resolution in J):
        the error of a reading is at most gain_percent of it plus offset, anything within being
        equally likely, so u = limit / sqrt(3) (JCGM 100:2008, 4.3.7). A reading is one of steps of
        `resolution`: u = resolution / sqrt(12) (the same with half a step as limit). What is left
        out is 0, but a class of neither gain_percent nor offset is not stated: no meter is perfect.
        `linearity_percent` is how much of the reading the gain can differ by between two readings.
        `stability_percent_per_year`, `temperature_ppm_per_k` over `temperature_k`, and
        `loading_percent` are limits of what a calibrated channel's gain can have done since, by
        temperature, and by the load: see `vouched`.
    calibration : mapping
        `channels`: by channel name {gain, offset, u_gain, u_offset, cov, u_reference_gain,
        u_reference_offset, reference, date}, corrected = gain * reading + offset, standard
        uncertainties of gain and offset and their covariance, what of them is the reference's, what
        that was, and the date.
    expired : bool
        The calibration is past its date: nothing vouches that the meter has not moved since, so its
        class, where it is stated, counts as well.
    at_ns : int or None
        When the interval began (UTC), from which the years since a calibration follow.

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
    if kinds not in (["volts", "amps"], ["amps"], ["watts"], ["watt_hours"]):
        raise ValueError(f"channels: {sorted(channels)}; allowed: volts and amps, or watts, or watt_hours")
    if "amps" in kinds and (volt_seconds is None or amp_seconds is None):
        return MeterBudget((), "volts and amps are not known")
    # What an offset of the quantity is multiplied with to give joules.
    weights = {"volts": amp_seconds, "amps": volt_seconds, "watts": seconds, "watt_hours": 1.0}
    parts: list[tuple[str, float]] = []
    references: list[float] = []
    of: list[str] = []
    for kind in kinds:
        limits = class_limits(accuracy, kind, seconds)
        fitted = ((calibration or {}).get("channels") or {}).get(channels[kind])
        if fitted and kind == "watt_hours":  # a difference of two readings has no offset
            fitted = {**fitted, "offset": 0.0, "u_offset": 0.0, "cov": 0.0, "u_reference_offset": 0.0}
        found, missing = vouched(joules, weights[kind], limits, fitted, expired=expired, at_ns=at_ns)
        if missing:
            return MeterBudget((), f"{missing} ({kind.replace('_', '-')})")
        if fitted and REFERENCE in found:
            references.append(found.pop(REFERENCE))
            of.append(str(fitted.get("reference") or ""))
        parts += [(f"{kind} {source}", standard) for source, standard in found.items()]
        if limits.get("resolution"):
            # A register is read twice, at the beginning and at the end.
            readings = math.sqrt(2) if kind == "watt_hours" else 1.0
            steps = quantisation_standard(limits["resolution"] * abs(weights[kind]))
            parts.append((f"{kind} quantisation", readings * steps))
    if references:
        parts.append((REFERENCE, reference_standard(references, of)))
    return MeterBudget(_shared(parts))


REFERENCE = "reference"
STEPS = "resolution"
# Limits of a calibrated channel's gain: the source's name, the key, and what makes it a fraction.
_SINCE = (
    ("drift", "stability_percent_per_year", 1e-2),
    ("temperature", "temperature_ppm_per_k", 1e-6),
    ("loading", "loading_percent", 1e-2),
)


def vouched(
    value: float,
    weight: float,
    limits: Mapping[str, float],
    fitted: Mapping[str, Any] | None,
    *,
    expired: bool = False,
    at_ns: int | None = None,
) -> tuple[dict[str, float], str]:
    """Compute the standard uncertainties of a channel's figure by what vouches for the channel.

    Parameters
    ----------
    value : float
        The figure, corrected by the calibration where there is one: a reading, or joules.
    weight : float
        What an offset of the channel is multiplied with to give an offset of the figure; 1 for a
        reading.
    limits : mapping
        The channel's entry of `accuracy` of `energy_uncertainty`; empty: not stated.
    fitted : mapping or None
        The channel's calibration, likewise.
    expired : bool
        The calibration is past its date.
    at_ns : int or None
        When the figure was measured, UTC; None: within a year of the calibration.

    Returns
    -------
    parts, missing : dict, str
        By what counts, and what is not known; parts are empty then.

        - `calibration`: of the line, without what is the reference's.
        - `reference`: of the reference. What a record without u_reference_gain has of it is not
          known: all of the line's counts as the reference's.
        - `drift`, `temperature`, `loading`: what the channel can have moved since, each anywhere
          within its limit (JCGM 100:2008, 4.3.7). Each year that has begun since the calibration
          counts whole, as drift is fastest at first.
        - `linearity`: how far a line that was fitted to the channel can miss its readings, where
          that is stated. A class has it within its gain.
        - `class`: of a channel without a calibration, of one whose calibration has expired or is of
          unknown uncertainty (two points), and of one whose drift since is not stated: a class of
          the data sheet holds for that.
    """
    known = _is_known(fitted)
    parts = {}
    if fitted is not None and known:
        gain, offset = fitted.get("gain", 1.0), fitted.get("offset", 0.0)
        # value = gain * raw + offset * weight; raw is what the raw readings would have given.
        raw = (value - offset * weight) / gain
        uncertain = [float(fitted.get(key) or 0.0) for key in ("u_gain", "u_offset", "cov")]
        line = line_standard(raw, weight, *uncertain)
        if fitted.get("u_reference_gain") is None:
            parts[REFERENCE] = line
        else:
            common = math.hypot(
                raw * gain * fitted["u_reference_gain"],
                weight * float(fitted.get("u_reference_offset") or 0.0),
            )
            parts["calibration"] = math.sqrt(max(0.0, line**2 - common**2))
            if common > 0:
                parts[REFERENCE] = common
        for source, key, _ in _SINCE:
            if limits.get(key):
                moved = _moved_since(source, limits, fitted, at_ns)
                parts[source] = moved * abs(value) / math.sqrt(3)
        if bend := _bend(limits, fitted):
            parts["linearity"] = bend * abs(value) / math.sqrt(3)
    if _class_holds(limits, fitted, expired=expired):
        parts["class"] = class_standard(
            value, limits.get("gain_percent", 0.0), limits.get("offset", 0.0) * abs(weight)
        )
    elif not known:
        return {}, "uncertainty of calibration not known" if fitted else "meter class not stated"
    elif limits.get("stability_percent_per_year") is None:
        return {}, "drift since calibration not stated"
    return parts, ""


def _bend(limits: Mapping[str, float], fitted: Mapping[str, Any] | None) -> float:
    """Return how far the gains of two readings can differ, as a fraction.

    Where it is not stated: within a class anything up to its gain's limit, and nothing on a line
    that was fitted to three points or more, whose scatter around it is in the line's uncertainty.
    """
    stated = limits.get("linearity_percent")
    if stated is None:
        stated = 0.0 if _is_known(fitted) else limits.get("gain_percent", 0.0)
    return stated / 100


def _is_known(fitted: Mapping[str, Any] | None) -> bool:
    return fitted is not None and fitted.get("u_gain") is not None


def _class_holds(limits: Mapping[str, float], fitted: Mapping[str, Any] | None, *, expired: bool) -> bool:
    """Return whether a channel's class counts: `vouched` says when it does."""
    stable = limits.get("stability_percent_per_year") is not None
    return _states_limits(limits) and (expired or not _is_known(fitted) or not stable)


@dataclass(frozen=True)
class ChannelError:
    """An error of a channel that stays the same from run to run, by its limits.

    `gain`: as a fraction of the reading; `offset`: in the channel's unit, at the gain's limit where
    it goes with it. `calibrated`: it is of the calibration, so that all that rests on this record
    has the same. `differs`: with the reading, so that it does not cancel between loads. A limit is
    twice the standard uncertainty where a calibration gives that.
    """

    source: str
    gain: float
    offset: float
    calibrated: bool = False
    differs: bool = False


def channel_errors(
    kind: str,
    limits: Mapping[str, float],
    fitted: Mapping[str, Any] | None,
    *,
    expired: bool = False,
    at_ns: int | None = None,
) -> list[ChannelError]:
    """List what can be wrong with a channel in all runs alike; of what is not known, nothing.

    Parameters are those of `vouched`; `kind` is the channel's quantity. The error of a calibration
    line has two independent parts: along its gain, and what of the offset does not follow from the
    gain (the triangular root of the covariance of both). A register of watt hours is read twice, so
    no offset of its line is in a difference of the two; the steps in which it counts are taken at
    other moments in each run, so that the spread between runs shows them.
    """
    found = []
    if fitted is not None and _is_known(fitted):
        gain, offset = fitted.get("gain", 1.0), fitted.get("offset", 0.0)
        u_gain, u_offset, cov = (float(fitted.get(key) or 0.0) for key in ("u_gain", "u_offset", "cov"))
        if kind == "watt_hours":
            offset = u_offset = cov = 0.0
        follows = cov / u_gain if u_gain > 0 else 0.0
        # With E = gain * raw + offset * weight: raw = (E - offset * weight) / gain.
        along = (u_gain / gain, follows - u_gain * offset / gain)
        across = math.sqrt(max(0.0, u_offset**2 - follows**2))
        found += [
            ChannelError("calibration's gain", COVERAGE_FACTOR * along[0], COVERAGE_FACTOR * along[1], True),
            ChannelError("calibration's offset", 0.0, COVERAGE_FACTOR * across, True),
        ]
        for source, key, _ in _SINCE:
            if limits.get(key):
                found.append(ChannelError(source, _moved_since(source, limits, fitted, at_ns), 0.0))
    if _class_holds(limits, fitted, expired=expired):
        found.append(ChannelError("class's gain", limits.get("gain_percent", 0.0) / 100, 0.0))
        found.append(ChannelError("class's offset", 0.0, limits.get("offset", 0.0)))
    found.append(ChannelError("linearity", _bend(limits, fitted), 0.0, differs=True))
    if kind != "watt_hours":
        found.append(ChannelError(STEPS, 0.0, limits.get("resolution", 0.0) / 2, differs=True))
    return [one for one in found if one.gain or one.offset]


def _moved_since(
    source: str, limits: Mapping[str, float], fitted: Mapping[str, Any], at_ns: int | None
) -> float:
    """Return how far a channel's gain can have moved since its calibration, as a fraction."""
    key, unit = next((key, unit) for name, key, unit in _SINCE if name == source)
    times = _years_begun(fitted, at_ns) if source == "drift" else 1.0
    times *= limits.get("temperature_k", 0.0) if source == "temperature" else 1.0
    return limits[key] * unit * times


def reference_standard(standards: Sequence[float], references: Sequence[str]) -> float:
    """Combine what references leave uncertain of a product's channels.

    One reference's error is common to both and adds (JCGM 100:2008, 5.2.2, correlation 1); so it is
    where a record does not say what the reference was. Different ones are independent.
    """
    if all(references) and len(set(references)) == len(references):
        return math.hypot(*standards)
    return math.fsum(standards)


def _years_begun(fitted: Mapping[str, Any], at_ns: int | None) -> float:
    """Return the years that have begun since a calibration, one at least."""
    try:
        made = date.fromisoformat(str(fitted.get("date"))[:10])
    except ValueError:
        return 1.0
    if at_ns is None:
        return 1.0
    days = (datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).date() - made).days
    return max(1.0, math.ceil(days / 365.25))


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


def class_limits(
    accuracy: Mapping[str, Mapping[str, float]] | None, kind: str, seconds: float
) -> dict[str, float]:
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


def _shared(parts: Sequence[tuple[str, float]]) -> tuple[Component, ...]:
    variance = sum(standard**2 for _, standard in parts)
    found = [
        Component(source, standard, standard**2 / variance if variance > 0 else 0.0)
        for source, standard in parts
    ]
    return tuple(sorted(found, key=lambda part: -part.standard))
