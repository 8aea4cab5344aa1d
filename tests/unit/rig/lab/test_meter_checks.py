# SPDX-License-Identifier: GPL-3.0-or-later
"""How well a check with a resistor is known, by what volts and amps were calibrated with."""

import math

import pytest

from joulerig.analysis.energy.check_standard import Reading
from joulerig.rig.lab.meters import checks
from joulerig.rig.lab.meters.uncertainty import Budget

READING = Reading(14.4, 144.0, 0.0)
VALUES = {"volts": 12.0, "amps": 1.2, "watts": 14.4}
SUPPLY = (12.0, 0.0)
SHARE = 0.001  # that the reference leaves uncertain of each quantity


def standard(*quantities, supply=None, ohms=0.0):
    """The relative uncertainty, in units of the reference's share."""
    budgets = {
        kind: Budget(VALUES[kind], 0.0, 0.0, SHARE * VALUES[kind], 0.0, 0.0, "DMM") for kind in quantities
    }
    found = checks._standard(budgets, READING, ohms, supply)
    return None if found is None else found / SHARE


@pytest.mark.parametrize(
    ("quantities", "supply", "shares"),
    [
        (("volts", "amps"), None, 0),  # amps x ohms / volts
        (("volts", "amps"), SUPPLY, 2),  # volts x amps x ohms / V²
        (("amps",), SUPPLY, 1),  # amps x ohms / V
        (("watts", "volts"), None, 1),  # watts x ohms / volts²
        (("watts", "volts"), SUPPLY, 1),  # watts x ohms / V²
        (("watts",), SUPPLY, 1),
    ],
)
def test_a_common_reference_counts_by_what_the_check_divides_by(quantities, supply, shares):
    assert standard(*quantities, supply=supply) == pytest.approx(shares)


def test_a_supply_counts_twice_and_for_an_ammeter_once():
    supply = (12.0, 3 * SHARE)
    assert standard("volts", "amps", supply=supply) == pytest.approx(math.hypot(2, 6))
    assert standard("amps", supply=supply) == pytest.approx(math.hypot(1, 3))


def test_without_the_resistors_uncertainty_there_is_none():
    assert standard("volts", "amps", ohms=None) is None
    unknown = {"volts": Budget(12.0, math.nan, 0.0, 0.0, 0.0, 0.0), "amps": Budget(1.2, 0, 0, 0, 0, 0)}
    assert checks._standard(unknown, READING, 0.0, None) is None
