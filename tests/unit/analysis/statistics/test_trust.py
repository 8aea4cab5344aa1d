# SPDX-License-Identifier: GPL-3.0-or-later
"""How often comparisons err, on few simulated campaigns; `tests/bench/trust.py` has many."""

from __future__ import annotations

import pytest
from scipy import stats

from tests.bench import trust

CAMPAIGNS = 60
MOST_SEPARATED, MOST_NAMED = 10, 9


def test_the_bounds_leave_room_for_chance_alone():
    assert stats.binom.sf(MOST_SEPARATED, CAMPAIGNS, trust.MOST_SEPARATED) < 0.002
    assert stats.binom.sf(MOST_NAMED, CAMPAIGNS, trust.MOST_NAMED) < 0.002


@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize("setting", trust.NULLS)
def test_where_nothing_differs_few_campaigns_separate_any_cells(setting, blocks):
    found = trust.line(setting, trust.NULLS[setting], blocks, CAMPAIGNS)
    assert found.separated * CAMPAIGNS <= MOST_SEPARATED
    assert found.named * CAMPAIGNS <= MOST_NAMED


@pytest.mark.parametrize("setting", trust.NULLS)
def test_one_run_a_cell_separates_nothing_and_names_none(setting):
    found = trust.line(setting, trust.NULLS[setting], 1, 3)
    assert (found.separated, found.named) == (0, 0)


def test_a_best_cell_a_tenth_ahead_is_found_in_five_blocks():
    found = trust.line("best ahead", trust.best_ahead, 5, 100)
    assert found.right >= 0.78  # 85 %, less two standard deviations of the simulation
    assert found.named == found.right
