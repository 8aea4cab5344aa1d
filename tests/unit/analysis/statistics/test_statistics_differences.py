# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences between cells in blocks: levels, and what is wrong in all runs alike."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis.statistics.differences import (
    Difference,
    Fit,
    Systematic,
    SystematicRuns,
    Systematics,
    level_with_best,
    limit_of_difference,
    mean_systematic,
)
from joulerig.analysis.statistics.interval import Interval, student, with_common

CELLS = ["a", "b"]
# Two cells in five blocks, which differ from each other too.
LOGS = np.array([[1.00, 1.10, 0.92, 1.05, 1.01], [0.97, 1.08, 0.86, 1.00, 0.99]])
NONE = Systematics.none(LOGS.shape)


def common(*of_cells: tuple[float, ...]) -> Systematics:
    """Errors by source, of each cell, the same in all of its runs."""
    errors = np.array(of_cells)[:, None, :]
    return Systematics(np.zeros(LOGS.shape), np.repeat(errors, LOGS.shape[1], axis=1))


def test_two_cells_are_compared_as_by_a_paired_t_test():
    """They have one variance then, the blocks taken out."""
    found = Fit.from_logs(CELLS, LOGS).compare("a", 0.05)["b"]
    apart = LOGS[0] - LOGS[1]
    assert found.logarithm == pytest.approx(apart.mean())
    assert found.p == pytest.approx(stats.ttest_1samp(apart, 0).pvalue)
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 4) * apart.std(ddof=1) / math.sqrt(5))


def test_the_margin_is_compared_with_a_one_sided_bound_at_the_level():
    fit = Fit.from_logs(CELLS, LOGS)
    apart = LOGS[0] - LOGS[1]
    bound = apart.mean() + stats.t.ppf(0.95, 4) * apart.std(ddof=1) / math.sqrt(5)
    margin = -math.expm1(-bound)
    assert fit.all_within(1.001 * margin, CELLS, 0.05)
    assert not fit.all_within(0.999 * margin, CELLS, 0.05)


def test_a_cell_that_cannot_be_compared_is_not_within_the_margin():
    fit = Fit.from_logs(["a", "b", "c"], np.vstack([LOGS, [1.0, *[math.nan] * 4]]))
    assert fit.tested == {"a", "b"}
    assert fit.all_within(0.5, CELLS, 0.05)
    assert not fit.all_within(0.5, ["a", "b", "c"], 0.05)


def test_errors_of_several_sources_add_up():
    """Each can be of either sign, whatever the other ones are."""
    one = Systematic(0.001, {"volts": 0.01, "amps": -0.002})
    other = Systematic(0.002, {"volts": 0.004, "noise": 0.003})
    own = -math.log1p(-0.001) - math.log1p(-0.002)
    assert limit_of_difference(one, other) == pytest.approx(0.006 + 0.002 + 0.003 + own)
    assert limit_of_difference(Systematic(0, {"a": 0.01}), Systematic(0, {"b": 0.01})) == pytest.approx(0.02)
    fit = Fit.from_logs(CELLS, LOGS, systematics=common((0.01, 0.0), (0.0, 0.01)))
    assert fit.compare("a", 0.05)["b"].systematic == pytest.approx(0.02)


def test_an_error_that_two_cells_have_in_common_cancels():
    plain = Fit.from_logs(CELLS, LOGS).compare("a", 0.05)["b"]
    fit = Fit.from_logs(CELLS, LOGS, systematics=common((0.01, 0.03), (0.01, 0.03)))
    assert fit.compare("a", 0.05)["b"] == pytest.approx(plain)


def test_what_is_wrong_alike_widens_the_interval_and_is_taken_off_for_p():
    plain = Fit.from_logs(CELLS, LOGS).compare("a", 0.05)["b"]
    found = Fit.from_logs(CELLS, LOGS, systematics=common((0.01,), (0.0,))).compare("a", 0.05)["b"]
    assert found.half_width == pytest.approx(plain.half_width + 0.01)
    apart = LOGS[0] - LOGS[1]
    error = apart.std(ddof=1) / math.sqrt(5)
    assert found.p == pytest.approx(2 * stats.t.sf((apart.mean() - 0.01) / error, 4))
    far = Fit.from_logs(CELLS, LOGS, systematics=common((1.0,), (0.0,))).compare("a", 0.05)["b"]
    assert far.p == pytest.approx(1)


