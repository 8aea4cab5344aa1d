# SPDX-License-Identifier: GPL-3.0-or-later
"""A search between ordered levels: what it asks for, what it concludes, and how often it errs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from joulerig.analysis.bisect import search
from joulerig.analysis.bisect.search import Block, Design, Outcome
from tests.support.simulated_bisect import Rig, conclude, planted

DESIGN = Design(levels=16, most_blocks=60)


def rig(first_bad=6, size=20.0, seed=1, **given):
    return Rig(planted(16, first_bad, size), np.random.default_rng(seed), **given)


def measured(blocks, one, design=DESIGN):
    """The blocks that a search asks for, up to so many."""
    found = []
    while len(found) < blocks and (now := search.replay(found, design)).outcome is Outcome.GOES_ON:
        found.append(one.measure(now.measure))
    return found


def test_the_ends_come_first():
    for count in range(3):
        assert search.replay(measured(count, rig()), DESIGN).measure == (0, 15)


def test_then_the_middle_next_to_an_end():
    found = search.replay(measured(3, rig()), DESIGN)
    assert found.outcome is Outcome.GOES_ON
    assert set(found.measure) & {0, 15}
    assert set(found.measure) & {7, 8}
    assert found.possible == tuple(range(1, 16))


@pytest.mark.parametrize("first_bad", range(1, 16))
def test_every_place_is_found(first_bad):
    found = conclude(rig(first_bad), DESIGN)
    assert (found.outcome, found.first_bad) == (Outcome.FOUND, first_bad)
    assert found.possible == (first_bad,)
    assert found.blocks <= 25
    assert found.confirming >= search.CONFIRM_AT[0]
    assert found.low < found.step < found.high
    assert found.step == pytest.approx(20, abs=2)


@pytest.mark.parametrize("size", [-20.0, 20.0])
def test_better_and_worse_are_found_alike(size):
    found = conclude(rig(size=size), DESIGN)
    assert found.first_bad == 6
    assert math.copysign(1, found.step) == math.copysign(1, size)


def test_two_levels_need_their_ends_alone():
    one = Rig([0.0, 9.0], np.random.default_rng(1))
    found = conclude(one, Design(2, 20))
    assert (found.outcome, found.first_bad) == (Outcome.FOUND, 1)
    assert found.blocks <= search.ENDS_AT[1]


def test_what_blocks_have_in_common_does_not_matter():
    one = conclude(rig(block_spread=0.0), DESIGN)
    other = conclude(rig(block_spread=0.0, drift=1e3), DESIGN)
    assert one.first_bad == other.first_bad == 6
    assert one.blocks == other.blocks
    assert one.step == pytest.approx(other.step)


def test_ends_that_are_alike_end_it():
    found = conclude(rig(size=0.0), DESIGN)
    assert (found.outcome, found.blocks) == (Outcome.ENDS_ALIKE, search.ENDS_AT[-1])
    assert found.first_bad is None
    assert found.low < 0 < found.high


def test_a_spent_budget_leaves_what_is_possible():
    found = conclude(rig(), Design(16, 4))
    assert (found.outcome, found.blocks, found.first_bad) == (Outcome.BUDGET_SPENT, 4, None)
    assert 6 in found.possible
    assert 1 < len(found.possible) < 15


def test_a_budget_that_ends_before_the_ends_are_compared_decides_nothing():
    found = conclude(rig(size=0.0), Design(16, 4))
    assert found.outcome is Outcome.BUDGET_SPENT
    assert found.possible == tuple(range(1, 16))


def never_found(means, seeds=range(3)):
    found = [conclude(Rig(list(means), np.random.default_rng(seed)), DESIGN) for seed in seeds]
    assert {one.outcome for one in found} <= {Outcome.SPREAD, Outcome.BUDGET_SPENT, Outcome.ENDS_ALIKE}
    assert all(one.first_bad is None for one in found)


def test_a_steady_slope_is_no_step():
    never_found([4.0 * level for level in range(16)])


def test_of_two_steps_the_smaller_one_is_never_the_answer():
    """Both are real; one that is less than half of the whole is not what made the ends differ."""
    means = [0.0] * 5 + [12.0] * 6 + [30.0] * 5
    for seed in range(3):
        found = conclude(Rig(means, np.random.default_rng(seed)), DESIGN)
        assert found.first_bad in (None, 11)


def test_levels_that_each_have_their_own_effect_have_no_step():
    """At most one in twenty; of 20 that is 1, and more than 3 come once in 60 times."""
    rng = np.random.default_rng(7)
    found = [conclude(Rig(list(rng.normal(0, 1, 16)), rng), DESIGN) for _ in range(20)]
    assert sum(one.outcome is Outcome.FOUND for one in found) <= 3


def test_neighbours_that_differ_by_less_than_half_are_no_answer():
    assert search._confirm([0.9, 1.1, 1.0, 0.95], 1.0, 0.05) is True
    assert search._confirm([0.1, -0.1, 0.0, 0.05], 1.0, 0.05) is False
    assert search._confirm([0.9, 1.1, 1.0], 1.0, 0.05) is None
    assert search._confirm([-0.9, -1.1, -1.0, -0.95], -1.0, 0.05) is True


def test_doubt_of_a_single_step_grows_with_the_levels_own_effects():
    def doubt(means):
        one = Rig(list(means), np.random.default_rng(8))
        return search.posterior([one.measure((0, level)) for level in 3 * list(range(1, 16))], 16)[1]

    step, own = planted(16, 6, 10.0), np.random.default_rng(9).normal(0, 5, 16)
    assert doubt(step) < 0.05
    assert doubt(own) > 0.5


def test_the_same_blocks_give_the_same_search():
    blocks = measured(8, rig(size=3.0))
    assert search.replay(blocks, DESIGN) == search.replay(list(blocks), DESIGN)


def test_a_search_goes_on_from_any_block():
    """What was asked for is what a replay of the blocks before it asks for."""
    one, asked, blocks = rig(size=3.0, seed=4), [], []
    while (now := search.replay(blocks, DESIGN)).outcome is Outcome.GOES_ON:
        asked.append(now.measure)
        blocks.append(one.measure(now.measure))
    assert [search.replay(blocks[:count], DESIGN).measure for count in range(len(blocks))] == asked
    assert [tuple(sorted(block.values)) for block in blocks] == asked


def test_a_block_that_failed_costs_budget_and_shows_nothing():
    blocks = measured(5, rig(size=3.0))
    with_failed = [blocks[0], Block({}), *blocks[1:], Block({0: 1.0})]
    one, other = search.replay(blocks, DESIGN), search.replay(with_failed, DESIGN)
    assert other.blocks == one.blocks + 2
    assert other.probabilities == one.probabilities
    assert search.replay([Block({})] * 60, DESIGN).outcome is Outcome.BUDGET_SPENT


def test_probabilities_are_of_the_levels_but_the_first():
    found, none = search.posterior(measured(6, rig(size=3.0)), 16)
    assert 0 < none < 1
    assert found[0] == 0
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()


def test_without_measurements_every_place_is_as_probable():
    assert search.posterior([], 4)[0] == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


def test_two_places_that_no_level_distinguishes_are_as_probable():
    found, _ = search.posterior([Block({0: 0.0, 15: 9.0}), Block({0: 0.1, 15: 9.2})], 16)
    assert found[1:] == pytest.approx([1 / 15] * 15)


def test_values_without_noise_are_decided():
    found = conclude(Rig([0.0] * 6 + [0.1] * 10, _Silent()), DESIGN)  # type: ignore[arg-type]
    assert (found.outcome, found.first_bad) == (Outcome.FOUND, 6)
    assert found.blocks <= 12


class _Silent:
    def standard_normal(self):
        return 0.0


@pytest.mark.parametrize(
    ("levels", "blocks", "said"),
    [(1, 40, "levels: 1: at least 2 are needed"), (4, 2, "most_blocks: 2: at least 3 are needed")],
)
def test_a_design_that_decides_nothing_is_refused(levels, blocks, said):
    with pytest.raises(ValueError, match=said):
        Design(levels, blocks)


def test_another_figures_step_is_of_the_same_place():
    blocks = measured(10, rig())
    middle, low, high = search.step_at(blocks, 16, 6)
    assert low < middle < high
    assert middle == pytest.approx(20, abs=2)
    assert search.step_at([Block({0: 1.0})], 16, 6) is None


def test_few_answers_are_wrong():
    """At most one in twenty; of 20 that is 1, and more than 3 come once in 60 times."""
    rng = np.random.default_rng(5)
    wrong = right = 0
    for number in range(20):
        first_bad = 1 + number % 15
        found = conclude(Rig(planted(16, first_bad, 5.0), rng, drift=0.1), DESIGN)
        wrong += found.outcome is Outcome.FOUND and found.first_bad != first_bad
        right += found.first_bad == first_bad
    assert wrong <= 3
    assert right >= 15
