# SPDX-License-Identifier: GPL-3.0-or-later
"""Heat and self-report of a drive profile, and the twin's parameters of them."""

import pytest
from pydantic import ValidationError

from joulerig.virtuallab import profile, twin_parameters

LEVEL = {"enter_celsius": 75, "leave_celsius": 70, "rate": 0.5, "watts": 0.6}


def with_parts(**parts):
    return profile.Profile(**{**profile.load("nvme-consumer").model_dump(), **parts})


def words_of(**parts):
    plain = twin_parameters.from_profile(profile.load("nvme-consumer"))
    return [word for word in twin_parameters.from_profile(with_parts(**parts)) if word not in plain]


def test_a_profile_without_them_leaves_them_to_the_twin():
    assert words_of() == []


def test_heat_is_passed_with_its_levels_in_order():
    hot = {**LEVEL, "enter_celsius": 85, "leave_celsius": 80}
    assert words_of(thermal={"ambient_celsius": 35, "throttle": [LEVEL, hot]}) == [
        "ambient_celsius=35.0", "kelvin_per_watt=5.0", "thermal_seconds=120.0",
        "throttle=75.0,70.0,0.5,0.6", "throttle=85.0,80.0,0.5,0.6",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({}, ["written,1.0", "temperature,0.0"]),
        ({"energy_factor": 1}, ["written,1.0", "temperature,0.0", "energy,1.0", "flaw,none"]),
        (
            {"energy_factor": 1.05, "error_percent": 2, "flaw": "no_idle", "ocp": True},
            ["written,1.0", "temperature,0.0", "energy,1.05,2", "flaw,no_idle", "ocp"],
        ),
        ({"written_factor": 0.5, "temperature_kelvins": -10}, ["written,0.5", "temperature,-10.0"]),
    ],
)
def test_what_the_drive_reports_is_passed(report, words):
    assert words_of(self_report=report) == [f"reports={word}" for word in words]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"thermal": {"throttle": [{**LEVEL, "leave_celsius": 75}]}}, "leave_celsius: 75; allowed: below"),
        ({"thermal": {"throttle": [LEVEL, LEVEL]}}, "enter_celsius must grow"),
        ({"thermal": {"throttle": [LEVEL] * 3}}, "at most 2 items"),
        ({"thermal": {"throttle": [{**LEVEL, "rate": 0}]}}, "greater than or equal to 0.01"),
        ({"self_report": {"flaw": "stuck"}}, "energy_factor: missing"),
        ({"self_report": {"energy_factor": 1, "flaw": "lies"}}, "Input should be 'none'"),
    ],
)
def test_what_cannot_be_is_refused(parts, why):
    with pytest.raises(ValidationError, match=why):
        with_parts(**parts)
