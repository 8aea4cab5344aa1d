# SPDX-License-Identifier: GPL-3.0-or-later
"""Rankings with ties: all pairs, letters, blocks, and campaigns that do not allow a test."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis.statistics import letters
from joulerig.analysis.statistics.ranking import ALPHA, SIDAK, TUKEY, rank
from tests.support import simulated_pairs


def cells(*means: float, blocks: int = 3, spread: float = 0.005, seed: int = 1) -> dict:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, 0.1, blocks)
    return {
        f"c{index}": [(b, mean * math.exp(shift[b] + spread * rng.normal())) for b in range(blocks)]
        for index, mean in enumerate(means)
    }


@pytest.mark.parametrize(
    ("ordered", "separated", "expected"),
    [
        ("", [], {}),
        ("x", [], {"x": "a"}),
        ("xyz", [], {"x": "a", "y": "a", "z": "a"}),
        ("xyz", ["xz"], {"x": "a", "y": "ab", "z": "b"}),
        ("xyz", ["zx", "yz"], {"x": "a", "y": "a", "z": "b"}),
        ("xyz", ["xy", "xz", "yz"], {"x": "a", "y": "b", "z": "c"}),
        ("xyz", ["xy"], {"x": "a", "y": "b", "z": "ab"}),
    ],
)
def test_letters(ordered, separated, expected):
    assert letters.display(ordered, [tuple(pair) for pair in separated]) == expected


def test_names_share_a_letter_exactly_where_they_are_not_separated():
    rng = np.random.default_rng(2)
    for _ in range(200):
        names = [str(index) for index in range(int(rng.integers(2, 9)))]
        separated = {pair for pair in combinations(names, 2) if rng.random() < 0.5}
        found = letters.display(names, separated)
        for pair in combinations(names, 2):
            assert bool(set(found[pair[0]]) & set(found[pair[1]])) == (pair not in separated)


def test_letters_go_on_after_the_alphabet():
    names = [str(index) for index in range(60)]
    found = letters.display(names, list(combinations(names, 2)))
    assert len(set(found.values())) == 60
    assert (found["25"], found["26"], found["52"]) == ("z", "A", "a'")


def test_the_best_is_the_winner_where_all_others_are_separated():
    found = rank(cells(100, 95, 90))
    assert (found.winner, found.method, found.why) == ("c0", TUKEY, "")
    assert found.letters == {"c0": "a", "c1": "b", "c2": "c"}
    assert found.not_separated("c0") == []


def test_equal_is_an_answer():
    found = rank(cells(100, 99.9, 90))
    assert found.winner is None
    assert found.not_separated("c0") == ["c1"]
    assert found.letters == {"c0": "a", "c1": "a", "c2": "b"}


def test_differences_are_relative_with_an_interval_and_p():
    pair = rank(cells(100, 95, 90, blocks=5)).pair("c2", "c0")
    assert (pair.first, pair.second) == ("c0", "c2")
    assert pair.relative_difference == pytest.approx(0.1, abs=0.01)
    low, high = pair.relative_difference_interval
    assert low < pair.relative_difference < high
    assert pair.p < 0.001


def test_two_cells_are_a_paired_t_test():
    runs = cells(100, 99.4, blocks=6)
    found = rank(runs)
    logs = [[math.log(value) for _, value in one] for one in runs.values()]
    assert found.method == TUKEY
    assert found.pairs[0].p == pytest.approx(stats.ttest_rel(*logs).pvalue, rel=1e-6)


def test_pairs_of_one_block_each_are_tukeys_own():
    rng = np.random.default_rng(4)
    values = [rng.normal(mean, 1, 5) for mean in (100, 101, 103)]
    with_blocks = [
        np.exp(each - each.mean() + mean) for each, mean in zip(values, (3, 3.2, 3.4), strict=True)
    ]
    runs = {name: [(0, value) for value in each] for name, each in zip("xyz", with_blocks, strict=True)}
    found = rank(runs)
    expected = stats.tukey_hsd(*(np.log(each) for each in with_blocks))
    assert found.pair("x", "z").p == pytest.approx(expected.pvalue[0, 2], rel=1e-4)


def test_a_p_below_alpha_is_where_cells_are_separated():
    for blocks in (3, 6):
        for pair in rank(cells(100, 99.5, 99, 98.5, 98, blocks=blocks)).pairs:
            assert (pair.p < ALPHA) == pair.separated


def test_a_drift_from_block_to_block_hides_nothing():
    runs = {"x": [(b, 100.0 * 2**b) for b in range(4)], "y": [(b, 95.0 * 2**b + b / 9) for b in range(4)]}
    assert rank(runs).winner == "x"


def test_cells_that_vary_differently_are_compared_pair_by_pair():
    rng = np.random.default_rng(6)
    spreads = {"quiet": 0.001, "still": 0.001, "calm": 0.001, "wild": 0.05}
    runs = {
        name: [(b, mean * math.exp(spread * rng.normal())) for b in range(10)]
        for (name, spread), mean in zip(spreads.items(), (100, 99, 98, 97), strict=True)
    }
    found = rank(runs)
    assert found.method == SIDAK
    assert found.variances_p < 0.1
    assert found.pair("quiet", "still").separated
    assert not found.pair("quiet", "wild").separated
    one = stats.ttest_rel(*(np.log([v for _, v in runs[name]]) for name in ("quiet", "still"))).pvalue
    assert found.pair("quiet", "still").p == pytest.approx(1 - (1 - one) ** 6, rel=1e-6)


def test_missing_runs_leave_the_rest_and_widen_their_cells():
    runs = cells(100, 97, 90, blocks=4)
    runs["c2"] = runs["c2"][:1]
    found = rank(runs)
    assert found.winner == "c0"
    assert found.pair("c0", "c2").reach > found.pair("c0", "c1").reach


def test_cells_that_no_block_connects_are_not_separated():
    runs = cells(100, 95, 90, 85, blocks=4)
    for name, kept in (("c0", (0, 1)), ("c1", (0, 1)), ("c2", (2, 3)), ("c3", (2, 3))):
        runs[name] = [run for run in runs[name] if run[0] in kept]
    found = rank(runs)
    assert found.pair("c0", "c1").separated
    assert (found.pair("c0", "c2").p, found.pair("c0", "c2").relative_difference_interval) == (None, None)
    assert found.not_separated("c0") == ["c2", "c3"]


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ({}, "nothing to compare with"),
        ({"x": [(1, 5.0)]}, "nothing to compare with"),
        ({"x": [(1, 5.0), (2, 5.1)], "y": [(1, 0.0), (2, 1.0)]}, "nothing to compare with"),
        ({"x": [(1, 5.0)], "y": [(1, 4.0)]}, "one run a cell: the spread between runs is unknown"),
        ({"x": [(1, 5.0), (2, 5.1)], "y": [(3, 4.0)]}, "no two cells have two blocks in common"),
        (
            {"x": [(1, 5.0), (2, 5.0)], "y": [(1, 4.0), (2, 4.0)]},
            "the runs of each cell are all alike: there is no spread to test by",
        ),
    ],
)
def test_what_does_not_allow_a_test_is_named_and_separates_nothing(runs, why):
    found = rank(runs)
    assert (found.method, found.why, found.winner) == ("", why, None)
    assert not any(pair.separated for pair in found.pairs)
    assert set(found.letters.values()) <= {"a"}


def test_one_cell_without_spread_among_others_does_not_raise():
    runs = cells(100, 95, 90, blocks=4)
    runs["c2"] = [(b, 90.0) for b in range(4)]
    assert rank(runs).method in (TUKEY, SIDAK)


@pytest.mark.parametrize("spread", [(1.0,), simulated_pairs.UNEQUAL])
@pytest.mark.parametrize(("count", "blocks"), [(3, 5), (6, 8)])
def test_where_nothing_differs_at_most_one_campaign_in_twenty_names_a_winner(count, blocks, spread):
    rng = np.random.default_rng(9)
    campaigns = 250
    found = [rank(simulated_pairs.no_difference(count, blocks, spread, rng)) for _ in range(campaigns)]
    assert sum(one.winner is not None for one in found) <= 0.05 * campaigns
    # 5 %, and three standard deviations of the simulation
    assert sum(any(pair.separated for pair in one.pairs) for one in found) <= 0.092 * campaigns
