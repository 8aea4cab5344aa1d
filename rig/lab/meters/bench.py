# SPDX-License-Identifier: GPL-3.0-or-later
"""Calibrate at the bench: points typed in, averaged live, or read from a reference meter."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from joulerig.analysis.energy.uncertainty import quantisation_standard
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import calibration, source, uncertainty
from joulerig.rig.lab.model import Lab

UNITS = {"volts": "V", "amps": "A", "watts": "W"}
Ask = Callable[[str], None]


@dataclass(frozen=True)
class Points:
    """References and uncorrected readings, (n,) each; `reading_uncertainties` may be nan."""

    quantity: str
    references: np.ndarray
    readings: np.ndarray
    reading_uncertainties: np.ndarray
    instrument: dict[str, Any]
    reference_uncertainty: float = 0.0
    reference_instrument: str = ""


def parse_point(text: str) -> tuple[float, float | None]:
    """Parse REFERENCE[=READING]; return (reference, reading or None). Raises UserError."""
    reference, equals, reading = text.partition("=")
    try:
        values = [float(reference), *([float(reading)] if equals else [])]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise UserError(
            f"--point: {text!r} is not REFERENCE[=READING]; allowed: numbers, such as 3.3000=3.2987"
        )
    return values[0], values[1] if equals else None


def parse_uncertainty(option: str, text: str) -> tuple[float, float]:
    """Parse U or U%; return (uncertainty in the unit, relative uncertainty). Raises UserError."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UserError(f"{option}: {text!r}; allowed: a number, such as 0.0005 or 0.01%")
    return (0.0, value / 100) if text.endswith("%") else (value, 0.0)


def a_year_after(day: datetime.date) -> datetime.date:
    """Return the last day of the year that begins on `day`."""
    try:
        return day.replace(year=day.year + 1)
    except ValueError:  # 29 February
        return day.replace(year=day.year + 1, day=28)


def _quantity(lab: Lab, name: str, channel: str) -> str:
    """Return what a channel measures by the inventory; "" if no rail's. Raises UserError."""
    family = lab.controller.meters[name].family
    if family.channels and not family.channels.fullmatch(channel):
        raise UserError(
            f"--channel: {channel!r}: {family.driver} has no such channel; allowed: {family.channels_text}"
        )
    quantity = lab.meter_channels(name).get(channel, "")
    if quantity == "watt_hours":
        raise UserError(
            f"--channel: {channel!r} is an energy register; allowed: a channel of volts, amps or watts"
        )
    return quantity


def from_points(
    lab: Lab,
    name: str,
    channel: str,
    typed: list[tuple[float, float | None]],
    seconds: float,
    prompt: Ask,
    instrument: dict[str, Any] | None,
    ask: bool,
) -> Points:
    """Return points as typed in; average a missing reading over `seconds` once `prompt` returns.

    `instrument`: as powerd reports it. `ask`: ask the instrument itself who it is.
    """
    quantity = _quantity(lab, name, channel)
    readings, uncertainties = [], []
    for number, (reference, reading) in enumerate(typed, start=1):
        uncertain = math.nan
        if reading is None:
            unit = UNITS.get(quantity, "")
            prompt(f"point {number} of {len(typed)}: set {reference:g} {unit} at {name} {channel}")
            means, instrument = source.average(lab, name, [channel], seconds)
            reading, uncertain = means[channel].value, means[channel].uncertainty
            quantity = _agreed(quantity, means[channel].quantity, name, channel)
        readings.append(reading)
        uncertainties.append(uncertain)
    if not quantity:
        allowed = ", ".join(lab.meter_channels(name)) or "none; let the reading be averaged"
        raise UserError(f"--channel: {channel!r} of {name} measures no rail; allowed: {allowed}")
    if instrument is None and ask:
        try:
            instrument = source.scan(source.driver(lab, name), lab.controller.meters[name].family)[0]
        except UserError:
            instrument = None  # its certificate may be typed in while it is still at the laboratory
    references = np.array([reference for reference, _ in typed])
    return Points(quantity, references, np.array(readings), np.array(uncertainties), instrument or {})


