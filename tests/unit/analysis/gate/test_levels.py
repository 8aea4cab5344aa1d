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
    return [step.at for step in levels.steps(values, **options)]


@pytest.mark.parametrize("at", [2, 3, 5, 7, 8])
def test_a_step_is_found_where_it_is(at):
    assert places(stepped((0, at), (5, 10 - at))) == [at]


def test_the_difference_is_the_new_level_less_the_old():
    [up], [down] = (levels.steps(stepped((0, 5), (change, 5))) for change in (5, -5))
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
    [step] = levels.steps([1.0] * 4 + [2.0] * 4)
    assert (step.at, step.p, step.low, step.high) == (4, 0.0, 1.0, 1.0)


def test_what_the_meters_can_have_wrong_is_no_step():
    values = stepped((0, 5), (5, 5))
    limits = np.zeros((10, 10))
    limits[:5, 5:] = limits[5:, :5] = 5.5
    assert places(values, limits=limits) == []
    [step] = levels.steps(values, limits=limits / 5)
    [without] = levels.steps(values)
    assert step.limit == 1.1
    assert step.high - step.low == pytest.approx(without.high - without.low + 2.2)
    assert step.p > without.p


def test_a_limit_elsewhere_does_not_hide_a_step():
    """The last campaign alone had another meter: the step before it is seen between the others."""
    limits = np.zeros((10, 10))
    limits[9, :9] = limits[:9, 9] = 0.5
    assert places(stepped((0, 5), (5, 5)), limits=limits) == [5]


def test_a_smaller_alpha_asks_for_more():
    values = stepped((0, 5), (0.7, 5))
    assert places(values, alpha=0.2) == [5]
    assert places(values, alpha=0.001) == []


def test_scale_and_offset_do_not_matter():
    values = stepped((0, 6), (2, 4))
    one, other = levels.steps(values), levels.steps(1000 + 1e-3 * values)
    assert [step.at for step in one] == [step.at for step in other] == [6]
    assert one[0].p == pytest.approx(other[0].p)


def share_with_steps(count, noise, series=400):
    rng = np.random.default_rng(count)
    return sum(bool(levels.steps(noise(rng, count))) for _ in range(series)) / series


@pytest.mark.parametrize("count", [4, 6, 12, 24])
def test_false_alarms_are_as_rare_as_stated(count):
    """Of 400, 5 % are 20; more than 30 come once in 80 times where the rate is exactly that."""
    assert share_with_steps(count, lambda rng, n: rng.standard_normal(n)) <= 30 / 400


@pytest.mark.parametrize("count", [6, 12, 24])
def test_so_are_they_where_the_noise_has_heavy_tails(count):
    assert share_with_steps(count, lambda rng, n: rng.standard_t(3, n)) <= 30 / 400


def test_a_step_of_three_deviations_is_found_in_most_series():
    rng = np.random.default_rng(1)
    found = [levels.steps(np.repeat([0.0, 3.0], [8, 8]) + rng.standard_normal(16)) for _ in range(200)]
    assert sum(any(abs(step.at - 8) <= 1 for step in steps) for steps in found) >= 180
    assert sum(len(steps) > 1 for steps in found) <= 12


def test_steps_stand_apart():
    rng = np.random.default_rng(3)
    for _ in range(50):
        at = [0, *places(rng.standard_normal(30).cumsum()), 30]
        assert min(np.diff(at)) >= levels.SHORTEST
