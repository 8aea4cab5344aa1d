# SPDX-License-Identifier: GPL-3.0-or-later
"""Work per joule of runs and cells."""

from __future__ import annotations

import numpy as np
import pytest

from joulerig.analysis.energy.indicator import (
    Measured,
    RunIndicator,
    Spread,
    cell_indicator,
    ratio_of_sums,
    run_indicator,
)


def test_ai_of_a_run_is_work_over_joules():
    ai = run_indicator(ops=12_000, bytes_moved=49_152_000, seconds=10.0, joules=24.0)
    assert ai == RunIndicator(mean_watts=2.4, ops_per_joule=500.0, mb_per_joule=2.048)


def test_work_per_joule_is_mean_performance_over_mean_power():
    ai = run_indicator(ops=12_000, bytes_moved=49_152_000, seconds=7.0, joules=24.0)
    assert ai.ops_per_joule == pytest.approx((12_000 / 7.0) / ai.mean_watts)


def test_without_joules_there_is_no_ai():
    assert run_indicator(ops=1, bytes_moved=1, seconds=1.0, joules=None) == RunIndicator(None, None, None)


@pytest.mark.parametrize("joules", [0.0, -0.3])
def test_joules_that_are_not_positive_have_power_but_no_ai(joules):
    ai = run_indicator(ops=1, bytes_moved=1, seconds=2.0, joules=joules)
    assert ai == RunIndicator(joules / 2.0, None, None)


def test_a_single_run_has_no_spread_rather_than_a_spread_of_zero():
    assert ratio_of_sums([10.0], [4.0]) == Spread(1, 2.5, None, 2.5, 2.5, None)


def test_no_run_has_nothing():
    assert ratio_of_sums([], []) == Spread(0, None, None, None, None, None)


def test_the_mean_is_the_ratio_of_sums_and_the_spread_is_of_the_runs_ratios():
    spread = ratio_of_sums([10.0, 30.0], [10.0, 10.0 / 2])  # ratios 1 and 6
    assert spread.mean == pytest.approx(40.0 / 15.0)
    assert spread.standard_deviation == pytest.approx(np.std([1.0, 6.0], ddof=1))
    assert (spread.least, spread.greatest) == (1.0, 6.0)
    assert spread.relative_spread == pytest.approx(spread.standard_deviation / spread.mean)


def test_the_mean_lies_between_the_runs():
    rng = np.random.default_rng(3)
    for _ in range(100):
        spread = ratio_of_sums(rng.uniform(1, 9, 5), rng.uniform(1, 9, 5))
        assert spread.least <= spread.mean <= spread.greatest


def test_equal_runs_have_a_spread_of_zero():
    spread = ratio_of_sums([2.0, 2.0, 2.0], [4.0, 4.0, 4.0])
    assert (spread.standard_deviation, spread.relative_spread) == (0.0, 0.0)


def test_a_cell_that_did_no_work_has_no_relative_spread():
    assert ratio_of_sums([0.0, 0.0], [1.0, 2.0]).relative_spread is None


def test_the_ratio_of_sums_is_less_biased_than_the_mean_of_ratios():
    rng = np.random.default_rng(4)
    work, joules = rng.normal(100, 1, (20_000, 3)), rng.normal(10, 2.0, (20_000, 3)).clip(2)
    truth = 100 / joules.mean()
    of_sums = np.mean([ratio_of_sums(w, j).mean for w, j in zip(work, joules, strict=True)])
    of_ratios = (work / joules).mean()
    assert abs(of_sums - truth) < 0.5 * abs(of_ratios - truth)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_denominator_that_is_not_an_energy_is_an_error(bad):
    with pytest.raises(ValueError, match="denominator"):
        ratio_of_sums([1.0], [bad])


def test_lengths_that_differ_are_an_error():
    with pytest.raises(ValueError, match="numerators"):
        ratio_of_sums([1.0, 2.0], [1.0])


def test_the_figures_of_a_cell_divide_into_each_other():
    rng = np.random.default_rng(5)
    cell = cell_indicator(
        [
            Measured(int(rng.integers(900, 1100)), 4096 * 1000, rng.uniform(9, 11), rng.uniform(20, 30))
            for _ in range(4)
        ]
    )
    assert cell.ops_per_joule.mean == pytest.approx(cell.ops_per_second.mean / cell.watts.mean, rel=1e-12)
    assert cell.mb_per_joule.mean == pytest.approx(cell.mb_per_second.mean / cell.watts.mean, rel=1e-12)


def test_a_run_without_positive_joules_enters_none_of_a_cells_figures():
    good = Measured(1000, 4_096_000, 10.0, 20.0)
    cell = cell_indicator([good, Measured(5000, 1, 10.0, -0.1)])
    assert cell == cell_indicator([good])
    assert cell.ops_per_second.n == 1


def test_where_no_run_has_joules_there_is_performance_alone():
    cell = cell_indicator([Measured(1000, 4_096_000, 10.0, None), Measured(3000, 4_096_000, 10.0, None)])
    assert (cell.ops_per_second.mean, cell.ops_per_second.n) == (200.0, 2)
    assert cell.ops_per_joule.mean is cell.watts.mean is cell.mb_per_joule.mean is None


def test_a_run_without_joules_next_to_one_with_enters_none_of_a_cells_figures():
    good = Measured(1000, 4_096_000, 10.0, 20.0)
    assert cell_indicator([good, Measured(5000, 1, 10.0, None)]) == cell_indicator([good])
