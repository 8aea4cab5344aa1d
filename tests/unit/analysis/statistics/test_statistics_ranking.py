# SPDX-License-Identifier: GPL-3.0-or-later
"""Rankings with ties: all pairs, letters, blocks, and campaigns that do not allow a test."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis.statistics import letters
from joulerig.analysis.statistics.differences import Systematic, SystematicRuns, level_with_best
from joulerig.analysis.statistics.ranking import ALPHA, METHOD, ONE_RUN, rank


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


def test_the_best_is_the_winner_where_all_others_are_behind_it():
    found = rank(cells(100, 95, 90))
    assert (found.winner, found.method, found.why) == ("c0", METHOD, "")
    assert found.letters == {"c0": "a", "c1": "b", "c2": "c"}
    assert found.contenders == ["c0"]


def test_equal_is_an_answer():
    found = rank(cells(100, 99.9, 90))
    assert found.winner is None
    assert found.contenders == ["c0", "c1"]
    assert found.letters == {"c0": "a", "c1": "a", "c2": "b"}


def test_which_is_best_is_asked_of_fewer_pairs_than_the_letters_are():
    found = rank(cells(100, 99, 98.5, 98, 97.5, 97, blocks=5, spread=0.003))
    for pair in found.with_best:
        assert pair.reach < found.pair(pair.first, pair.second).reach
    assert {pair.second for pair in found.with_best} == {"c1", "c2", "c3", "c4", "c5"}


def test_the_greatest_is_found_with_the_blocks_taken_out():
    """The cell that stands first has its runs in the better blocks."""
    runs = cells(100, 90, blocks=6)
    runs = {"c1": [(b, v * (1.5 if b > 2 else 1)) for b, v in runs["c1"]], "c0": [
        (b, v * (1.5 if b > 2 else 1)) for b, v in runs["c0"] if b != 5
    ]}  # fmt: skip
    assert next(iter(runs)) == "c1"
    assert rank(runs).winner == "c0"


def test_differences_are_relative_with_an_interval_and_p():
    pair = rank(cells(100, 95, 90, blocks=5)).pair("c2", "c0")
    assert (pair.first, pair.second) == ("c0", "c2")
    assert pair.relative_difference == pytest.approx(0.1, abs=0.01)
    low, high = pair.relative_difference_interval
    assert low < pair.relative_difference < high
    assert pair.p < 0.001


@pytest.mark.parametrize("blocks", [2, 3, 6])
def test_two_cells_are_a_paired_t_test(blocks):
    runs = cells(100, 99.4, blocks=blocks)
    found = rank(runs)
    logs = [[math.log(value) for _, value in one] for one in runs.values()]
    expected = stats.ttest_rel(*logs)
    assert found.pairs[0].p == pytest.approx(expected.pvalue, rel=1e-6)
    low, high = expected.confidence_interval(0.95)
    (best,) = found.with_best
    assert 2 * best.reach == pytest.approx(high - low, rel=1e-6)


@pytest.mark.parametrize(
    ("comparisons", "bound"), [(1, 1.645), (2, 1.916), (4, 2.160), (9, 2.418), (14, 2.547)]
)
def test_the_level_with_the_best_is_dunnetts(comparisons, bound):
    """One-sided 5 % bounds of infinite degrees: Dunnett 1955, table 1a, where it has them."""
    level = level_with_best(np.full(comparisons, math.sqrt(0.5)), 0.05)
    assert level == pytest.approx(min(0.05, 2 * stats.norm.sf(bound)), rel=0.004)


def test_independent_comparisons_share_the_error_as_sidak_says():
    assert level_with_best(np.zeros(14), 0.05) == pytest.approx(2 * (1 - 0.95 ** (1 / 14)), rel=1e-6)


def test_a_p_below_alpha_is_where_cells_are_separated():
    for blocks in (3, 6):
        for pair in rank(cells(100, 99.5, 99, 98.5, 98, blocks=blocks)).pairs:
            assert (pair.p < ALPHA) == pair.separated


def test_a_drift_from_block_to_block_hides_nothing():
    runs = {"x": [(b, 100.0 * 2**b) for b in range(4)], "y": [(b, 95.0 * 2**b + b / 9) for b in range(4)]}
    assert rank(runs).winner == "x"


def test_a_noisy_cell_does_not_hide_what_quiet_ones_show():
    rng = np.random.default_rng(6)
    spreads = {"quiet": 0.001, "still": 0.001, "calm": 0.001, "wild": 0.05}
    runs = {
        name: [(b, mean * math.exp(spread * rng.normal())) for b in range(10)]
        for (name, spread), mean in zip(spreads.items(), (100, 95, 94, 93), strict=True)
    }
    found = rank(runs)
    assert found.pair("quiet", "still").separated
    assert found.pair("quiet", "wild").reach > found.pair("quiet", "still").reach


def test_few_runs_are_not_taken_to_vary_alike():
    """A difference's bound is farther from that of pooled runs the fewer there are."""
    reaches = {}
    for blocks in (2, 3, 5, 10):
        found = [rank(cells(*[100] * 15, blocks=blocks, seed=seed)) for seed in range(40)]
        reaches[blocks] = np.median([pair.reach for one in found for pair in one.pairs]) * math.sqrt(blocks)
    pooled = {
        blocks: 0.005 * math.sqrt(2) * stats.t.isf((1 - 0.95 ** (1 / 105)) / 2, 14 * (blocks - 1))
        for blocks in reaches
    }
    over = {blocks: reaches[blocks] / pooled[blocks] for blocks in reaches}
    assert over[2] > over[3] > over[5] > over[10] > 1
    assert over[2] > 1.5 * over[5]


