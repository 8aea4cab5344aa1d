# SPDX-License-Identifier: GPL-3.0-or-later
"""The bars of `make bench-trust`, and coverage on few simulated cells."""

from __future__ import annotations

import pytest
from scipy import stats

from tests.bench import bench_trust, coverage

CELLS = 400
LEAST, MOST = 361, 396

HOLDING = {
    "cell_coverage": dict.fromkeys(map(str, range(20)), 0.95),
    "null_false_separation_worst": 0.05,
    "null_false_winner_worst": 0.05,
    "n1_names_a_winner": 0.0,
    "modes_false_winner_worst": 0.0,
    "power_10_percent_n5": 0.9,
    "between_campaigns_wrong_worst": {"gate": 0.05, "series": 0.02, "bisect": 0.0},
    "planted_faults": 20,
    bench_trust.REPORTED: 15,
    bench_trust.BY_CHECK: 4,
    "sealed_runs": 60,
    "sealed_inside": 60,
    "hostile_signals": 39,
    "hostile_chosen_after_the_code": 13,
    "hostile_outside": 0,
    "hostile_median_ratio": 2.1,
    "ai_10000_runs_seconds": 0.5,
    "pandas_ai_seconds": 0.6,
    "idle_right_worst": 0.95,
    "obey_honest_contradicted": 0.01,
    "leftovers_right": 0.95,
}


def failed(**changed):
    return [text for holds, text in bench_trust.bars({**HOLDING, **changed}) if not holds]


def test_all_bars_can_hold():
    assert failed() == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cell_coverage", {**HOLDING["cell_coverage"], "0": 0.92}),
        ("cell_coverage", {**HOLDING["cell_coverage"], "0": 0.98}),
        ("cell_coverage", {"0": 0.95}),
        ("null_false_separation_worst", 0.07),
        ("null_false_winner_worst", 0.06),
        ("n1_names_a_winner", 0.05),
        ("modes_false_winner_worst", 0.06),
        ("power_10_percent_n5", 0.8),
        ("between_campaigns_wrong_worst", {"gate": 0.0, "series": 0.06, "bisect": 0.0}),
        ("planted_faults", 19),
        (bench_trust.REPORTED, 14),
        (bench_trust.BY_CHECK, 2),
        ("sealed_runs", 59),
        ("sealed_inside", 56),
        ("hostile_signals", 34),
        ("hostile_chosen_after_the_code", 3),
        ("hostile_outside", 1),
        ("hostile_median_ratio", 20.1),
        ("ai_10000_runs_seconds", 0.7),
        ("idle_right_worst", 0.94),
        ("obey_honest_contradicted", 0.02),
        ("leftovers_right", 0.94),
    ],
)
def test_a_bar_that_does_not_hold_is_named(key, value):
    (text,) = failed(**{key: value})
    assert text.startswith(f"{key}: ")


def test_the_bounds_of_the_short_coverage_leave_room_for_chance_alone():
    assert stats.binom.cdf(LEAST - 1, CELLS, 0.94) < 0.01
    assert stats.binom.sf(MOST, CELLS, 0.97) < 0.01


@pytest.mark.parametrize("runs", coverage.RUNS)
@pytest.mark.parametrize("setting", coverage.SETTINGS, ids=lambda setting: setting.name)
def test_the_interval_of_a_cells_ai_covers_the_truth(setting, runs):
    assert LEAST <= CELLS * coverage.covered(setting, runs, CELLS) <= MOST
