# SPDX-License-Identifier: GPL-3.0-or-later
"""The budget of a rail whose volts are stated, or another meter's."""

import math

import pytest

from joulerig.analysis.energy import meters

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
