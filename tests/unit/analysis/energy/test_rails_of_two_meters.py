# SPDX-License-Identifier: GPL-3.0-or-later
"""The budget of a rail whose volts are stated, or another meter's."""

import math

import pytest

from joulerig.analysis.energy import meters
from joulerig.analysis.energy.interval import Supply

AMPS_CLASS, VOLTS_CLASS = {"gain_percent": 0.3}, {"gain_percent": 0.4}


def lab(rail, **of_meters):
    hosts = {"h": {"drives": {"d": {"rails": {"5v": {"meter": "clamp", **rail}}}}}}
    return {"hosts": hosts, "controller": {"meters": of_meters}}


STATED = {"stated": {"volts": 5.0, "tolerance": 0.05}, "amps": "P1", "volts": None}
BORROWED = {"volts": "P1", "volts_meter": "dmm", "amps": "P1"}
BOTH = {
    "clamp": {"accuracy": {"amps": AMPS_CLASS, "volts": {"gain_percent": 9}}},
    "dmm": {"accuracy": {"volts": VOLTS_CLASS}},
}


def budget(described, provenance=None):
    return meters.budget(
        described, provenance or {}, host="h", drive="d", rail="5v", meter="clamp",
        joules=50.0, seconds=10.0, volt_seconds=50.0, amp_seconds=10.0,
    )  # fmt: skip


def test_of_stated_volts_the_amps_alone_have_a_class():
    described = lab(STATED, clamp={"accuracy": {"amps": AMPS_CLASS}})
    assert meters.channels(described, "h", "d", "5v") == {"amps": "P1"}
    found = budget(described)
    assert found.standard == pytest.approx(50 * 0.003 / math.sqrt(3))


def test_volts_of_another_meter_have_its_class():
    described = lab(BORROWED, **BOTH)
    assert meters.channels(described, "h", "d", "5v") == {"volts": "dmm:P1", "amps": "P1"}
    assert budget(described).standard == pytest.approx(50 * 0.005 / math.sqrt(3))


def test_without_the_other_meters_class_the_budget_is_not_known():
    described = lab(BORROWED, clamp=BOTH["clamp"])
    assert budget(described).standard is None


def fitted(gain, u_gain):
    return {"gain": gain, "offset": 0.0, "u_gain": u_gain, "u_offset": 0.0, "cov": 0.0, "date": "2026-01-01"}


def test_channels_of_one_name_keep_their_own_calibration():
    calibration = {
        "clamp": {"state": "valid", "expires": "2027-05-01", "channels": {"P1": fitted(1.1, 0.002)}},
        "dmm": {"state": "valid", "expires": "2027-01-01", "channels": {"P1": fitted(0.9, 0.001)}},
    }
    record = meters.rail_calibration(
        lab(BORROWED, **BOTH), {"calibration": calibration}, "h", "d", "5v", "clamp"
    )
    assert record["channels"]["P1"]["gain"] == 1.1
    assert record["channels"]["dmm:P1"]["gain"] == 0.9
    assert (record["state"], record["expires"]) == ("valid", "2027-01-01")
    plain = meters.rail_calibration(lab(STATED), {"calibration": calibration}, "h", "d", "5v", "clamp")
    assert plain == calibration["clamp"]


@pytest.mark.parametrize(
    ("of_amps", "of_volts", "both"),
    [("valid", "expired", "expired"), ("expired", "valid", "expired"), ("valid", "none", "valid")],
)
def test_a_rail_is_calibrated_as_well_as_the_worse_of_its_meters(of_amps, of_volts, both):
    calibration = {
        "clamp": {"state": of_amps, "channels": {"P1": fitted(1.1, 0.002)}},
        "dmm": {"state": of_volts, "channels": {"P1": fitted(0.9, 0.001)}},
    }
    record = meters.rail_calibration(lab(BORROWED), {"calibration": calibration}, "h", "d", "5v", "clamp")
    assert record["state"] == both


def test_an_expired_calibration_counts_with_the_class():
    described = lab(STATED, clamp={"accuracy": {"amps": {**AMPS_CLASS, "stability_percent_per_year": 0.0}}})
    calibration = {"clamp": {"state": "expired", "channels": {"P1": fitted(1.0, 0.002)}}}
    found = budget(described, {"calibration": calibration})
    # Without the reference's share, all of a line's counts as the reference's.
    assert {one.source for one in found.components} == {"amps class", "reference"}


@pytest.mark.parametrize(
    ("declared", "error_ns"),
    [
        ({}, 2_000_000),
        ({"latency_seconds": 0.0}, 0),
        ({"latency_seconds": 0.005}, 5_000_000),
        ({"timing": "poll", "sample_rate_hz": 10}, 102_000_000),
        ({"timing": "stream", "sample_rate_hz": 10}, 2_000_000),
    ],
)
def test_an_instant_is_off_by_the_paths_latency_and_between_readings_by_their_distance(declared, error_ns):
    assert meters.edge_error_ns(lab(STATED, clamp=declared), "clamp") == error_ns


FED = {"amps": "P1", "volts": "P2", "supply": {"amps": 3.0, "ohms": 0.05}}


@pytest.mark.parametrize(
    ("rail", "declared", "feeds"),
    [
        (FED, {"samples": "window-mean"}, Supply(amps=3.0, ohms=0.05)),
        ({"amps": "P1", "volts": "P2"}, {"samples": "window-mean"}, Supply()),
        (FED, {"samples": "window-mean", "timing": "poll"}, None),
        (FED, {"samples": "instant"}, None),
        (STATED, {"samples": "window-mean"}, None),
    ],
    ids=["means", "an undeclared supply", "polled", "instants", "stated volts"],
)
def test_what_feeds_a_rail_of_mean_volts_times_mean_amps(rail, declared, feeds):
    assert meters.mean_products(lab(rail, clamp=declared), "h", "d", "clamp", "5v") == feeds