def from_reference(
    lab: Lab,
    name: str,
    channel: str,
    other: str,
    other_channel: str,
    points: int,
    seconds: float,
    prompt: Ask,
) -> Points:
    """Return points read from both meters at once, each over `seconds` once `prompt` returns.

    The reference's readings are corrected by its own calibration; its class or calibration is the
    uncertainty, nan where neither is known.
    """
    quantity = _quantity(lab, name, channel)
    _quantity(lab, other, other_channel)
    values: list[tuple[float, float, float, float]] = []
    for number in range(1, points + 1):
        prompt(f"point {number} of {points}: set a level at {name} {channel} and {other} {other_channel}")
        with ThreadPoolExecutor(2) as both:
            mine = both.submit(source.average, lab, name, [channel], seconds)
            its = both.submit(source.average, lab, other, [other_channel], seconds)
            (means, instrument), (other_means, other_instrument) = mine.result(), its.result()
        mean, true = means[channel], other_means[other_channel]
        quantity = _agreed(quantity, mean.quantity, name, channel)
        _agreed(quantity, true.quantity, other, other_channel)
        values.append((true.value, mean.value, mean.uncertainty, true.uncertainty))
    references, readings, uncertainties, scatter = (np.array(column) for column in zip(*values, strict=True))
    held = calibration.summary(lab, other, datetime.datetime.now(datetime.UTC).date(), other_instrument)[
        "channels"
    ].get(other_channel)
    references = calibration.corrected(references, held)
    accuracy = lab.controller.meters[other].accuracy.get(quantity)
    largest = float(references[np.argmax(np.abs(references))])
    budget = uncertainty.reading_budget(largest, accuracy, held).standard
    identity = [other_instrument.get(key) or "" for key in ("vendor", "model", "serial")]
    return Points(
        quantity,
        references,
        readings,
        np.hypot(uncertainties, scatter),
        instrument,
        budget,
        " ".join(filter(None, [f"{other}:", *identity])),
    )


def _agreed(expected: str, found: str, name: str, channel: str) -> str:
    if not found:
        raise UserError(f"meter {name}: channel {channel} reads neither volts nor amps nor watts")
    if expected and found != expected:
        raise UserError(f"meter {name}: channel {channel} reads {found}; allowed: {expected}")
    return found


def record(
    lab: Lab,
    name: str,
    channel: str,
    taken: Points,
    reference_offset_uncertainty: float,
    reference_gain_uncertainty: float,
    **certificate: Any,
) -> calibration.Record:
    """Return the record of a fit to the points. Raises UserError if they allow no calibration."""
    meter = lab.controller.meters[name]
    accuracy = meter.accuracy.get(taken.quantity)
    last_digit = quantisation_standard(accuracy.resolution) if accuracy else 0.0
    scatter = np.nan_to_num(taken.reading_uncertainties, nan=0.0)
    # A mean over readings is no better known than its last digit: all of them may round the same
    # way.
    uncertainties = np.hypot(scatter, last_digit)
    try:
        fit = calibration.fit(
            taken.readings,
            taken.references,
            uncertainties if np.all(uncertainties > 0) else None,
            reference_offset_uncertainty,
            reference_gain_uncertainty,
        )
    except ValueError as error:
        raise UserError(f"meter {name} channel {channel}: {error}") from None
    low, high = calibration.LEAST_GAIN, calibration.MOST_GAIN
    if not low <= fit.gain <= high:
        raise UserError(
            f"meter {name} channel {channel}: gain: {fit.gain:.4g}; allowed: {low} to {high};"
            " reference and meter were probably not at the same point"
        )
    known = not (math.isnan(fit.u_gain) or math.isnan(fit.u_offset))
    return calibration.Record(
        instrument=calibration.Instrument.reported_by(meter, taken.instrument),
        quantity=taken.quantity,
        gain=fit.gain,
        offset=fit.offset,
        u_gain=fit.u_gain if known else None,
        u_offset=fit.u_offset if known else None,
        cov=fit.cov if known else None,
        u_reference_gain=reference_gain_uncertainty if known else None,
        u_reference_offset=reference_offset_uncertainty if known else None,
        residual_rms=fit.residual_rms,
        points=[
            calibration.Point(
                reference=float(reference),
                reading=float(reading),
                residual=float(residual),
                reading_uncertainty=None if math.isnan(uncertain) else float(uncertain),
            )
            for reference, reading, residual, uncertain in zip(
                taken.references, taken.readings, fit.residuals, taken.reading_uncertainties, strict=True
            )
        ],
        **certificate,
    )