@pytest.mark.parametrize("own", [1.0, 1.5])
def test_where_one_value_may_be_wrong_as_a_whole_the_limit_is_none(own):
    assert limit_of_difference(Systematic(own), Systematic()) == math.inf
    assert limit_of_difference(Systematic(), Systematic(own)) == math.inf
    errors = Systematics(np.array([[own] * 5, [0.0] * 5]), NONE.common)
    assert Fit.from_logs(CELLS, LOGS, systematics=errors).tested == {"b"}


def test_the_error_of_a_mean_is_the_mean_of_the_runs_errors():
    runs = [Systematic(0.01, {"volts": 0.02}), Systematic(0.03, {"amps": 0.04})]
    mean = Systematic(0.02, {"volts": 0.01, "amps": 0.02})
    assert mean_systematic(runs) == mean
    assert SystematicRuns.from_pairs([(1, runs[0]), (2, runs[1])]).mean == mean


def test_errors_of_two_runs_of_a_block_are_their_mean():
    runs = SystematicRuns.from_pairs([(1, Systematic(0.01, {"volts": 0.02})), (1, Systematic(0.03))])
    found = Systematics.from_runs(CELLS, [0, 1], {"b": runs})
    assert found.own.tolist() == [[0, 0], [0, pytest.approx(0.02)]]
    assert found.common[:, :, 0].tolist() == [[0, 0], [0, pytest.approx(0.01)]]


def test_errors_count_of_the_runs_that_are_there():
    errors = Systematics(np.array([[0.1, 0.3, 0.5]]), np.array([[[0.1], [0.3], [0.5]]]))
    own, shared = errors.of_cells(np.array([[True, True, False]]))
    assert own.tolist() == pytest.approx([-math.log1p(-0.2)])
    assert shared.tolist() == [pytest.approx([0.2])]
    assert errors.up_to(2).own.tolist() == [[0.1, 0.3]]


def test_how_far_behind_lies_between_its_bounds():
    found = Difference(logarithm=0.10, half_width=0.04, p=0.01)
    assert found.behind == pytest.approx(1 - math.exp(-0.10))
    assert found.low == pytest.approx(1 - math.exp(-0.06))
    assert found.high == pytest.approx(1 - math.exp(-0.14))


def test_cells_that_no_blocks_connect_are_not_compared():
    nan = math.nan
    logs = np.array([[1.0, 1.1, nan, nan], [1.0, 1.2, nan, nan], [nan, nan, 2.0, 2.1], [nan, nan, 2.0, 2.3]])
    fit = Fit.from_logs(["a", "b", "c", "d"], logs)
    assert set(fit.compare("a", 0.05)) == {"b"}
    assert set(fit.compare("c", 0.05)) == {"d"}


@pytest.mark.parametrize("count", [2, 10])
def test_independent_comparisons_with_the_best_are_at_sidaks_level(count):
    each = 1 - 0.95 ** (1 / count)
    assert level_with_best(np.zeros(count), 0.05) == pytest.approx(min(2 * each, 0.05), rel=1e-6)


def test_one_comparison_with_the_best_is_two_sided():
    assert level_with_best([0.7], 0.05) == 0.05


def test_an_intervals_sides_are_widened_alike():
    found = with_common(10.0, Interval(9.0, 11.0), 0.05, 3)
    assert 10 - found.low == pytest.approx(found.high - 10)
    standard = 1 / stats.t.ppf(0.975, 2)
    both = math.hypot(standard, 0.5)
    welch = stats.t.ppf(0.975, 2 * (both / standard) ** 4) * both
    assert found.high - 10 == pytest.approx((math.hypot(1, stats.norm.ppf(0.975) * 0.5) + welch) / 2)


def test_an_interval_of_a_mean_is_students():
    values = [1.0, 1.2, 0.9, 1.4]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert student(values) == pytest.approx((low, high))
