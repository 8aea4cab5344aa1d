# SPDX-License-Identifier: GPL-3.0-or-later
"""Races name few winners where nothing differs, by hundreds of simulated campaigns."""

from __future__ import annotations

import pytest

from joulerig.analysis.statistics.racing import Design
from tests.support import simulated_races


@pytest.mark.long
@pytest.mark.parametrize("line", simulated_races.NULLS)
def test_where_nothing_differs_at_most_one_race_in_twenty_names_a_winner(line):
    assert simulated_races.tally(line, 15, Design.even(10), campaigns=200, seed=1).any_winner <= 0.05


@pytest.mark.long
def test_two_cells_alike_have_a_winner_in_at_most_one_race_in_twenty():
    found = simulated_races.tally("alike", 2, Design.even(10), campaigns=600, seed=1)
    assert found.any_winner <= 0.05
