# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a short series changes its level, and how often it is said to where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from joulerig.analysis.gate import levels

NOISE = (0.3, -0.2, 0.1, -0.4, 0.2, 0.0, -0.1, 0.4, -0.3, 0.1)


def stepped(*parts):
    """Values of several levels with a noise of 0.25."""
    values = np.repeat([level for level, _ in parts], [count for _, count in parts]).astype(float)
    return values + np.resize(NOISE, len(values))


def places(values, **options):
    return [step.at for step in levels.course(values, **options).steps]


@pytest.mark.parametrize("at", [2, 3, 5, 7, 8])
def test_a_step_is_found_where_it_is(at):
    assert places(stepped((0, at), (5, 10 - at))) == [at]


def test_the_difference_is_the_new_level_less_the_old():
    [up], [down] = (levels.course(stepped((0, 5), (change, 5))).steps for change in (5, -5))
    assert up.difference == pytest.approx(5 + np.mean(NOISE[5:]) - np.mean(NOISE[:5]))
    assert down.difference < 0
    assert up.low < up.difference < up.high


def test_several_steps_are_found():
    assert places(stepped((0, 5), (5, 5), (-3, 5))) == [5, 10]


def test_a_level_that_comes_back_is_found():
    assert places(stepped((0, 10), (-4, 5), (0, 10))) == [10, 15]


def test_a_single_value_that_stands_out_is_no_level():
    assert places([*NOISE[:9], 5.0]) == []


def test_no_step_where_the_level_stays():
    assert places(NOISE) == []


@pytest.mark.parametrize("count", range(levels.FEWEST))
def test_few_values_have_no_steps(count):
    assert places([0.0, 0.01, 50.0, 50.01][:count]) == []


def test_four_values_can_have_one():
    assert places([0.0, 0.01, 50.0, 50.01]) == [2]


def test_equal_values_have_none():
    assert places([1.0] * 8) == []


def test_a_step_without_noise_is_certain():
    [step] = levels.course([1.0] * 4 + [2.0] * 4).steps
    assert (step.at, step.p, step.low, step.high) == (4, 0.0, 1.0, 1.0)


def test_what_the_meters_can_have_wrong_is_no_step():
    values = stepped((0, 5), (5, 5))
    limits = np.zeros((10, 10))
    limits[:5, 5:] = limits[5:, :5] = 5.5
    assert places(values, limits=limits) == []
    [step] = levels.course(values, limits=limits / 5).steps
    [without] = levels.course(values).steps
    assert step.limit == 1.1
    assert step.high - step.low == pytest.approx(without.high - without.low + 2.2)
    assert step.p > without.p


def test_a_limit_elsewhere_does_not_hide_a_step():
    """The last campaign alone had another meter: the step before it is seen between the others."""
    limits = np.zeros((10, 10))
    limits[9, :9] = limits[:9, 9] = 0.5
    assert places(stepped((0, 5), (5, 5)), limits=limits) == [5]


def test_a_smaller_alpha_asks_for_more():
    values = stepped((0, 5), (1.5, 5))
    assert places(values, alpha=0.2) == [5]
    assert places(values, alpha=0.0001) == []


def test_scale_and_offset_do_not_matter():
    values = stepped((0, 6), (2, 4))
    one, other = levels.course(values).steps, levels.course(1000 + 1e-3 * values).steps
    assert [step.at for step in one] == [step.at for step in other] == [6]
    assert one[0].p == pytest.approx(other[0].p)


def share_with_changes(count, noise, series=400):
    rng = np.random.default_rng(count)
    return (
        sum(levels.course(noise(rng, count)) != levels.Course(remembers=count >= 12) for _ in range(series))
        / series
    )


@pytest.mark.parametrize("count", [4, 6, 12, 24])
def test_false_alarms_are_as_rare_as_stated(count):
    """Of 400, 5 % are 20; more than 30 come once in 80 times where the rate is exactly that."""
    assert share_with_changes(count, lambda rng, n: rng.standard_normal(n)) <= 30 / 400


@pytest.mark.parametrize("count", [6, 12, 24])
def test_so_are_they_where_the_noise_has_heavy_tails(count):
    assert share_with_changes(count, lambda rng, n: rng.standard_t(3, n)) <= 30 / 400


def test_a_large_step_is_found_in_most_series():
    rng = np.random.default_rng(1)
    found = [
        levels.course(np.repeat([0.0, 5.0], [12, 12]) + rng.standard_normal(24)).steps for _ in range(100)
    ]
    assert sum(any(abs(step.at - 12) <= 1 for step in steps) for steps in found) >= 75
    assert sum(len(steps) > 1 for steps in found) <= 6


def test_a_steady_rise_is_a_drift():
    found = levels.course(np.arange(20) + np.resize(NOISE, 20))
    assert found.steps == ()
    assert found.drift.low < 19 < found.drift.high
    assert found.drift.difference == pytest.approx(19, abs=0.5)
    assert not found.wanders


def test_a_drift_within_the_meters_limits_is_none():
    values = np.arange(10) + np.resize(NOISE, 10)
    assert levels.course(values).drift is not None
    assert levels.course(values, limits=np.full((10, 10), 9.5)) == levels.Course()


def test_a_season_is_neither_step_nor_drift():
    found = levels.course(5 * np.sin(2 * np.pi * np.arange(40) / 30) + np.resize(NOISE, 40))
    assert found.steps == ()


def test_nights_that_remember_show_few_changes():
    """Without an allowance half of such series do."""
    rng, shown = np.random.default_rng(6), 0
    for _ in range(150):
        values = rng.standard_normal(24)
        for night in range(1, 24):
            values[night] = 0.7 * values[night - 1] + np.sqrt(1 - 0.7**2) * values[night]
        found = levels.course(values)
        shown += bool(found.steps) or found.drift is not None
    assert shown <= 15


@pytest.mark.parametrize("count", [11, 12])
def test_whether_nights_may_remember_is_stated(count):
    assert levels.course(np.resize(NOISE, count)).remembers == (count == 12)


def test_steps_stand_apart():
    rng = np.random.default_rng(3)
    for _ in range(50):
        at = [0, *places(rng.standard_normal(30).cumsum()), 30]
        assert min(np.diff(at)) >= levels.SHORTEST
