# SPDX-License-Identifier: GPL-3.0-or-later
"""Movements of cells between campaigns: what all do together, and what each does apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from joulerig.analysis.statistics import movements
from joulerig.analysis.statistics.differences import Systematic
from joulerig.analysis.statistics.movements import Deviation, move
from joulerig.analysis.statistics.ranking import ALPHA


def campaign(cells=15, blocks=5, seed=1, day=0.0, spread=0.01):
    rng = np.random.default_rng(seed)
    return day + rng.normal(0, spread, (cells, blocks)) + rng.normal(0, 0.02, blocks)


def test_a_day_is_the_common_movement_and_leaves_the_cells_alone():
    still, warm = (move(campaign(), campaign(seed=2, day=day)) for day in (0.0, -0.3))
    assert warm.common == pytest.approx(still.common - 0.3)
    assert warm.own == pytest.approx(still.own)
    assert warm.reach == pytest.approx(still.reach)


def test_a_cell_that_falls_is_apart_and_moves_the_others_little():
    after = campaign(seed=2)
    after[3] -= 0.2
    found, without = move(campaign(), after), move(campaign(), campaign(seed=2))
    assert list(np.flatnonzero(found.p < 0.05)) == [3]
    assert found.own[3] + found.reach[3] < -0.15
    assert found.common == pytest.approx(without.common, abs=0.003)


def test_fewer_than_half_of_the_cells_do_not_move_what_all_do():
    after = campaign(seed=2, spread=0.001)
    after[:7] -= 0.2
    assert abs(move(campaign(spread=0.001), after).common) < 0.05


def test_what_cells_do_apart_widens_their_intervals():
    rng = np.random.default_rng(3)
    before = campaign()
    quiet = move(before, campaign(seed=2))
    moved = move(before, campaign(seed=2) + rng.normal(0, 0.05, (15, 1)))
    assert moved.reach.min() > 3 * quiet.reach.max()
    assert not (moved.p < 0.05).any()


def test_a_known_deviation_widens_what_it_is_of():
    pair = campaign(), campaign(seed=2)
    none, day, both = (move(*pair, deviation) for deviation in (None, Deviation(0.05), Deviation(0.05, 0.05)))
    assert not none.known
    assert day.known
    assert day.common_reach > none.common_reach
    assert day.reach == pytest.approx(none.reach)
    assert (both.reach > 2 * day.reach).all()


def test_an_interval_ends_at_0_where_the_change_is_just_significant():
    before, after, known = campaign(), campaign(seed=2), Deviation(0.0, 0.05)
    found = move(before, after, known)
    highest = int(found.own.argmax())  # raising it further leaves the median, which all have in common
    after[highest] += found.reach[highest] - found.own[highest]
    raised = move(before, after, known)
    assert raised.own[highest] == pytest.approx(raised.reach[highest])
    assert raised.p[highest] == pytest.approx(ALPHA)


@pytest.mark.parametrize("cells", [1, 2])
def test_few_cells_have_no_common_movement(cells):
    pair = campaign(cells), campaign(cells, seed=2)
    alone, known = move(*pair), move(*pair, Deviation(0.05))
    assert alone.common is None
    assert (known.reach > 1.96 * math.sqrt(2) * 0.05).all()
    assert (alone.reach < known.reach).all()


def test_three_cells_are_presumed_to_move_as_their_runs_do():
    pair = campaign(3, 10), campaign(3, 10, seed=2)
    assert (move(*pair).reach > 2 * move(*pair, Deviation(0.0, 0.0)).reach).all()


def test_another_gain_moves_all_cells_and_another_offset_each():
    pair = campaign(), campaign(seed=2)
    exact = move(*pair)

    def wrong(errors):
        return move(*pair, errors=[(Systematic(), Systematic(common={"new": error})) for error in errors])

    gain, offset = wrong([0.01] * 15), wrong(np.linspace(0.005, 0.02, 15))
    assert gain.common_limit == pytest.approx(0.01)
    assert gain.reach == pytest.approx(exact.reach)
    assert offset.limit[[0, 14]] == pytest.approx(0.0075, abs=0.004)
    assert offset.reach - offset.limit == pytest.approx(exact.reach)
    gaps = move(*pair, errors=[(Systematic(), Systematic(own=0.3 * (cell == 0))) for cell in range(15)])
    assert gaps.limit[0] > 0.3
    assert gaps.limit[1:].max() < 0.01


def test_runs_that_are_all_alike_test_nothing():
    found = move(np.zeros((4, 3)), np.ones((4, 3)))
    assert found.why == "the runs are all alike"
    assert np.isnan(found.p).all()


def test_no_cell_is_no_movement():
    assert len(move(np.empty((0, 3)), np.empty((0, 3))).own) == 0


def test_the_variance_of_own_movements_is_found_although_some_are_changes():
    rng = np.random.default_rng(4)
    moved = rng.normal(0, 1, 400)
    moved[:40] += 50
    found, degrees = movements.own_variance(moved, np.full(400, 0.25))
    assert 0.5 < found < 1.6
    assert 200 < degrees < 240
    assert movements.own_variance(0.1 * moved[40:], np.full(360, 0.25))[0] == 0


def test_a_series_common_movement_is_of_the_cells_that_a_campaign_has():
    rng = np.random.default_rng(5)
    days = np.array([0.0, 0.3, -0.2, 0.1])
    table = rng.normal(0, 1, (6, 1)) + days + rng.normal(0, 1e-3, (6, 4))
    table[0, 1] = table[1, 2] = math.nan
    assert movements.common_movement(table) == pytest.approx(days - days.mean(), abs=0.002)
    table[:4, 3] = math.nan
    assert list(np.isnan(movements.common_movement(table))) == [False, False, False, True]
    assert list(movements.common_movement(table[:2])) == [0, 0, 0, 0]
