# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's power at regular steps, and its peak, from stored points."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.results.schema import Phase
from joulerig.analysis.runs import over_time
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign

T0 = 1_794_600_000_000_000_000
MS = 1_000_000


def phase(seconds: float) -> Phase:
    return Phase("workload", T0, T0 + round(seconds * 1e9), 0, 0)


def points(times_ms, watts, rail="12v", drive="d") -> pl.DataFrame:
    """Points at those times since the phase began."""
    return pl.DataFrame(
        {"time_ns": [T0 + round(at * MS) for at in times_ms], "watts": watts},
        schema_overrides={"watts": pl.Float64},
    ).with_columns(rail=pl.lit(rail), drive=pl.lit(drive), meter=pl.lit("m"))


def regular(watts, **names) -> pl.DataFrame:
    """A point every 10 ms, the first at 0: `watts[k]` from 10 k to 10 (k + 1) ms."""
    return points(10.0 * np.arange(len(watts) + 1), [None, *watts], **names)


def test_steps_hold_the_energy_of_the_points():
    watts = np.random.default_rng(1).gamma(4, 1, 600)
    found = over_time.from_points(regular(watts), phase(6))
    assert len(found.watts) == 60
    assert found.step_seconds == pytest.approx(0.1)
    assert found.watts == pytest.approx(watts.reshape(60, 10).mean(axis=1))
    assert found.instants[[0, -1]] == pytest.approx([0.05, 5.95])
    assert found.peak_watts == watts.max()


def test_rails_are_summed_whatever_their_points_instants():
    one = regular([1.0] * 200)
    other = points([-7, *(3 + 20 * np.arange(101))], [None, *([2.0] * 101)], rail="5v")
    found = over_time.from_points(pl.concat([one, other]), phase(2))
    assert found.watts == pytest.approx([3.0] * len(found.watts))
    assert found.peak_watts == 3.0


def test_the_peak_of_rails_is_that_of_their_sum():
    one, other = [1.0] * 100, [1.0] * 100
    one[20], other[70] = 5.0, 6.0
    found = over_time.from_points(pl.concat([regular(one), regular(other, rail="5v")]), phase(1))
    assert found.peak_watts == 7.0


def test_what_is_outside_the_phase_is_in_no_figure():
    watts = [9.0] * 100 + [1.0] * 100 + [9.0] * 100
    found = over_time.from_points(points(10.0 * np.arange(301) - 1000, [None, *watts]), phase(1))
    assert found.watts == pytest.approx([1.0] * 10)
    assert found.peak_watts == 1.0


@pytest.mark.parametrize("how", ["the gap has no watts", "the points are far apart"])
def test_a_gap_leaves_its_steps_out(how):
    frame = regular([1.0] * 200)
    inside = (pl.col("time_ns") > T0 + 500 * MS) & (pl.col("time_ns") <= T0 + 700 * MS)
    if how == "the gap has no watts":
        frame = frame.with_columns(watts=pl.when(inside).then(None).otherwise("watts"))
    else:
        frame = frame.filter(~inside)
    found = over_time.from_points(frame, phase(2))
    assert np.isnan(found.watts[[5, 6]]).all()
    assert found.watts[[4, 8]] == pytest.approx([1.0, 1.0])


def test_one_rail_that_is_not_measured_leaves_the_sum_out():
    short = regular([1.0] * 100, rail="5v")
    found = over_time.from_points(pl.concat([regular([1.0] * 200), short]), phase(2))
    assert found.watts[:10] == pytest.approx([2.0] * 10)
    assert np.isnan(found.watts[10:]).all()


def test_a_long_run_or_a_slow_meter_sets_the_length_of_the_steps():
    hour = points(1000.0 * np.arange(3601), [None, *([1.0] * 3600)])
    found = over_time.from_points(hour, phase(3600))
    assert (len(found.watts), found.step_seconds) == (120, 30.0)
    assert found.watts == pytest.approx([1.0] * 120)
    assert over_time.from_points(hour, phase(60)).step_seconds == pytest.approx(3)


@pytest.mark.parametrize("frame", [points([], []), points([5], [1.0])])
def test_without_two_points_there_is_nothing(frame):
    assert over_time.from_points(frame, phase(6)) is None


def test_a_campaign_has_it_by_run_and_names_files_that_cannot_be_read(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), schedulers=("none",), traces=True)
    campaign = results.load(folder)
    broken, missing, whole = campaign.runs
    (broken.folder / "power.csv").write_text("rail\n12v\n")
    (missing.folder / "power.csv").unlink()
    found, damaged = over_time.power_by_run(campaign)
    assert list(found) == [whole.id]
    assert len(damaged) == 1
    assert str(broken.folder / "power.csv") in damaged[0]
    peaks = runs_and_cells.runs(campaign)["peak_watts"].to_list()
    assert peaks == [None, None, found[whole.id].peak_watts]
    assert peaks[2] > whole.result.mean_watts
    by_cell = dict(runs_and_cells.cells(campaign).select("cell", "peak_watts").iter_rows())
    assert by_cell == {broken.cell: None, missing.cell: None, whole.cell: peaks[2]}


# Performance


def performance(times, ops) -> pl.DataFrame:
    return pl.DataFrame({"time_ns": [T0 + round(at * 1e9) for at in times], "ops": ops})


def test_ops_per_joule_over_time_are_what_was_done_over_what_was_drawn():
    watts = [2.0] * 300 + [4.0] * 300
    found = over_time.from_points(
        regular(watts), phase(6), performance(range(1, 7), [100] * 3 + [300] * 3)
    ).work
    assert found.instants == pytest.approx(np.arange(6) + 0.5)
    assert found.ops_per_second == pytest.approx([100] * 3 + [300] * 3)
    assert found.ops_per_joule == pytest.approx([50] * 3 + [75] * 3)
    assert found.step_seconds == pytest.approx(1)


def test_a_last_point_that_comes_soon_is_left_out_and_many_are_taken_together():
    frame = points(100.0 * np.arange(6001), [None, *([2.0] * 6000)])
    short = over_time.from_points(frame, phase(6), performance([1, 2, 3, 3.1], [10, 10, 10, 1])).work
    assert short.ops_per_second == pytest.approx([10, 10, 10])
    long = over_time.from_points(frame, phase(600), performance(range(1, 601), range(600))).work
    assert len(long.ops_per_second) == 120
    assert long.ops_per_second[:2] == pytest.approx([2.0, 7.0])


def test_performance_is_known_where_power_is_not():
    frame = regular([2.0] * 100)
    found = over_time.from_points(frame, phase(2), performance([1, 2], [10, 20])).work
    assert found.ops_per_second == pytest.approx([10, 20])
    assert found.ops_per_joule[0] == pytest.approx(5)
    assert np.isnan(found.ops_per_joule[1])


@pytest.mark.parametrize("progress", [None, performance([], []), performance([1], [None])])
def test_a_load_that_reported_nothing_has_no_performance_over_time(progress):
    assert over_time.from_points(regular([2.0] * 100), phase(1), progress).work is None


def test_a_damaged_progress_is_named(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", drives=("nvme-plp",), filesystems=("xfs",), schedulers=("none",), traces=True
    )
    (run,) = results.load(folder).runs
    (run.folder / "progress.csv").write_text("time_ns,ops\n1,x\n")
    found, damaged = over_time.power_by_run(results.load(folder))
    assert found == {}
    assert str(run.folder / "progress.csv") in damaged[0]
