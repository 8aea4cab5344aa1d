# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how well a rail's volts, amps and watts are known: class, calibration, resolution."""

from __future__ import annotations

import datetime
import math
from dataclasses import asdict, dataclass
from typing import Any

from joulerig.analysis.energy.uncertainty import (
    REFERENCE,
    quantisation_standard,
    reference_standard,
    vouched,
)
from joulerig.rig.lab.meters.family import Accuracy


@dataclass(frozen=True)
class Budget:
    """Standard uncertainties (k = 1) of one quantity at `value`, in its unit. nan: not known.

    `meter_class`: of the data sheet; 0 where a calibration that holds takes its place.
    `calibration`: of gain and offset; 0 without one. `reference`: of what it was calibrated by,
    `calibrated_by`. `since`: what the channel can have moved since, by time, temperature and load.
    `quantisation`: of the last digit of a single reading. `standard`: all together.
    """

    value: float
    meter_class: float
    calibration: float
    reference: float
    since: float
    quantisation: float
    calibrated_by: str = ""

    @property
    def own(self) -> float:
        """Return what is of this channel alone."""
        return math.hypot(self.meter_class, self.calibration, self.since, self.quantisation)

    @property
    def standard(self) -> float:
        return math.hypot(self.own, self.reference)

    def as_dict(self) -> dict[str, float | str | None]:
        """Return it for JSON: an unknown figure is null."""
        figures = {**asdict(self), "standard": self.standard}
        return {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in figures.items()
        }


def reading_budget(
    value: float,
    accuracy: Accuracy | None,
    calibration: dict[str, Any] | None,
    today: datetime.date | None = None,
) -> Budget:
    """Return the budget of a (corrected) reading `value` in volts, amps or watts.

    `calibration`: a channel of `calibration.summary`. Which parts count, and how, is
    analysis.energy.uncertainty.vouched's; `today` gives the years since the calibration.
    """
    limits = accuracy.model_dump(exclude_none=True) if accuracy else {}
    midnight = datetime.datetime.combine(today, datetime.time(), datetime.UTC) if today else None
    parts, missing = vouched(
        value,
        1.0,
        limits,
        calibration,
        expired=bool(calibration) and calibration["state"] != "valid",
        at_ns=round(midnight.timestamp() * 1e9) if midnight else None,
    )
    resolution = accuracy.resolution if accuracy else math.nan
    return Budget(
        value,
        meter_class=math.nan if missing else parts.get("class", 0.0),
        calibration=parts.get("calibration", 0.0),
        reference=parts.get(REFERENCE, 0.0),
        since=math.hypot(*(parts.get(source, 0.0) for source in ("drift", "temperature", "loading"))),
        quantisation=quantisation_standard(resolution),
        calibrated_by=str((calibration or {}).get("reference") or ""),
    )


def stated_budget(volts: float, tolerance: float) -> Budget:
    """Return the budget of volts that are stated, all within the tolerance equally likely."""
    return Budget(
        volts, tolerance / math.sqrt(3), calibration=0.0, reference=0.0, since=0.0, quantisation=0.0
    )


def power_uncertainty(volts: Budget, amps: Budget) -> float:
    """Return the standard uncertainty of volts times amps, in watts.

    Their errors are independent, but for a reference that both were calibrated by. Source: JCGM
    100:2008 (GUM) 5.1.2 and 5.2.2.
    """
    references = [abs(amps.value) * volts.reference, abs(volts.value) * amps.reference]
    return math.hypot(
        volts.value * amps.own,
        amps.value * volts.own,
        reference_standard(references, [volts.calibrated_by, amps.calibrated_by]),
    )
