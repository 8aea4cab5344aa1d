# SPDX-License-Identifier: GPL-3.0-or-later
"""Rests are found in a drive's power, with what they cost."""

import numpy as np
import pytest

from joulerig.analysis.power_states import course
from joulerig.analysis.runs.over_time import Steps
from tests.support.resting_drive import STEP, Drive


def test_each_whole_cycle_is_found_with_its_parts():
    drive = Drive()
    found = course.find(drive.power(True), drive.awake)
    assert found.count == 11  # the last one has no wake after it
    assert found.awake_seconds == pytest.approx(drive.leaving + drive.operation + 0.162, abs=2 * STEP)
    assert found.cycle_seconds == pytest.approx(2.0096, abs=2 * STEP)
    assert found.rest_watts == pytest.approx(0.005, abs=3e-4)
    assert found.cycle_joules == pytest.approx(drive.cycle(True).sum() * STEP, rel=2e-3)


def test_the_course_begins_before_the_wake_and_has_both_states():
    found = course.find(Drive().power(True), 0.35)
    times = -found.lead_seconds + found.course.step_seconds * np.arange(len(found.course.watts))
    level = dict(zip(np.round(times, 3), found.course.watts, strict=True))
    assert level[-0.05] == pytest.approx(0.005, abs=2e-3)
    assert level[0.1] == pytest.approx(0.35, abs=3e-3)
    assert level[0.4] == pytest.approx(0.040, abs=2e-3)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_noise_is_smoothed_away(noise):
    drive = Drive(noise=noise)
    found = course.find(drive.power(True), drive.awake)
    assert found.count == 11
    assert found.awake_seconds == pytest.approx(0.1716, abs=STEP + found.resolution_seconds)


def test_noise_that_hides_a_rest_gives_none():
    assert course.find(Drive(noise=2.0).power(True), 0.35) is None


def test_a_drive_that_stays_awake_has_no_rests():
    assert course.find(Drive().power(False), 0.35) is None


def test_a_cycle_with_samples_lost_does_not_count():
    power = Drive().power(True)
    power.watts[4000:4010] = np.nan
    assert course.find(power, 0.35).count == 10


def test_too_few_rests_are_none():
    assert course.find(Drive().power(True, cycles=3), 0.35) is None


def test_nothing_measured_has_no_rests():
    assert course.find(Steps(), 0.35) is None
    assert course.find(Steps(np.full(1000, np.nan), STEP), 0.35) is None
