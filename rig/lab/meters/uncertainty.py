# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how well a rail's volts, amps and watts are known: class, calibration, resolution."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from joulerig.analysis.energy.uncertainty import class_standard, line_standard, quantisation_standard
from joulerig.rig.lab.meters.family import Accuracy


@dataclass(frozen=True)
class Budget:
    """Standard uncertainties (k = 1) of one quantity at `value`, in its unit. nan: not known.

    `meter_class`: of the data sheet; 0 where a calibration that holds takes its place.
    `calibration`: of gain and offset; 0 without one. `quantisation`: of the last digit of a single
    reading. `standard`: all together.
    """

    value: float
    meter_class: float
    calibration: float
    quantisation: float

    @property
    def standard(self) -> float:
        return math.hypot(self.meter_class, self.calibration, self.quantisation)

    def as_dict(self) -> dict[str, float | None]:
        """Return it for JSON: an unknown figure is null."""
        figures = {**asdict(self), "standard": self.standard}
        return {key: None if math.isnan(value) else value for key, value in figures.items()}


def reading_budget(value: float, accuracy: Accuracy | None, calibration: dict[str, Any] | None) -> Budget:
    """Return the budget of a (corrected) reading `value` in volts, amps or watts.

    `calibration`: a channel of `calibration.summary`. The class' limits are taken as a rectangle's
    half width (JCGM 100:2008 (GUM) 4.3.7), so is half a step of resolution. A calibration that has
    expired no longer says where in its class the instrument is: both count then.
    """
    held = bool(calibration) and calibration["state"] == "valid" and calibration["u_gain"] is not None
    if held:
        meter_class = 0.0
    elif accuracy is None:
        meter_class = math.nan
    else:
        meter_class = class_standard(value, accuracy.gain_percent, accuracy.offset)
    known = 0.0
    if calibration and calibration["u_gain"] is not None:
        reading = (value - calibration["offset"]) / calibration["gain"]
        known = line_standard(
            reading, 1.0, calibration["u_gain"], calibration["u_offset"], calibration["cov"]
        )
    resolution = accuracy.resolution if accuracy else math.nan
    return Budget(value, meter_class, known, quantisation_standard(resolution))


def power_uncertainty(volts: Budget, amps: Budget) -> float:
    """Return the standard uncertainty of volts times amps, in watts, for independent errors.

    Source: JCGM 100:2008 (GUM) 5.1.2.
    """
    return math.hypot(volts.value * amps.standard, amps.value * volts.standard)
