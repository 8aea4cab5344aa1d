# SPDX-License-Identifier: GPL-3.0-or-later
"""A rail's uncertainty budget: known answers, and a Monte Carlo check (JCGM 101:2008)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from joulerig.analysis.energy.uncertainty import (
    COVERAGE_FACTOR,
    calibration_state,
    channel_errors,
    combined,
    energy_uncertainty,
    line_standard,
)

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

FIT = {
    "gain": 1.01, "offset": -0.02, "u_gain": 2e-4, "u_offset": 1e-3, "cov": -1.5e-7, "date": "2026-03-01",
    "u_reference_gain": 0.0, "u_reference_offset": 0.0, "reference": "",
}  # fmt: skip
STABLE = {quantity: {**CLASS[quantity], "stability_percent_per_year": 0.0} for quantity in CLASS}


def calibrated(one: dict, other: dict | None = None) -> dict:
    return {"state": "valid", "channels": {"CH1": one, "CH2": one if other is None else other}}


def test_a_calibrated_channel_needs_no_class():
    exact = {"gain": 1.0, "u_gain": 0.0, "u_reference_gain": 0.0}
    accuracy = {quantity: {"stability_percent_per_year": 0.0} for quantity in CLASS}
    budget = budget_at(12.0, 0.5, accuracy=accuracy, calibration=calibrated(FIT, exact))
    raw = (12.0 + 0.02) / 1.01 * 0.5
    expected = math.sqrt((raw * 2e-4) ** 2 + (0.5 * 1e-3) ** 2 - 2 * raw * 0.5 * 1.5e-7)
    assert standards(budget)["volts calibration"] == pytest.approx(expected)


def test_calibration_takes_the_place_of_the_class_but_not_of_the_steps():
    calibration = {"state": "valid", "channels": {"CH1": FIT}}
    found = standards(budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibration))
    assert set(found) == {"volts calibration", "volts quantisation", "amps class", "amps quantisation"}


def test_past_its_date_the_class_counts_as_well():
    calibration = {"state": "expired", "channels": {"CH1": FIT, "CH2": FIT}}
    fresh = budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibration)
    stale = budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibration, expired=True)
    assert set(standards(stale)) - set(standards(fresh)) == {"volts class", "amps class"}
    assert stale.standard > fresh.standard


def register(**more):
    return energy_uncertainty(joules=3600.0, seconds=100.0, channels={"watt_hours": "E1"}, **more)


def test_of_a_registers_line_the_gain_alone_counts():
    """The offset is in both of its readings."""
    line = {
        "gain": 1.25, "offset": 900.0, "u_gain": 2e-3, "u_offset": 30.0, "cov": -1e-2, "date": "2026-03-01",
        "u_reference_gain": 1e-3, "u_reference_offset": 20.0, "reference": "C-17",
    }  # fmt: skip
    found = standards(
        register(
            accuracy={"watt_hours": {"stability_percent_per_year": 0.0}},
            calibration={"state": "valid", "channels": {"E1": line}},
        )
    )
    raw = 3600.0 / 1.25
    whole, common = raw * 2e-3, 3600.0 * 1e-3
    assert found == {
        "watt_hours calibration": pytest.approx(math.sqrt(whole**2 - common**2)),
        "reference": pytest.approx(common),
    }


def test_the_references_gain_is_of_the_corrected_figure():
    """volts = 2 * raw - 0.02: the reference's 0.1 % is of the 2 * raw."""
    line = {
        **FIT, "gain": 2.0, "offset": -0.02, "u_gain": 4e-3, "u_offset": 0.0, "cov": 0.0,
        "u_reference_gain": 1e-3, "reference": "C-17",
    }  # fmt: skip
    exact = {"gain": 1.0, "u_gain": 0.0, "u_reference_gain": 0.0}
    found = standards(budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibrated(line, exact)))
    assert found["reference"] == pytest.approx((6.0 + 0.02 * 0.5) * 1e-3)


def test_a_channel_through_which_power_flows_back_moves_as_much():
    accuracy = dict.fromkeys(("volts", "amps"), MOVES)
    back, forth = (
        budget_at(12.0, amps, accuracy=accuracy, calibration=calibrated(FIT)) for amps in (-0.5, 0.5)
    )
    moves = [
        f"{kind} {source}" for kind in ("volts", "amps") for source in ("drift", "temperature", "loading")
    ]
    assert [standards(back)[one] for one in moves] == [standards(forth)[one] for one in moves]
    assert all(part.standard >= 0 for part in back.components)


def test_a_registers_own_class_is_not_that_of_power():
    accuracy = {"watt_hours": {"gain_percent": 1.0}, "watts": {"gain_percent": 9.0, "offset": 1.0}}
    assert standards(register(accuracy=accuracy)) == {"watt_hours class": pytest.approx(36 / math.sqrt(3))}


