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


def combined(
    volts: float | None, amps: float | None, ohms: float | None, known_volts: float | None
) -> float | None:
    """Return the relative standard uncertainty of a deviation; None where a part is not known.

    Parameters
    ----------
    volts, amps : float or None
        Of the meter's readings, relative; None: not known.
    ohms : float or None
        Of the resistor, relative.
    known_volts : float or None
        Of the supply, relative, where its volts are known; else None.

    Notes
    -----
    Without a known supply the deviation is amps x ohms / volts: volts enter once. With one it is
    volts x amps x ohms / known_volts². JCGM 100:2008, 5.1.6.
    """
    if volts is None or amps is None or ohms is None:
        return None
    return math.hypot(volts, amps, ohms, 2 * (known_volts or 0.0))
