# SPDX-License-Identifier: GPL-3.0-or-later
"""Calibrations of meters: `calibration/<meter>.yml` next to the inventory, a record per channel.

A record says how far an instrument's channel reads wrong, corrected = gain * reading + offset, how
well that is known, from what, and until when it holds. It belongs to one instrument: another one is
not corrected by it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from joulerig.rig.common.errors import Strict
from joulerig.rig.common.numbers import Real
from joulerig.rig.lab.meters import kept
from joulerig.rig.lab.model import Lab, Meter

# A meter this far off is broken or was wired to another point than the reference.
LEAST_GAIN, MOST_GAIN = 0.5, 2.0

State = Literal["none", "valid", "expired"]


class Instrument(Strict):
    """The instrument's reported identity; `serial` is "" where libsigrok's driver reports none."""

    driver: str
    vendor: str = ""
    model: str = ""
    version: str = ""
    serial: str = ""

    @classmethod
    def reported_by(cls, meter: Meter, reported: Mapping[str, Any]) -> Instrument:
        """Return who a meter is by what it reported, its serial else by the inventory."""
        known = {key: str(reported.get(key) or "") for key in ("vendor", "model", "version", "serial")}
        return cls(driver=meter.driver, **{**known, "serial": known["serial"] or meter.serial or ""})


class Point(Strict):
    """A reference value and the meter's uncorrected reading, both in `unit` of the record."""

    reference: Real
    reading: Real
    residual: Real
    reading_uncertainty: Real | None = None


class Record(Strict):
    """One calibration of one channel. Uncertainties are standard ones (k = 1); None: not known."""

    instrument: Instrument
    quantity: Literal["volts", "amps", "watts"]
    date: datetime.date
    expires: datetime.date
    gain: Annotated[float, Field(ge=LEAST_GAIN, le=MOST_GAIN)]
    offset: Real
    u_gain: Real | None = None
    u_offset: Real | None = None
    cov: Real | None = None
    # What of them is the reference's, and common to all that was calibrated by it: relative, and in
    # the unit. None: a record of an earlier version.
    u_reference_gain: Real | None = None
    u_reference_offset: Real | None = None
    residual_rms: Real
    points: Annotated[list[Point], Field(min_length=2)]
    certificate: str = ""
    laboratory: str = ""
    reference_instrument: str = ""
    operator: str = ""

    def state(self, today: datetime.date) -> State:
        return "expired" if today > self.expires else "valid"


class Channel(Strict):
    """The calibration in force, if there is one, and those before it, oldest first."""

    current: Record | None
    history: Annotated[list[Record], Field(default_factory=list)]


class Calibration(kept.Kept):
    """The file: `channels` by their libsigrok names."""

    channels: dict[str, Channel]

    @property
    def records(self) -> dict[str, Record]:
        """Return the records in force, by channel."""
        return {name: channel.current for name, channel in self.channels.items() if channel.current}


@dataclass(frozen=True)
class Fit:
    """reference = gain * reading + offset. Uncertainties are standard ones, nan where unknown.

    `cov` is the covariance of gain and offset; `residuals` (n,) are references less fitted values.
    """

    gain: float
    offset: float
    u_gain: float
    u_offset: float
    cov: float
    residuals: np.ndarray

    @property
    def residual_rms(self) -> float:
        return float(np.sqrt(np.mean(self.residuals**2)))


