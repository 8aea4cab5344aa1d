# SPDX-License-Identifier: GPL-3.0-or-later
"""A meter checked with a resistor: what it is off, its limits, its uncertainty."""

from __future__ import annotations

import math
import random

import pytest

from joulerig.analysis.energy import check_standard
from joulerig.analysis.energy.check_standard import LEAST_BASELINE, Reading

# NIST/SEMATECH e-Handbook, 6.3.2.2: flow rates of ten batches, with their limits.
FLOW_RATES = [49.6, 47.6, 49.9, 51.3, 47.8, 51.2, 52.6, 52.4, 53.6, 52.1]


def test_a_meter_that_reads_right_is_not_off():
    assert check_standard.deviation(Reading(144 / 10, 144.0, 0.0), 10.0) == 0


@pytest.mark.parametrize(
    ("volts_gain", "amps_gain", "known_supply", "off"),
    [
        (1.0, 1.01, False, 0.01),
        (1.01, 1.0, False, 1 / 1.01 - 1),
        (1.01, 1.01, False, 0.0),  # what volts and amps share is unseen ...
        (1.01, 1.01, True, 1.01**2 - 1),  # ... unless the supply is known
    ],
)
def test_what_is_off_in_volts_or_amps_shows(volts_gain, amps_gain, known_supply, off):
    volts, amps = 12.0 * volts_gain, 1.2 * amps_gain
    reading = Reading(volts * amps, 144.0 if known_supply else volts**2, 0.0)
    assert check_standard.deviation(reading, 10.0) == pytest.approx(off)


def test_limits_are_those_of_the_handbooks_example():
    found = check_standard.limits(FLOW_RATES, None, 0.0)
    assert found.centre == pytest.approx(50.81)
    assert (found.low, found.high) == pytest.approx((45.8159, 55.8041), abs=5e-4)
    assert found.of == "chart"


def test_before_there_is_a_chart_the_budget_sets_them():
    few = [0.001] * (LEAST_BASELINE - 1)
    found = check_standard.limits(few, 0.002, 0.0)
    assert (found.low, found.high, found.of) == (-0.004, 0.004, "budget")
    assert check_standard.limits(few, None, 0.0) is None


def test_checks_that_round_alike_leave_room_for_the_last_digit():
    found = check_standard.limits([0.001] * LEAST_BASELINE, None, 1e-4)
    assert (found.low, found.high) == pytest.approx((0.0007, 0.0013))


def test_a_meter_that_moves_by_five_of_its_deviations_is_seen_and_one_that_does_not_is_left_alone():
    chance = random.Random(12)
    alarms = moved = 0
    for _ in range(2000):
        earlier = [chance.gauss(0, 1e-4) for _ in range(20)]
        found = check_standard.limits(earlier, None, 0.0)
        alarms += not found.low <= chance.gauss(0, 1e-4) <= found.high
        moved += not found.low <= chance.gauss(6e-4, 1e-4) <= found.high
    assert alarms / 2000 < 0.02
    assert moved / 2000 > 0.98


def test_the_uncertainty_has_the_volts_once_and_a_known_supplys_twice():
    assert check_standard.combined(0.003, 0.004, 0.0, None) == pytest.approx(0.005)
    assert check_standard.combined(0.0, 0.0, 0.0, 0.001) == pytest.approx(0.002)
    assert check_standard.combined(None, 0.0, 0.0, None) is None
    assert check_standard.combined(0.0, 0.0, None, None) is None


def test_the_uncertainty_covers_what_volts_amps_and_resistor_do():
    """By simulation: 95 % of deviations lie within twice it."""
    chance = random.Random(5)
    u_volts, u_amps, u_ohms = 0.001, 0.002, 0.0005
    standard = check_standard.combined(u_volts, u_amps, u_ohms, None)
    inside = 0
    for _ in range(4000):
        volts, amps = 12 * (1 + chance.gauss(0, u_volts)), 1.2 * (1 + chance.gauss(0, u_amps))
        off = check_standard.deviation(Reading(volts * amps, volts**2, 0), 10 * (1 + chance.gauss(0, u_ohms)))
        inside += abs(off) <= 2 * standard
    assert 0.94 <= inside / 4000 <= 0.97


def test_an_error_that_the_uncertainty_does_not_explain_is_above_one():
    assert check_standard.normalised_error(-0.01, 0.002) == pytest.approx(2.5)
    assert check_standard.normalised_error(0.01, None) is None
    assert math.isclose(check_standard.normalised_error(0.004, 0.002), 1)
