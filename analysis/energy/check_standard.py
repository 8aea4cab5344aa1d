# SPDX-License-Identifier: GPL-3.0-or-later
"""A meter checked with a resistor: how far its joules are off, and whether that is as before.

A resistor R across a rail draws V²/R. What the meter says the rail's energy is, over what V²t/R
says, is 1 but for the meter's error. Kept over time on a control chart, it shows a meter that moved
since its calibration, which nothing that the meter reads of a drive can show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

LEAST_BASELINE = 8
"""Checks before the chart sets the limits."""
RANGE_TO_LIMIT = 3 / 1.128
"""Of the mean moving range: three standard deviations by pairs of neighbours (d2 = 1.128)."""
COVERAGE = 2.0
"""Of an expanded uncertainty: about 95 %."""


@dataclass(frozen=True)
class Reading:
    """What the meter read with the resistor on the rail.

    `watts`: mean of volts times amps. `square_volts`: mean square, V², of the meter or of a supply
    that is known. `scatter`: relative standard uncertainty of the deviation by its own samples.
    """

    watts: float
    square_volts: float
    scatter: float


def deviation(reading: Reading, ohms: float) -> float:
    """Return the meter's energy over V²t/R, less 1. Raises ZeroDivisionError at 0 volts."""
    return reading.watts * ohms / reading.square_volts - 1


@dataclass(frozen=True)
class Limits:
    """Where a check is expected to lie: `low` to `high` around `centre`, all relative.

    `of`: "chart" where the earlier checks set them, "budget" where the expanded uncertainty of
    meter and resistor does.
    """

    centre: float
    low: float
    high: float
    of: str


def limits(earlier: Sequence[float], standard: float | None, last_digit: float) -> Limits | None:
    """Return the limits of a check after `earlier` ones, oldest first, all of one kind.

    Of individuals, by the mean moving range (NIST/SEMATECH e-Handbook of Statistical Methods,
    6.3.2.2), from `LEAST_BASELINE` checks on; before, 0 within the expanded `standard` uncertainty.
    None where that is not known either. `last_digit`: its relative standard uncertainty, three
    times which is allowed at least: checks that round alike do not vary at all.
    """
    if len(earlier) >= LEAST_BASELINE:
        centre = fmean(earlier)
        moving_range = fmean(abs(one - other) for one, other in pairwise(earlier))
        reach = max(RANGE_TO_LIMIT * moving_range, 3 * last_digit)
        return Limits(centre, centre - reach, centre + reach, "chart")
    if standard is None:
        return None
    return Limits(0.0, -COVERAGE * standard, COVERAGE * standard, "budget")


def normalised_error(found: float, standard: float | None) -> float | None:
    """Return |deviation| over its expanded uncertainty: above 1 it is not explained by that.

    None where the uncertainty is not known, or 0. Source: ISO 13528:2022, E_n.
    """
    return abs(found) / (COVERAGE * standard) if standard else None


@dataclass(frozen=True)
class Part:
    """What a quantity leaves uncertain of a deviation, relative, k = 1.

    `power`: the one with which it enters. `own`: of the quantity alone. `reference`: of what it was
    calibrated by, which is called `calibrated_by`; "": not known.
    """

    power: int
    own: float
    reference: float = 0.0
    calibrated_by: str = ""


def combined(parts: Sequence[Part]) -> float:
    """Return the relative standard uncertainty of a deviation.

    One reference's error is common to all that was calibrated by it: with the signs of their powers
    it adds, or cancels. Where a record does not say what the reference was, the larger of that and
    of independent ones counts. JCGM 100:2008, 5.1.6 and 5.2.2.
    """
    shares: dict[str, list[float]] = {}
    for part in parts:
        shares.setdefault(part.calibrated_by, []).append(part.power * part.reference)
    common = math.hypot(*(math.fsum(of_one) for of_one in shares.values()))
    if any(shares.get("", ())):
        every = [share for of_one in shares.values() for share in of_one]
        common = max(math.hypot(*every), abs(math.fsum(every)))
    return math.hypot(*(part.power * part.own for part in parts), common)
