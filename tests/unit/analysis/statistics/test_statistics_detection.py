# SPDX-License-Identifier: GPL-3.0-or-later
"""What a design can find: integrals against simulated campaigns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis.statistics import ranking
from joulerig.analysis.statistics.detection import expected_share, smallest_fixed, smallest_in_race
from joulerig.analysis.statistics.differences import detectable
from joulerig.analysis.statistics.racing import Design, replay
from tests.support.simulated_races import (
    BEST,
    SPREAD,
    executed_share,
    ladder,
    runs,
    slippage,
)


def found_by_rank(cells: int, blocks: int, behind: float, campaigns: int) -> float:
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(campaigns):
        values = runs(rng, slippage(cells, behind), blocks)
        ordered = sorted(values, key=lambda cell: -sum(value for _, value in values[cell]))
        found += ranking.rank({cell: values[cell] for cell in ordered}).winner == BEST
    return found / campaigns


def found_by_race(cells: int, blocks: int, behind: float, campaigns: int) -> float:
    rng = np.random.default_rng(1)
    means, design = slippage(cells, behind), Design.even(blocks)
    return sum(replay(runs(rng, means, blocks), design).winner == BEST for _ in range(campaigns)) / campaigns


@pytest.mark.parametrize(("cells", "blocks"), [(2, 5), (4, 5), (6, 3), (6, 10), (15, 5), (15, 10)])
def test_a_fixed_design_finds_its_smallest_difference_in_nine_of_ten_campaigns(cells, blocks):
    behind = smallest_fixed(cells, blocks, SPREAD)
    assert 0.84 <= found_by_rank(cells, blocks, behind, 120) <= 0.97
    assert found_by_rank(cells, blocks, 0.7 * behind, 60) < 0.8


@pytest.mark.parametrize(("cells", "blocks"), [(2, 5), (4, 3), (6, 10)])
def test_nine_of_ten_campaigns_separate_a_difference_that_one_calls_detectable(cells, blocks):
    rng = np.random.default_rng(2)

    def with_best(behind: float) -> list[ranking.Pair]:
        campaigns = (ranking.rank(runs(rng, slippage(cells, behind), blocks)) for _ in range(150))
        return [pair for one in campaigns for pair in one.with_best if pair.first == BEST or not behind]

    found = np.median([pair.detectable for pair in with_best(0.0)])
    assert 0.84 <= np.mean([pair.separated for pair in with_best(found)]) <= 0.96
    assert np.mean([pair.separated for pair in with_best(0.7 * found)]) < 0.8


def test_a_meters_share_is_added_to_what_is_detectable():
    found = ranking.Pair("a", "b", 0.0, 0.05, systematic=0.01, error=0.01, degrees=8)
    assert found.detectable == pytest.approx(-np.expm1(-0.01 - 0.01 * detectable(4.0, 8)))
    exact = ranking.Pair("a", "b", 0.0, 0.01, systematic=0.01, error=0.0, degrees=8)
    assert exact.detectable == -np.expm1(-0.01)
    assert ranking.Pair("a", "b").detectable is None


@pytest.mark.parametrize(("degrees", "bound"), [(1, 12.7), (1.5, 8.0), (4, 2.8), (12, 3.3), (200, 2.0)])
def test_what_is_detectable_is_the_noncentrality_of_t(degrees, bound):
    assert stats.nct.cdf(bound, degrees, detectable(bound, degrees)) == pytest.approx(0.1, abs=0.003)


def test_the_search_ends_for_one_degree_of_freedom_at_a_small_level():
    assert 636 < detectable(636.0, 1) < 5000


@pytest.mark.parametrize(("cells", "blocks"), [(2, 5), (6, 5), (15, 3), (15, 10), (36, 6)])
def test_a_race_finds_its_smallest_difference_in_nine_of_ten_campaigns(cells, blocks):
    behind = smallest_in_race(cells, Design.even(blocks), SPREAD)
    assert 0.84 <= found_by_race(cells, blocks, behind, 300) <= 0.96
    assert found_by_race(cells, blocks, 0.8 * behind, 200) < 0.8


def test_the_best_of_15_cells_has_to_be_a_tenth_ahead_in_5_blocks_where_runs_vary_by_3_percent():
    assert 1 / (1 - smallest_fixed(15, 5, 0.03)) - 1 == pytest.approx(0.10, abs=0.005)
    assert 1 / (1 - smallest_fixed(15, 10, 0.03)) - 1 == pytest.approx(0.07, abs=0.003)


def test_more_blocks_find_smaller_differences_and_more_spread_larger_ones():
    for smallest in (
        smallest_fixed,
        lambda cells, blocks, spread: smallest_in_race(cells, Design.even(blocks), spread),
    ):
        by_blocks = [smallest(15, blocks, 0.03) for blocks in (3, 5, 7, 10, 20)]
        assert by_blocks[0] > by_blocks[2] > by_blocks[3] > by_blocks[4]
        assert smallest(15, 10, 0.06) > 1.8 * smallest(15, 10, 0.03)
        assert smallest(36, 10, 0.03) > smallest(4, 10, 0.03)


def test_a_design_that_finds_nothing_says_so():
    assert smallest_fixed(15, 1, 0.03) is None
    assert smallest_fixed(15, 2, 5.0) is None
    assert smallest_in_race(15, Design.even(2), 0.03) is None  # the runner-up stays at look 2
    assert smallest_in_race(15, Design.even(3), 5.0) is None


@pytest.mark.parametrize("cells", [15, 36])
@pytest.mark.parametrize("kind", [ladder, slippage])
def test_the_expected_share_is_that_of_simulated_races(kind, cells):
    rng, means, design = np.random.default_rng(2), kind(cells), Design.even(10)
    races = [replay(runs(rng, means, 10), design) for _ in range(100)]
    simulated = sum(executed_share(race, cells) for race in races) / len(races)
    assert expected_share(1 - means[1:], design, SPREAD) == pytest.approx(simulated, abs=0.03)


def test_cells_that_are_alike_are_expected_to_take_nearly_all_runs():
    assert expected_share([0.0] * 14, Design.even(10), SPREAD) > 0.95