def test_the_fits_correlation_counts():
    # A line fitted about 12 V: gain and offset err against each other, and at 12 V hardly at all.
    line = {"gain": 1.0, "offset": 0.0, "u_gain": 1e-3, "u_offset": 12e-3, "cov": -12e-6}
    fit = {**line, "u_reference_gain": 0.0}
    found = standards(budget_at(12.0, 0.5, accuracy=CLASS, calibration={"channels": {"CH1": fit}}))
    assert found["volts calibration"] == pytest.approx(0, abs=1e-9)


# What a channel can have done since: 0.02 % a year, 50 ppm/K over 20 K, 0.06 % of leads.
MOVES = {
    "stability_percent_per_year": 0.02, "temperature_ppm_per_k": 50, "temperature_k": 20,
    "loading_percent": 0.06,
}  # fmt: skip
YEAR_NS = 31_557_600 * 1_000_000_000


@pytest.mark.parametrize(("years", "begun"), [(0.0, 1), (0.2, 1), (0.99, 1), (1.2, 2), (2.5, 3)])
def test_a_calibrated_channel_drifts_warms_and_is_loaded(years, begun):
    accuracy = {"volts": MOVES, "amps": {"stability_percent_per_year": 0.0}}
    made = NS_OF_2026_06_01 - 92 * 86_400 * 1_000_000_000  # 2026-03-01
    found = standards(
        budget_at(
            12.0, 0.5, accuracy=accuracy, calibration=calibrated(FIT), at_ns=made + round(years * YEAR_NS)
        )
    )
    assert found["volts drift"] == pytest.approx(6.0 * 2e-4 * begun / math.sqrt(3))
    assert found["volts temperature"] == pytest.approx(6.0 * 1e-3 / math.sqrt(3))
    assert found["volts loading"] == pytest.approx(6.0 * 6e-4 / math.sqrt(3))
    assert not any(source.startswith("amps") and source != "amps calibration" for source in found)


def test_a_meter_that_moved_within_its_limits_since_is_within_its_bounds():
    """A thousand calibrated meters, each moved anywhere within its limits, and one rail of 6 W."""
    rng = np.random.default_rng(5)
    accuracy = {"volts": MOVES, "amps": MOVES}
    fit = {**FIT, "u_gain": 1e-4, "u_offset": 0.0, "cov": 0.0, "gain": 1.0, "offset": 0.0}
    budget = budget_at(12.0, 0.5, accuracy=accuracy, calibration=calibrated(fit))
    limits = [2e-4, 1e-3, 6e-4] * 2
    moved = sum(limit * rng.uniform(-1, 1, 100_000) for limit in limits)
    moved += sum(1e-4 * rng.standard_normal(100_000) for _ in range(2))
    assert np.std(6.0 * moved) == pytest.approx(budget.standard, rel=0.01)
    assert np.mean(np.abs(6.0 * moved) > budget.expanded) < 0.05
    without = budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibrated(fit))
    assert np.mean(np.abs(6.0 * moved) > without.expanded) > 0.5  # this would miss most of them


def test_a_calibration_alone_says_nothing_of_what_came_after_it():
    assert set(standards(budget_at(12.0, 0.5, accuracy=CLASS, calibration=calibrated(FIT)))) == {
        "volts calibration", "volts class", "volts quantisation",
        "amps calibration", "amps class", "amps quantisation",
    }  # fmt: skip
    budget = budget_at(12.0, 0.5, calibration=calibrated(FIT))
    assert (budget.standard, budget.unknown) == (None, "drift since calibration not stated (volts)")


def by_reference(u: float, reference: str) -> dict:
    """A channel whose line is known to 1e-5 but for the reference."""
    return {
        **FIT, "gain": 1.0, "offset": 0.0, "u_gain": math.hypot(1e-5, u), "u_offset": 0.0, "cov": 0.0,
        "u_reference_gain": u, "u_reference_offset": 0.0, "reference": reference,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("volts_by", "amps_by", "common"),
    [("C-17", "C-17", 2e-3), ("", "", 2e-3), ("C-17", "", 2e-3), ("C-17", "C-18", math.sqrt(2) * 1e-3)],
    ids=["one reference", "none is known", "one is not known", "two"],
)
def test_what_one_reference_leaves_uncertain_adds_in_volts_and_amps(volts_by, amps_by, common):
    calibration = calibrated(by_reference(1e-3, volts_by), by_reference(1e-3, amps_by))
    budget = budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibration)
    assert standards(budget)["reference"] == pytest.approx(6.0 * common)
    assert standards(budget)["volts calibration"] == pytest.approx(6.0 * 1e-5)


def test_a_record_that_does_not_tell_the_references_part_counts_as_all_of_it():
    old = {key: value for key, value in FIT.items() if not key.startswith(("u_reference", "reference"))}
    found = standards(budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibrated(old)))
    assert not {"volts calibration", "amps calibration"} & set(found)
    separate = standards(budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibrated(FIT)))
    assert found["reference"] == pytest.approx(separate["volts calibration"] + separate["amps calibration"])


