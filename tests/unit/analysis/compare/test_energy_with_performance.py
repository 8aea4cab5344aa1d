# SPDX-License-Identifier: GPL-3.0-or-later
"""How energy changes with performance: Cemp at its anchors, and elasticity over load levels."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare import cemp, elasticity
from joulerig.analysis.compare.cemp import Loads, Point
from joulerig.analysis.statistics import interval
from joulerig.analysis.statistics.differences import Systematic
from joulerig.analysis.tables import comparisons
from tests.support import simulated_campaign

POINTS = {
    "frugal": Point(performance=100, ai=100, watts=1),
    "fast": Point(performance=300, ai=75, watts=4),
    "plain": Point(performance=200, ai=50, watts=4),
}


def loads(
    points: dict, *, spread: float = 0.01, blocks: int = 5, seed: int = 1, systematic: dict | None = None
) -> dict[str, Loads]:
    rng = np.random.default_rng(seed)

    def varied(value: float) -> dict[int, float]:
        return {block: value * math.exp(spread * rng.normal()) for block in range(blocks)}

    return {
        name: Loads(
            varied(point.performance), varied(point.watts), (systematic or {}).get(name, Systematic())
        )
        for name, point in points.items()
    }


def by_anchor(changes: list[cemp.Change]) -> dict[str, cemp.Change]:
    return {change.anchor: change for change in changes}


def test_cemp_is_change_of_energy_over_change_of_performance_at_three_anchors():
    found = by_anchor(cemp.changes(POINTS, loads(POINTS, spread=1e-6), "W"))
    assert {anchor: change.cell for anchor, change in found.items()} == {
        "largest AI": "frugal",
        "lowest power": "frugal",
        "highest performance": "fast",
    }
    fast = found["highest performance"]
    assert (fast.energy, fast.performance) == pytest.approx((4 / 3 - 1, 0.5), rel=1e-4)
    assert fast.cemp == pytest.approx(fast.energy / fast.performance)
    assert fast.quantity == "W"


def test_cemp_has_fiellers_interval_of_its_blocks():
    fast = by_anchor(cemp.changes(POINTS, loads(POINTS), "W"))["highest performance"]
    of_blocks = loads(POINTS)
    energy, rate = (
        np.array([[getattr(of_blocks[name], which)[block] for block in range(5)] for name in POINTS])
        for which in ("energy", "performance")
    )
    energy, rate = (values[1] / values.mean(axis=0) - 1 for values in (energy, rate))
    assert fast.cemp_interval == pytest.approx(interval.fieller(energy, rate))
    assert fast.performance_interval == pytest.approx(interval.student(rate))
    assert fast.cemp_interval.low < fast.cemp < fast.cemp_interval.high


def test_what_the_meter_leaves_open_of_energy_is_in_its_interval_and_in_cemps():
    alone = by_anchor(cemp.changes(POINTS, loads(POINTS), "W"))["highest performance"]
    wrong = {"fast": Systematic(common={"offset": 0.03})}
    found = by_anchor(cemp.changes(POINTS, loads(POINTS, systematic=wrong), "W"))["highest performance"]
    limit = math.expm1(0.02)  # of the cell, less that of the mean of the three
    assert found.energy_interval.low == pytest.approx(alone.energy_interval.low - limit)
    assert found.cemp_interval.high == pytest.approx(
        alone.cemp_interval.high + limit / abs(found.performance)
    )


def test_there_is_no_cemp_where_the_change_of_performance_is_within_its_uncertainty():
    same = {name: Point(100, ai, watts) for name, ai, watts in (("x", 50, 2), ("y", 25, 4))}
    for change in cemp.changes(same, loads(same, seed=4), "W"):
        assert change.performance_interval.low < 0 < change.performance_interval.high
        assert (change.cemp, change.cemp_interval, change.why) == (None, None, cemp.WITHIN)
        assert change.energy_interval is not None


def test_one_block_has_readings_and_no_cemp():
    for change in cemp.changes(POINTS, loads(POINTS, blocks=1), "W"):
        assert change.energy != 0
        assert (change.energy_interval, change.cemp, change.why) == (None, None, cemp.ONE_BLOCK)


@pytest.mark.parametrize("points", [{}, {"x": POINTS["fast"]}])
def test_no_cemp_without_two_cells(points):
    assert cemp.changes(points, loads(points), "W") == []


def test_no_cemp_without_performance():
    points = {"x": Point(0, 0, 1), "y": Point(0, 0, 2)}
    assert cemp.changes(points, loads(points), "W") == []


@pytest.mark.parametrize(
    ("ops", "seconds", "fixed"),
    [
        pytest.param([900, 1400, 1000], [10.0, 10.001, 10.0], False, id="a time"),
        pytest.param([5000, 5000, 5000], [9.0, 14.0, 11.0], True, id="its work"),
        pytest.param([5000], [9.0], False, id="one run shows neither"),
        pytest.param([0, 10], [9.0, 9.0], False, id="no work was done"),
    ],
)
def test_a_load_is_of_fixed_work_where_work_varies_less_than_time(ops, seconds, fixed):
    assert cemp.is_fixed_work(ops, seconds) == fixed


def test_the_energy_of_a_fixed_time_is_watts_and_of_fixed_work_joules(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), replicates=3)
    (timed,) = comparison.compare_cells(results.load(folder))
    assert timed.energy_quantity == "W"
    cell, runs = next(iter(results.load(folder).cells().items()))
    assert timed.loads[cell].energy == pytest.approx({run.block: run.result.mean_watts for run in runs})
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute("UPDATE performance SET seconds = seconds * 50000.0 / ops, ops = 50000")
    loaded = results.load(folder)
    (worked,) = comparison.compare_cells(loaded)
    assert worked.energy_quantity == "J"
    runs = loaded.cells()[cell]
    assert worked.loads[cell].energy == pytest.approx({run.block: run.result.ai_joules for run in runs})


# Elasticity


def load_levels(
    slope: float, steps: tuple[float, ...], *, spread: float = 0.02, blocks: int = 5, seed: int = 1
):
    """Return loads at levels that differ in ln P by `steps`, and in ln E by `slope` times that."""
    rng = np.random.default_rng(seed)
    return [
        Loads(
            {block: math.exp(step + spread * rng.normal()) for block in range(blocks)},
            {block: math.exp(slope * step + spread * rng.normal()) for block in range(blocks)},
        )
        for step in steps
    ]


def test_elasticity_is_the_slope_of_ln_energy_over_ln_performance():
    found = elasticity.of_levels(load_levels(0.4, (0.0, 0.5, 1.0), spread=1e-7), [1.0, 1.2, 1.5])
    assert found.value == pytest.approx(0.4, abs=1e-5)
    assert found.watts_variation == pytest.approx(np.std([1.0, 1.2, 1.5], ddof=1) / np.mean([1.0, 1.2, 1.5]))


def test_its_interval_covers_the_slope_in_95_percent():
    found = [
        elasticity.of_levels(load_levels(0.4, (0.0, 0.5, 1.0), seed=seed), [1.0, 1.2, 1.5])
        for seed in range(400)
    ]
    assert all(one.value is not None for one in found)
    covered = sum(one.interval.low <= 0.4 <= one.interval.high for one in found)
    assert 0.925 * 400 <= covered <= 0.975 * 400


@pytest.mark.parametrize("blocks", [2, 3, 5])
def test_where_performance_does_not_differ_it_is_given_in_5_percent_at_most(blocks):
    found = [
        elasticity.of_levels(load_levels(0.4, (0.0, 0.0, 0.0), blocks=blocks, seed=seed), [1.0, 1.0, 1.0])
        for seed in range(400)
    ]
    assert sum(one.value is not None for one in found) <= 33  # 5 % and three standard deviations
    assert {one.why for one in found if one.value is None} == {elasticity.WITHIN}


def test_a_load_without_work_has_no_elasticity_and_says_so():
    idle = Loads(dict.fromkeys(range(3), 0.0), dict.fromkeys(range(3), 1.0))
    found = elasticity.of_levels([*load_levels(0.4, (0.0,), blocks=3), idle], [1.0, 2.0])
    assert (found.value, found.why) == (None, elasticity.NO_WORK)


def test_one_block_has_no_elasticity_and_says_why():
    found = elasticity.of_levels(load_levels(0.4, (0.0, 1.0), blocks=1), [1.0, 2.0])
    assert (found.value, found.interval, found.why) == (None, None, elasticity.ONE_BLOCK)


def test_an_error_of_the_meter_that_levels_do_not_share_is_in_the_interval():
    alone = load_levels(0.4, (0.0, 1.0))
    wrong = [Loads(one.performance, one.energy, Systematic(common={"offset": part}))
             for one, part in zip(alone, (0.03, 0.01), strict=True)]  # fmt: skip
    before, after = (elasticity.of_levels(one, [1.0, 2.0]) for one in (alone, wrong))
    assert after.interval.high - before.interval.high == pytest.approx(0.02, rel=0.05)
    shared = [Loads(one.performance, one.energy, Systematic(common={"gain": 0.03})) for one in alone]
    assert elasticity.of_levels(shared, [1.0, 2.0]).interval == pytest.approx(before.interval)


def test_each_combination_has_one_over_each_factor_that_varies_the_load(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=("nvme-plp",),
        schedulers=("none",),
        replicates=3,
        extra_factors={"threads": ("1", "4"), "fill": ("50",)},
    )
    loaded = results.load(folder)
    table = comparisons.elasticity(loaded, comparison.compare_cells(loaded))
    assert table.select("filesystem", "factor", "levels", "held").rows() == [
        (name, "threads", "1, 4", "workload=randwrite-fsync, fill=50") for name in ("ext4", "f2fs", "xfs")
    ]
    assert table["elasticity"].null_count() + (table["why"] == "").sum() == 3
    assert (table["watts_variation_percent"] >= 0).all()
