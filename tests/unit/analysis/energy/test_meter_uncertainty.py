# SPDX-License-Identifier: GPL-3.0-or-later
"""A rail's uncertainty budget: known answers, and a Monte Carlo check (JCGM 101:2008)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from joulerig.analysis.energy.uncertainty import calibration_state, combined, energy_uncertainty

VI = {"volts": "CH1", "amps": "CH2"}
CLASS = {
    "volts": {"gain_percent": 0.1, "offset": 0.005, "resolution": 0.001},
    "amps": {"gain_percent": 0.2, "offset": 0.002, "resolution": 0.0005},
}
NS_OF_2026_06_01 = 1_780_272_000 * 1_000_000_000


def budget_at(volts: float, amps: float, seconds: float = 1.0, **more):
    return energy_uncertainty(
        joules=volts * amps * seconds,
        seconds=seconds,
        channels=VI,
        volt_seconds=volts * seconds,
        amp_seconds=amps * seconds,
        **more,
    )


def standards(budget) -> dict[str, float]:
    return {part.source: part.standard for part in budget.components}


# --- known answers


def test_a_class_is_a_rectangular_limit_on_each_reading():
    found = standards(budget_at(12.0, 0.5, accuracy=CLASS))
    assert found == {
        "volts class": pytest.approx(0.5 * (0.001 * 12 + 0.005) / math.sqrt(3)),
        "amps class": pytest.approx(12 * (0.002 * 0.5 + 0.002) / math.sqrt(3)),
        "volts quantisation": pytest.approx(0.5 * 0.001 / math.sqrt(12)),
        "amps quantisation": pytest.approx(12 * 0.0005 / math.sqrt(12)),
    }


def test_parts_add_in_squares_and_are_expanded_by_two():
    budget = budget_at(12.0, 0.5, accuracy=CLASS)
    assert budget.standard == pytest.approx(math.hypot(*standards(budget).values()))
    assert budget.expanded == 2 * budget.standard
    assert sum(part.share for part in budget.components) == pytest.approx(1)
    assert [part.standard for part in budget.components] == sorted(standards(budget).values(), reverse=True)


def test_a_constant_error_does_not_average_out_over_time():
    one, hour = budget_at(12.0, 0.5, accuracy=CLASS), budget_at(12.0, 0.5, 3600, accuracy=CLASS)
    assert hour.standard == pytest.approx(3600 * one.standard)


def test_a_pure_gain_class_is_that_percentage_of_the_energy():
    accuracy = {"volts": {"gain_percent": 1.0}, "amps": {"gain_percent": 1e-9}}
    assert budget_at(5.0, 2.0, 10, accuracy=accuracy).standard == pytest.approx(1.0 / math.sqrt(3))


def test_an_offset_of_amps_weighs_with_the_volts_and_of_volts_with_the_amps():
    found = standards(budget_at(5.0, 2.0, accuracy={"volts": {"offset": 0.1}, "amps": {"offset": 0.3}}))
    assert found == {
        "volts class": pytest.approx(0.2 / math.sqrt(3)),
        "amps class": pytest.approx(1.5 / math.sqrt(3)),
    }


def test_power_that_flows_back_is_as_uncertain():
    assert budget_at(12.0, -0.5, accuracy=CLASS).standard == budget_at(12.0, 0.5, accuracy=CLASS).standard


def test_a_power_channel_has_its_own_class():
    budget = energy_uncertainty(
        joules=50.0,
        seconds=10.0,
        channels={"watts": "P1"},
        accuracy={"watts": {"gain_percent": 0.5, "offset": 0.01, "resolution": 0.01}},
    )
    assert standards(budget) == {
        "watts class": pytest.approx((0.25 + 0.1) / math.sqrt(3)),
        "watts quantisation": pytest.approx(0.1 / math.sqrt(12)),
    }


def test_an_energy_register_is_read_twice():
    budget = energy_uncertainty(
        joules=3600.0,
        seconds=100.0,
        channels={"watt_hours": "E1"},
        accuracy={"watt_hours": {"gain_percent": 1.0, "resolution": 36.0}},
    )
    assert standards(budget) == {
        "watt_hours class": pytest.approx(36 / math.sqrt(3)),
        "watt_hours quantisation": pytest.approx(36 * math.sqrt(2 / 12)),
    }


def test_an_energy_register_of_a_meter_with_a_class_of_power():
    budget = energy_uncertainty(
        joules=100.0,
        seconds=10.0,
        channels={"watt_hours": "E1"},
        accuracy={"watts": {"gain_percent": 1.0, "offset": 0.02, "resolution": 5.0}},
    )
    assert standards(budget) == {"watt_hours class": pytest.approx((1.0 + 0.2) / math.sqrt(3))}


# --- calibration

FIT = {"gain": 1.01, "offset": -0.02, "u_gain": 2e-4, "u_offset": 1e-3, "cov": -1.5e-7}


def test_a_calibrated_channel_needs_no_class():
    calibration = {"state": "valid", "channels": {"CH1": FIT, "CH2": {"gain": 1.0, "u_gain": 0.0}}}
    budget = budget_at(12.0, 0.5, calibration=calibration)
    raw = (12.0 + 0.02) / 1.01 * 0.5
    expected = math.sqrt((raw * 2e-4) ** 2 + (0.5 * 1e-3) ** 2 - 2 * raw * 0.5 * 1.5e-7)
    assert standards(budget)["volts calibration"] == pytest.approx(expected)


def test_calibration_takes_the_place_of_the_class_but_not_of_the_steps():
    calibration = {"state": "valid", "channels": {"CH1": FIT}}
    found = standards(budget_at(12.0, 0.5, accuracy=CLASS, calibration=calibration))
    assert set(found) == {"volts calibration", "volts quantisation", "amps class", "amps quantisation"}


def test_past_its_date_the_class_counts_as_well():
    calibration = {"state": "expired", "channels": {"CH1": FIT, "CH2": FIT}}
    fresh = budget_at(12.0, 0.5, accuracy=CLASS, calibration=calibration)
    stale = budget_at(12.0, 0.5, accuracy=CLASS, calibration=calibration, expired=True)
    assert set(standards(stale)) - set(standards(fresh)) == {"volts class", "amps class"}
    assert stale.standard > fresh.standard


def test_the_fits_correlation_counts():
    # A line fitted about 12 V: gain and offset err against each other, and at 12 V hardly at all.
    fit = {"gain": 1.0, "offset": 0.0, "u_gain": 1e-3, "u_offset": 12e-3, "cov": -12e-6}
    found = standards(budget_at(12.0, 0.5, accuracy=CLASS, calibration={"channels": {"CH1": fit}}))
    assert found["volts calibration"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("at_ns", "entry", "state"),
    [
        (0, None, ""),
        (0, {}, ""),
        (0, {"state": "none"}, "none"),
        (NS_OF_2026_06_01, {"state": "valid", "expires": "2026-06-01"}, "valid"),
        (NS_OF_2026_06_01, {"state": "valid", "expires": "2026-05-31"}, "expired"),
        (None, {"state": "valid", "expires": "2026-05-31"}, "valid"),
        (0, {"state": "expired", "expires": "2026-05-31"}, "expired"),
        (NS_OF_2026_06_01, {"state": "valid", "expires": "next year"}, "valid"),
    ],
)
def test_the_state_of_a_calibration_at_an_instant(at_ns, entry, state):
    assert calibration_state(entry, at_ns) == state


# --- what is not known


def test_without_a_class_nothing_is_claimed():
    budget = budget_at(12.0, 0.5)
    assert (budget.standard, budget.expanded, budget.components) == (None, None, ())
    assert budget.unknown == "meter class not stated (volts)"


def test_half_a_class_is_none():
    assert budget_at(12.0, 0.5, accuracy={"volts": CLASS["volts"]}).unknown == "meter class not stated (amps)"


@pytest.mark.parametrize("limits", [{}, {"gain_percent": 0.0, "offset": 0.0}])
def test_steps_alone_are_no_class_and_no_meter_is_perfect(limits):
    accuracy = {quantity: {"resolution": 0.001, **limits} for quantity in ("volts", "amps")}
    assert budget_at(12.0, 0.5, accuracy=accuracy).expanded is None


def test_without_volts_and_amps_nothing_is_claimed():
    budget = energy_uncertainty(joules=1.0, seconds=1.0, channels=VI, accuracy=CLASS)
    assert budget.unknown == "volts and amps are not known"


@pytest.mark.parametrize("channels", [{}, {"volts": "CH1"}, {"watts": "P", "amps": "I"}, {"ohms": "R"}])
def test_channels_that_make_no_rail_are_an_error(channels):
    with pytest.raises(ValueError, match="allowed: volts and amps, or watts, or watt_hours"):
        energy_uncertainty(joules=1.0, seconds=1.0, channels=channels, accuracy=CLASS)


# --- sums


def test_errors_of_one_meter_add_up_over_its_intervals():
    two = combined([budget_at(12.0, 0.5, accuracy=CLASS), budget_at(12.0, 0.5, accuracy=CLASS)])
    assert two.expanded == pytest.approx(2 * budget_at(12.0, 0.5, accuracy=CLASS).expanded)


def test_a_sum_with_an_unknown_part_is_unknown():
    assert combined([budget_at(12.0, 0.5, accuracy=CLASS), budget_at(1, 1)]).expanded is None


# --- Monte Carlo


@pytest.mark.parametrize("calibrated", [False, True])
def test_first_order_agrees_with_a_monte_carlo_over_a_waveform(calibrated):
    rng = np.random.default_rng(7)
    samples, trials, seconds = 400, 40_000, 2.0
    step = seconds / samples
    volts = 12.0 - 0.2 * rng.random(samples)
    amps = 0.05 + rng.choice([0.0, 1.8], samples) * rng.random(samples)
    energy, charge, flux = (float(np.sum(x)) * step for x in (volts * amps, amps, volts))
    fits = {
        "CH1": {"gain": 1.002, "offset": 0.01, "u_gain": 6e-4, "u_offset": 4e-3, "cov": -1.2e-6},
        "CH2": {"gain": 0.99, "offset": -0.003, "u_gain": 1e-3, "u_offset": 5e-4, "cov": -2e-7},
    }
    budget = energy_uncertainty(
        joules=energy,
        seconds=seconds,
        channels=VI,
        volt_seconds=flux,
        amp_seconds=charge,
        accuracy=CLASS,
        calibration={"state": "valid", "channels": fits} if calibrated else None,
    )

    def errors(quantity: str, channel: str, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(error in proportion to `true`, constant error) of each trial."""
        limits = CLASS[quantity]
        steps = limits["resolution"] * rng.uniform(-0.5, 0.5, trials)
        if not calibrated:
            # Within one limit, gain and offset err together: the limit is on their sum.
            drawn = rng.uniform(-1, 1, trials)
            return limits["gain_percent"] / 100 * drawn, limits["offset"] * drawn + steps
        fit = fits[channel]
        cov = [[fit["u_gain"] ** 2, fit["cov"]], [fit["cov"], fit["u_offset"] ** 2]]
        gain, offset = rng.multivariate_normal([0, 0], cov, trials).T
        # corrected = gain * raw + offset: an error of the gain acts on the raw reading.
        return gain / fit["gain"], offset - gain * fit["offset"] / fit["gain"] + steps

    gain_v, offset_v = errors("volts", "CH1", volts)
    gain_i, offset_i = errors("amps", "CH2", amps)
    # The sum of (V (1 + g) + o) (I (1 + h) + q) over the samples, multiplied out.
    measured = (
        (1 + gain_v) * (1 + gain_i) * energy
        + (1 + gain_v) * offset_i * flux
        + (1 + gain_i) * offset_v * charge
        + offset_v * offset_i * seconds
    )
    assert np.std(measured - energy) == pytest.approx(budget.standard, rel=0.02)
    outside = np.mean(np.abs(measured - energy) > budget.expanded)
    assert outside < 0.05  # k = 2 covers 95 % or, where rectangular parts dominate, more
    if calibrated:
        assert outside > 0.035  # and of normal parts no more than that