def test_missing_runs_leave_the_rest_and_widen_their_cells():
    runs = cells(100, 97, 90, blocks=4)
    runs["c2"] = runs["c2"][:2]
    found = rank(runs)
    assert found.winner == "c0"
    assert found.pair("c0", "c2").reach > found.pair("c0", "c1").reach


def test_a_cell_of_one_run_is_separated_from_none_and_may_be_the_best():
    runs = cells(100, 97, 20, blocks=4)
    runs["c2"] = runs["c2"][:1]
    found = rank(runs)
    assert found.pair("c0", "c1").separated
    assert found.contenders == ["c0", "c2"]
    assert found.letters == {"c0": "a", "c1": "b", "c2": "ab"}


def test_cells_that_no_block_connects_are_not_separated():
    runs = cells(100, 95, 90, 85, blocks=4)
    for name, kept in (("c0", (0, 1)), ("c1", (0, 1)), ("c2", (2, 3)), ("c3", (2, 3))):
        runs[name] = [run for run in runs[name] if run[0] in kept]
    found = rank(runs)
    assert found.pair("c0", "c1").separated
    assert (found.pair("c0", "c2").p, found.pair("c0", "c2").relative_difference_interval) == (None, None)
    assert found.contenders == ["c0", "c2", "c3"]


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ({}, "nothing to compare with"),
        ({"x": [(1, 5.0)]}, "nothing to compare with"),
        ({"x": [(1, 5.0), (2, 5.1)], "y": [(1, 0.0), (2, 1.0)]}, "nothing to compare with"),
        ({"x": [(1, 5.0)], "y": [(1, 4.0)]}, ONE_RUN),
        (
            {"x": [(1, 5.0), (2, 5.1)], "y": [(3, 4.0)]},
            "fewer than two cells have two runs with a value in common blocks",
        ),
        (
            {"x": [(1, 5.0), (2, 5.0)], "y": [(1, 4.0), (2, 4.0)]},
            "the runs of each cell are all alike: there is no spread to test by",
        ),
    ],
)
def test_what_does_not_allow_a_test_is_named_and_separates_nothing(runs, why):
    found = rank(runs)
    assert (found.method, found.why, found.winner, found.contenders) == ("", why, None, [])
    assert not any(pair.separated for pair in found.pairs)
    assert set(found.letters.values()) <= {"a"}


def test_one_cell_without_spread_among_others_does_not_raise():
    runs = cells(100, 95, 90, blocks=4)
    runs["c2"] = [(b, 90.0) for b in range(4)]
    assert rank(runs).method == METHOD


# What is wrong in all runs alike


def own(found: dict, **limits: float) -> dict:
    return {
        cell: SystematicRuns.from_pairs([(block, Systematic(own=limits.get(cell, 0.0))) for block, _ in runs])
        for cell, runs in found.items()
    }


def test_a_limit_is_added_to_the_reach_of_each_comparison_with_its_cell():
    found = cells(100, 95, 90, blocks=5)
    alone, limited = rank(found), rank(found, systematic=own(found, c1=0.01))
    for before, after in zip(
        (*alone.pairs, *alone.with_best), (*limited.pairs, *limited.with_best), strict=True
    ):
        added = -math.log1p(-0.01) if "c1" in (after.first, after.second) else 0.0
        assert after.systematic == pytest.approx(added)
        assert after.reach == pytest.approx(before.reach + added)
        assert after.difference == before.difference


def test_common_errors_count_by_what_two_cells_do_not_share():
    found = cells(100, 95, 90, blocks=5)
    common = {"c0": 0.01, "c1": 0.004, "c2": -0.002}
    systematic = {
        cell: SystematicRuns.from_pairs(
            [(block, Systematic(common={"offset": common[cell], "gain": 0.3})) for block, _ in runs]
        )
        for cell, runs in found.items()
    }
    ranked = rank(found, systematic=systematic)
    limits = {(pair.first, pair.second): pair.systematic for pair in ranked.pairs}
    assert limits == pytest.approx({("c0", "c1"): 0.006, ("c0", "c2"): 0.012, ("c1", "c2"): 0.006})


def test_a_cell_is_separated_where_its_difference_exceeds_spread_and_limits_together():
    found = cells(100, 98, blocks=5)
    (pair,) = rank(found).pairs
    room = abs(pair.difference) - pair.reach
    assert room > 0
    for share, separated in ((0.99, True), (1.01, False)):
        limited = rank(found, systematic=own(found, c1=-math.expm1(-share * room)))
        assert (limited.pairs[0].separated, limited.pairs[0].p < ALPHA) == (separated, separated)
        assert (limited.winner == "c0") == separated


def test_a_cell_whose_limits_reach_its_value_is_compared_with_none():
    found = cells(100, 80, 70, blocks=5)
    ranked = rank(found, systematic=own(found, c1=1.0))
    assert [pair.separated for pair in ranked.pairs] == [False, True, False]
    assert ranked.letters["c1"] == "ab"
    assert ranked.contenders == ["c0", "c1"]


def test_runs_of_a_cell_count_by_the_mean_of_their_limits():
    found = cells(100, 98, blocks=4)
    pairs = [(block, Systematic(own=0.04 if block == 0 else 0.0)) for block in range(4)]
    systematic = {"c1": SystematicRuns.from_pairs(pairs)}
    assert rank(found, systematic=systematic).pairs[0].systematic == pytest.approx(-math.log1p(-0.01))