def fit(
    readings: np.ndarray,
    references: np.ndarray,
    reading_uncertainties: np.ndarray | None = None,
    reference_offset_uncertainty: float = 0.0,
    reference_gain_uncertainty: float = 0.0,
) -> Fit:
    """Fit a least squares line through points (readings, references), each (n,), in one unit.

    Weighted by `reading_uncertainties` (standard, (n,)) where given: their covariance is (X' W
    X)^-1, enlarged by the Birge ratio where the points scatter more than they should. Else ordinary
    least squares: the residuals tell the covariance, of three points or more. What is uncertain
    about the reference is common to all points, so it is added whole and not averaged:
    `reference_offset_uncertainty` in the unit, `reference_gain_uncertainty` relative. Source: JCGM
    100:2008 (GUM) H.3 for the line, 5.2 for the correlated part. Raises ValueError for fewer than
    two distinct readings.
    """
    x, y = np.asarray(readings, float), np.asarray(references, float)
    if len(np.unique(x)) < 2:
        distinct = len(np.unique(x))
        raise ValueError(f"{distinct} distinct reading(s); a gain and an offset need two or more")
    # Around the middle of the points, so that the normal matrix is well conditioned.
    middle = x.mean()
    design = np.column_stack([x - middle, np.ones_like(x)])
    degrees = len(x) - 2
    known = reading_uncertainties is not None and np.all(np.asarray(reading_uncertainties) > 0)
    slope = np.polyfit(x - middle, y, 1)[0]
    weights = 1 / (slope * np.asarray(reading_uncertainties)) ** 2 if known else np.ones_like(x)
    normal = np.linalg.inv(design.T @ (weights[:, None] * design))
    gain, height = normal @ (design.T @ (weights * y))
    residuals = y - design @ [gain, height]
    chi_square = float(weights @ residuals**2)
    if known:
        covariance = normal * (max(1.0, chi_square / degrees) if degrees else 1.0)
    elif degrees:
        covariance = normal * chi_square / degrees
    else:
        covariance = np.full((2, 2), math.nan)
    # From (gain, height at the middle) to (gain, offset).
    shift = np.array([[1.0, 0.0], [-middle, 1.0]])
    covariance = shift @ covariance @ shift.T
    covariance[0, 0] += (gain * reference_gain_uncertainty) ** 2
    covariance[1, 1] += reference_offset_uncertainty**2
    return Fit(
        gain=float(gain),
        offset=float(height - gain * middle),
        u_gain=math.sqrt(covariance[0, 0]),
        u_offset=math.sqrt(covariance[1, 1]),
        cov=float(covariance[0, 1]),
        residuals=residuals,
    )


def path(lab: Lab, meter: str) -> Path:
    """Return the file of the calibration of `meter`."""
    return lab.folder / "calibration" / f"{meter}.yml"


def load(lab: Lab, meter: str) -> Calibration | None:
    """Return a meter's calibration, or None. Raises UserError naming file, key and value."""
    return kept.load(path(lab, meter), Calibration)


def store(lab: Lab, meter: str, channel: str, record: Record) -> Path:
    """Put `record` in force for a channel, and the record in force into the history.

    The file is replaced atomically.
    """
    before = load(lab, meter)
    channels = dict(before.channels) if before else {}
    old = channels.get(channel)
    for name, other in channels.items():
        # What is known of another instrument in this one's place is history.
        if name == channel or (other.current and differs(other.current.instrument, record.instrument)):
            past = [*other.history, other.current] if other.current else other.history
            channels[name] = Channel(current=None, history=past)
    channels[channel] = Channel(current=record, history=channels[channel].history if old else [])
    return kept.store(
        path(lab, meter),
        Calibration(meter=meter, channels=channels),
        f"Calibration of meter {meter}, written by 'rig meters calibrate'",
    )


def another_instrument(record: Record, meter: Meter, instrument: dict[str, Any] | None = None) -> str:
    """Describe how `record`'s instrument differs from this meter; "" when no difference is known.

    `instrument`: driver, vendor, model, serial as the instrument reports them, where it was asked.
    """
    of = record.instrument
    if of.driver != meter.driver:
        return f"it is of a {of.driver}, the inventory's is a {meter.driver}"
    reported = {**(instrument or {})}
    if meter.serial:
        reported["serial"] = meter.serial
    known = {key: str(reported.get(key) or "") for key in ("vendor", "model", "serial")}
    return differs(of, Instrument(driver=meter.driver, **known))


