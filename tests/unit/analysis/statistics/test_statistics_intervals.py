# SPDX-License-Identifier: GPL-3.0-or-later
"""Intervals of ratios: Fieller, bootstrap, and what all runs have in common."""

from __future__ import annotations

import numpy as np
import pytest

from joulerig.analysis.statistics.interval import (
    Interval,
    bca,
    bca_by_cell,
    fieller,
    relative_variance,
    with_common,
)

WORK, JOULES = [1000.0, 1012.0, 995.0, 1004.0], [20.0, 20.1, 20.05, 19.9]


def simulated(rng: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return work and joules of a cell of 50 ops/J: runs of unequal length, noise in both."""
    length = 1 + 0.01 * rng.standard_normal(runs)
    work = 1000 * length * (1 + 0.006 * rng.standard_normal(runs))
    return work, 20 * length * (1 + 0.004 * rng.standard_normal(runs))


@pytest.mark.parametrize("common", [0.0, 0.004, 0.02])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_95_percent_intervals_cover_the_truth_in_93_to_97_percent(runs, common):
    rng = np.random.default_rng(11)
    campaigns, covered = 1500, 0
    for _ in range(campaigns):
        work, joules = simulated(rng, runs)
        joules = joules * (1 + common * rng.standard_normal())
        found = with_common(work.sum() / joules.sum(), fieller(work, joules), common, runs)
        covered += found.low <= 50 <= found.high
    assert 0.93 <= covered / campaigns <= 0.97


def test_fieller_and_bootstrap_agree_with_many_runs():
    work, joules = simulated(np.random.default_rng(12), 60)
    exact, resampled = fieller(work, joules), bca(work, joules)
    width = exact.high - exact.low
    assert resampled.low == pytest.approx(exact.low, abs=0.12 * width)
    assert resampled.high == pytest.approx(exact.high, abs=0.12 * width)


@pytest.mark.parametrize("runs", [3, 4, 5, 8, 20, 50])
def test_the_bootstrap_is_scipys_where_sums_are_exact(runs):
    """Of whole numbers: with others, scipy finds a cell's own value among its resamples or not."""
    from scipy import stats

    work, joules = (np.round(100 * values) for values in simulated(np.random.default_rng(14), runs))
    expected = stats.bootstrap(
        (work, joules),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=9999,
        rng=np.random.default_rng(20_140_607),
    ).confidence_interval
    assert bca(work, joules) == pytest.approx(tuple(expected), rel=1e-12)


@pytest.mark.parametrize("runs", [3, 5, 12])
def test_rounding_does_not_move_the_bootstrap(runs):
    work, joules = simulated(np.random.default_rng(15), runs)
    scaled = bca(work * 1.1, joules * 1.3)
    assert scaled == pytest.approx([end * 1.1 / 1.3 for end in bca(work, joules)], rel=1e-12)


def test_cells_together_have_the_intervals_that_they_have_alone():
    rng = np.random.default_rng(16)
    cells = [simulated(rng, runs) for runs in (5, 2, 40, 5, 0, 40)]
    together = bca_by_cell(cells)
    assert together[1] is None
    assert together[4] is None
    for place in (0, 2, 3, 5):
        assert together[place] == pytest.approx(bca(*cells[place]), rel=1e-12)


def test_fieller_is_the_set_of_ratios_that_a_t_test_does_not_reject():
    from scipy import stats

    low, high = fieller(WORK, JOULES)
    for ratio in (low, high):
        p = stats.ttest_1samp(np.array(WORK) - ratio * np.array(JOULES), 0).pvalue
        assert p == pytest.approx(0.05, rel=1e-6)


def test_both_are_the_same_every_time_and_contain_the_ratio():
    ratio = sum(WORK) / sum(JOULES)
    for method in (fieller, bca):
        found = method(WORK, JOULES)
        assert found == method(WORK, JOULES)
        assert found.low < ratio < found.high


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_units_do_not_matter(unit):
    work = np.array(WORK) * unit
    assert fieller(work, JOULES) == pytest.approx([unit * end for end in fieller(WORK, JOULES)])
    assert relative_variance(work, JOULES) == pytest.approx(relative_variance(WORK, JOULES))


@pytest.mark.parametrize(
    ("top", "bottom", "expected"),
    [
        ([], [], None),
        ([1.0], [2.0], None),
        ([1.0, 1.0], [2.0, 2.0], Interval(0.5, 0.5)),  # runs alike
        ([1.0, 1.0], [1.0, -1.0], None),  # a mean of zero
        ([1.0, 2.0], [0.01, 3.0], None),  # not distinguished from zero
        ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], Interval(0.0, 0.0)),
    ],
)
def test_fieller_at_its_edges(top, bottom, expected):
    found = fieller(top, bottom)
    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("top", "bottom"),
    [([], []), ([1.0, 2.0], [1.0, 1.0]), ([2.0, 2.0, 2.0], [1.0, 1.0, 1.0]), ([0.0] * 3, [1.0] * 3)],
)
def test_without_spread_or_with_two_runs_there_is_nothing_to_resample(top, bottom):
    assert bca(top, bottom) is None


@pytest.mark.parametrize(
    ("top", "bottom"), [([1.0], [1.0]), ([0.0, 0.0], [1.0, 2.0]), ([1.0, 2.0], [0.0, 0.0])]
)
def test_no_relative_variance_without_two_runs_and_positive_means(top, bottom):
    assert relative_variance(top, bottom) is None


def test_the_relative_variance_is_the_samples_over_the_runs():
    assert relative_variance([1.0, 3.0], [2.0, 2.0]) == pytest.approx(
        ((0.5 - 1) ** 2 + (1.5 - 1) ** 2) / 1 / 2
    )


def test_the_relative_variance_is_that_of_fieller_to_first_order():
    work, joules = simulated(np.random.default_rng(13), 400)
    found = fieller(work, joules)
    half = (found.high - found.low) / 2 / (work.sum() / joules.sum())
    assert half == pytest.approx(1.966 * relative_variance(work, joules) ** 0.5, rel=0.01)


def test_a_common_uncertainty_widens_each_side_separately():
    random = Interval(7.0, 14.0)
    assert with_common(10.0, random, 0.0, 3) == pytest.approx(random)
    wide = with_common(10.0, random, 0.4, 3)
    assert wide.low < random.low
    assert wide.high > random.high


def test_many_runs_leave_the_root_of_the_sum_of_squares():
    found = with_common(10.0, Interval(7.0, 14.0), 0.3 / 1.959964, 100_000)
    assert found == pytest.approx((10 - (9 + 9) ** 0.5, 10 + (16 + 9) ** 0.5), rel=1e-4)


def test_runs_that_are_all_alike_leave_what_is_common():
    assert with_common(10.0, Interval(10.0, 10.0), 0.1, 2) == pytest.approx((10 - 1.959964, 10 + 1.959964))


def test_lengths_that_differ_are_an_error():
    with pytest.raises(ValueError, match="give pairs"):
        fieller([1.0, 2.0], [1.0])
