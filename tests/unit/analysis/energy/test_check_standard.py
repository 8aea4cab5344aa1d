# SPDX-License-Identifier: GPL-3.0-or-later
"""A meter checked with a resistor: what it is off, its limits, its uncertainty."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from joulerig.analysis.energy import check_standard
from joulerig.analysis.energy.check_standard import LEAST_BASELINE, Part, Reading

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


def test_the_uncertainty_has_each_quantity_with_its_power():
    assert check_standard.combined([Part(-1, 0.003), Part(1, 0.004)]) == pytest.approx(0.005)
    assert check_standard.combined([Part(1, 0.0), Part(-2, 0.001)]) == pytest.approx(0.002)
    assert math.isnan(check_standard.combined([Part(1, math.nan), Part(-1, 0.001)]))


def test_what_one_reference_leaves_uncertain_cancels_or_adds():
    volts, amps = Part(-1, 0.0, 0.002, "DMM"), Part(1, 0.0, 0.002, "DMM")
    assert check_standard.combined([volts, amps]) == 0
    assert check_standard.combined([replace(volts, power=1), amps]) == pytest.approx(0.004)
    assert check_standard.combined([replace(volts, calibrated_by="other"), amps]) == pytest.approx(
        0.002 * math.sqrt(2)
    )


@pytest.mark.parametrize("power", [-1, 1])
def test_a_reference_without_a_name_counts_as_what_is_worse(power):
    parts = [Part(power, 0.0, 0.002), Part(1, 0.0, 0.002, "DMM")]
    worst = 0.004 if power > 0 else 0.002 * math.sqrt(2)
    assert check_standard.combined(parts) == pytest.approx(worst)


@pytest.mark.parametrize("has_supply", [False, True])
def test_the_uncertainty_covers_what_volts_amps_and_resistor_do(has_supply):
    """By simulation, volts and amps calibrated by one reference: 95 % lie within twice it."""
    chance = random.Random(5)
    u_volts, u_amps, u_ohms, u_reference, u_supply = 0.001, 0.002, 0.0005, 0.003, 0.0004
    parts = [Part(1, u_ohms), Part(1, u_amps, u_reference, "DMM")]
    parts += [Part(1 if has_supply else -1, u_volts, u_reference, "DMM")]
    parts += [Part(-2, u_supply)] * has_supply
    standard = check_standard.combined(parts)
    inside = 0
    for _ in range(4000):
        common = chance.gauss(0, u_reference)
        volts = 12 * (1 + chance.gauss(0, u_volts) + common)
        amps = 1.2 * (1 + chance.gauss(0, u_amps) + common)
        square = (12 * (1 + chance.gauss(0, u_supply))) ** 2 if has_supply else volts**2
        off = check_standard.deviation(Reading(volts * amps, square, 0), 10 * (1 + chance.gauss(0, u_ohms)))
        inside += abs(off) <= 2 * standard
    assert 0.94 <= inside / 4000 <= 0.97


def test_an_error_that_the_uncertainty_does_not_explain_is_above_one():
    assert check_standard.normalised_error(-0.01, 0.002) == pytest.approx(2.5)
    assert check_standard.normalised_error(0.01, None) is None
    assert math.isclose(check_standard.normalised_error(0.004, 0.002), 1)