TWO_POINTS = {"gain": 1.01, "offset": -0.02, "u_gain": None, "u_offset": None, "cov": None}


def test_a_line_through_two_points_leaves_the_word_to_the_class():
    """`rig meters calibrate` with two points and no class writes nulls: they correct, no more."""
    calibration = calibrated(TWO_POINTS, FIT)
    found = standards(budget_at(12.0, 0.5, accuracy=STABLE, calibration=calibration))
    assert set(found) == {"volts class", "volts quantisation", "amps calibration", "amps quantisation"}


@pytest.mark.parametrize("expired", [False, True])
def test_two_points_without_a_class_are_no_budget_and_say_so(expired):
    calibration = {"state": "valid", "channels": {"CH1": TWO_POINTS, "CH2": TWO_POINTS}}
    budget = budget_at(12.0, 0.5, calibration=calibration, expired=expired)
    assert (budget.standard, budget.unknown) == (None, "uncertainty of calibration not known (volts)")


@pytest.mark.parametrize("kind", ["watts", "watt_hours"])
def test_two_points_of_a_power_channel_or_a_register_are_no_budget_either(kind):
    calibration = {"state": "valid", "channels": {"P": TWO_POINTS}}
    budget = energy_uncertainty(joules=3.0, seconds=1.0, channels={kind: "P"}, calibration=calibration)
    assert budget.unknown.startswith("uncertainty of calibration not known")


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


def test_a_sum_names_what_is_not_known_of_a_part():
    known, unknown = budget_at(12.0, 0.5, accuracy=CLASS), budget_at(1, 1)
    assert combined([known, unknown]).unknown == "meter class not stated (volts)"


def test_a_sum_with_an_unknown_part_is_unknown():
    assert combined([budget_at(12.0, 0.5, accuracy=CLASS), budget_at(1, 1)]).expanded is None


# --- Monte Carlo


@pytest.mark.parametrize("with_calibration", [False, True])
def test_first_order_agrees_with_a_monte_carlo_over_a_waveform(with_calibration):
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
        accuracy=STABLE,
        calibration=calibrated(*(fit | {"u_reference_gain": 0.0} for fit in fits.values()))
        if with_calibration
        else None,
    )

    def errors(quantity: str, channel: str, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(error in proportion to `true`, constant error) of each trial."""
        limits = CLASS[quantity]
        steps = limits["resolution"] * rng.uniform(-0.5, 0.5, trials)
        if not with_calibration:
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
    if with_calibration:
        assert outside > 0.035  # and of normal parts no more than that


# --- errors that are the same in all runs


OBLIQUE = {
    "gain": 1.02,
    "offset": -0.003,
    "u_gain": 4e-4,
    "u_offset": 9e-4,
    "cov": -2e-7,
    "date": "2026-05-01",
}
SLOW = {"stability_percent_per_year": 0.1}


def test_the_two_parts_of_a_calibration_line_make_its_standard_uncertainty():
    found = channel_errors("amps", SLOW, OBLIQUE)
    parts = [one for one in found if one.calibrated]
    for raw, weight in ((0.5, 12.0), (3.0, 0.1), (0.0, 1.0)):
        value = OBLIQUE["gain"] * raw + OBLIQUE["offset"] * weight
        moved = math.hypot(*(one.gain * value + one.offset * weight for one in parts))
        expected = line_standard(raw, weight, OBLIQUE["u_gain"], OBLIQUE["u_offset"], OBLIQUE["cov"])
        assert moved == pytest.approx(COVERAGE_FACTOR * expected)


def test_a_class_is_a_limit_of_gain_and_one_of_offset():
    assert [(one.source, one.gain, one.offset) for one in channel_errors("volts", CLASS["volts"], None)] == [
        ("class's gain", 0.001, 0.0),
        ("class's offset", 0.0, 0.005),
        ("linearity", 0.001, 0.0),
        ("resolution", 0.0, 0.0005),
    ]


def test_what_a_channel_did_since_its_calibration_is_not_of_the_calibration():
    limits = {**SLOW, "temperature_ppm_per_k": 50, "temperature_k": 10, "loading_percent": 0.2}
    found = {one.source: one for one in channel_errors("amps", limits, OBLIQUE, at_ns=NS_OF_2026_06_01)}
    since = {name: (found[name].gain, found[name].calibrated) for name in ("drift", "temperature", "loading")}
    assert since == {"drift": (0.001, False), "temperature": (5e-4, False), "loading": (0.002, False)}


def test_a_difference_of_two_readings_of_a_register_has_no_offset_of_its_line():
    found = channel_errors("watt_hours", SLOW, {**OBLIQUE, "offset": 0.0})
    assert {one.offset for one in found} == {0.0}


@pytest.mark.parametrize("fitted", [None, {**OBLIQUE, "u_gain": None}])
def test_of_what_is_not_known_there_is_no_error(fitted):
    assert channel_errors("volts", {}, fitted) == []
