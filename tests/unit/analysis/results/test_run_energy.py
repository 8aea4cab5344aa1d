# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's energy as rows of the journal, and what follows from them."""

from __future__ import annotations

import pytest

from joulerig.analysis.energy.interval import EnergyBudget, IntervalEnergy
from joulerig.analysis.results import run_energy
from joulerig.analysis.results.schema import Phase, RailEnergy

DONE = {"ops": 500, "read_bytes": 0, "write_bytes": 2_000_000, "seconds": 4.0}
NAMES = ("joules", "true_joules", "joules_low", "joules_high", "gap_low_joules", "gap_high_joules")


def rail(phase: str = "workload", **values: float | None) -> dict:
    given = dict(zip(NAMES, (9.0, 10.0, 8.0, 12.0, 0.0, 2.0), strict=True))
    return {"phase": phase, "product_joules": 0.0, "sampled_joules": None, **given, **values}


def test_a_runs_result_is_over_all_rails_of_its_load():
    found = run_energy.result([rail("idle", joules=77.0), rail(), rail(joules=1.0, true_joules=2.0)], DONE)
    assert (found["joules"], found["true_joules"]) == (10.0, 12.0)
    assert (found["joules_low"], found["joules_high"]) == (16.0, 24.0)
    assert found["error_percent"] == pytest.approx(100 * (10 - 12) / 12)
    assert found["corrected_joules"] == 12.0  # with the middle of what the gaps drew
    assert found["mean_watts"] == 3.0
    assert found["ai_ops_per_joule"] == pytest.approx(500 / 12)
    assert found["ai_mb_per_joule"] == pytest.approx(2 / 12)


def test_a_product_of_means_is_corrected_by_half_of_how_much_too_high_it_can_be():
    found = run_energy.result([rail(), rail(joules=1.0, product_joules=3.0)], DONE)
    assert found["corrected_joules"] == 12.0 - 1.5


@pytest.mark.parametrize("name", NAMES[:4])
def test_what_is_not_known_of_one_rail_is_not_known_of_the_run(name):
    found = run_energy.result([rail(), rail(**{name: None})], DONE)
    assert found[name] is None
    others = [other for other in NAMES[:4] if other != name]
    assert all(found[other] is not None for other in others)
    if name == "joules":
        assert found["ai_ops_per_joule"] is found["corrected_joules"] is found["error_percent"] is None


def test_a_run_without_a_rail_has_no_result():
    assert set(run_energy.result([], DONE).values()) == {None}


def test_each_column_of_a_row_is_what_its_name_says():
    found = IntervalEnergy(
        100.0,
        "",
        1.0,
        2,
        3,
        4,
        5.0,
        6,
        7,
        8,
        9,
        10.0,
        EnergyBudget(11.0, 12.0, 13.0, 14.0, 15.0, 16.0),
        17.0,
        18.0,
        spread_watts=19.0,
        impossible=20,
        sampled_joules=21.0,
    )
    row = run_energy.row(Phase("idle", 1, 2, 3, 4), ("d", "tap", "12v"), found)
    assert row == {
        "phase": "idle", "drive": "d", "meter": "tap", "rail": "12v", "joules": 100.0, "true_joules": None,
        "joules_low": found.joules_low, "joules_high": found.joules_high, "samples": 2, "expected": 3,
        "lost": 4, "gap_seconds": 5.0, "duplicate": 6, "repeated": 7, "surplus": 8, "over_range": 9,
        "worst_gap_seconds": 10.0, "gap_low_joules": found.budget.gap_low,
        "gap_high_joules": found.budget.gap_high, "interpolation_joules": found.budget.interpolation,
        "alignment_joules": found.budget.alignment, "product_joules": found.budget.product,
        "meter_joules": found.budget.meter, "volt_seconds": 17.0, "amp_seconds": 18.0,
        "spread_watts": 19.0, "impossible": 20, "sampled_joules": 21.0,
    }  # fmt: skip
    assert found.joules_low < found.joules_high
    assert RailEnergy(**row).unaccounted == 3 - (2 + 4 + 6 + 7 + 9 + 20)