def differs(one: Instrument, other: Instrument) -> str:
    """Describe how two instruments differ; what only one of them reports is no difference."""
    for key in ("vendor", "model", "serial"):
        mine, its = getattr(one, key), getattr(other, key)
        if mine and its and mine != its:
            return f"it is of {key} {mine!r}, this instrument's is {its!r}"
    return ""


def corrected(readings: np.ndarray, held: Mapping[str, Any] | None) -> np.ndarray:
    """Correct readings by a channel's gain and offset, where it has them."""
    return held["gain"] * readings + held["offset"] if held else readings


def corrections(lab: Lab, meter: str) -> dict[str, dict[str, float]]:
    """Return {CHANNEL: {gain, offset}} of the channels in use, as powerd takes it.

    An expired calibration still corrects.
    """
    found = load(lab, meter)
    model = lab.controller.meters[meter]
    records = found.records if found else {}
    return {
        channel: {"gain": records[channel].gain, "offset": records[channel].offset}
        for channel in lab.meter_channels(meter)
        if channel in records and not another_instrument(records[channel], model)
    }


def serial(lab: Lab, meter: str) -> str:
    """Return the serial of the instrument that `corrections` belong to; "" where unknown."""
    found = load(lab, meter)
    used = corrections(lab, meter)
    serials = (
        [record.instrument.serial for name, record in found.records.items() if name in used] if found else []
    )
    return next(filter(None, serials), "")


def summary(
    lab: Lab, meter: str, today: datetime.date, instrument: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return {state, reason, date, expires, certificate, channels} of a meter's calibration.

    `channels`: {CH: {gain, offset, u_gain, u_offset, cov, ...}}. `state`: "valid" when each channel
    in use has a valid calibration, "expired" when one has expired, else "none". `date` is the
    oldest, `expires` the earliest of the channels'.
    """
    found = load(lab, meter)
    if not found or not found.records:
        return {"state": "none", "reason": "no calibration", "channels": {}}
    model = lab.controller.meters[meter]
    records = found.records
    for record in records.values():
        if why := another_instrument(record, model, instrument):
            return {"state": "none", "reason": f"another instrument's calibration: {why}", "channels": {}}
    used = lab.meter_channels(meter) or dict.fromkeys(records)
    missing = [channel for channel in used if channel not in records]
    states = {name: record.state(today) for name, record in records.items()}
    state: State = "valid"
    reason = ""
    if "expired" in states.values():
        state, reason = "expired", f"since {min(record.expires for record in records.values())}"
    elif missing:
        state, reason = "none", f"no calibration of channel {', '.join(missing)}"
    return {
        "state": state,
        "reason": reason,
        "date": min(record.date for record in records.values()).isoformat(),
        "expires": min(record.expires for record in records.values()).isoformat(),
        "certificate": ", ".join(sorted({r.certificate for r in records.values() if r.certificate})),
        "channels": {
            name: {
                "state": states[name],
                **record.model_dump(
                    mode="json",
                    include={"quantity", "gain", "offset", "u_gain", "u_offset", "cov", "date", "expires"}
                    | {"u_reference_gain", "u_reference_offset"},
                ),
                "reference": record.reference_instrument,
            }
            for name, record in records.items()
        },
    }


def warnings(lab: Lab, today: datetime.date) -> list[str]:
    """Return a line for each calibration that is expired or of another instrument."""
    lines = []
    for meter in lab.controller.meters:
        found = load(lab, meter)
        for channel, record in (found.records if found else {}).items():
            if why := another_instrument(record, lab.controller.meters[meter]):
                lines.append(f"meter {meter}: calibration of {channel} is not used: {why}")
            elif record.state(today) == "expired":
                lines.append(f"meter {meter}: calibration of {channel} expired on {record.expires}")
    return lines


def provenance(lab: Lab, today: datetime.date) -> dict[str, Any]:
    """Return `summary` of each meter that measures a rail."""
    return {name: summary(lab, name, today) for name in lab.controller.meters if lab.meter_channels(name)}
