# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of level and trends over a run: found where they are, and rarely elsewhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest
from scipy import stats

from joulerig.analysis import results
from joulerig.analysis.report.chapters import load_courses
from joulerig.analysis.runs import over_time, series
from joulerig.analysis.runs.series import POWER, Series, course
from joulerig.analysis.statistics import noise, segments, trend
from tests.support import simulated_campaign
from tests.support.simulated_series import errs, flat, normal, skewed


def make_course(values, step_seconds: float = 0.5) -> series.Course:
    values = np.asarray(values, dtype=float)
    return course(Series(POWER, (np.arange(len(values)) + 0.5) * step_seconds, values, step_seconds))


def levels(*parts: tuple[int, float]) -> np.ndarray:
    return np.concatenate([np.full(count, level) for count, level in parts])


def noisy(values: np.ndarray, deviation: float = 1.0, seed: int = 4) -> np.ndarray:
    return values + deviation * np.random.default_rng(seed).normal(size=len(values))


# Where nothing changes


# Of 400 flat series 5 % are 20; 33 or more have a chance below 0.5 % even where the rate is just 5
# %.
SERIES, MOST = 400, 32


@pytest.mark.parametrize(
    ("count", "memory", "innovations"),
    [(60, 0.0, normal), (120, 0.0, normal), (60, 0.3, normal), (120, 0.6, normal), (60, 0.0, skewed)],
)
def test_hardly_any_flat_series_shows_a_change_or_a_trend(count, memory, innovations):
    assert stats.binom.sf(MOST, SERIES, 0.05) < 0.005
    changed, trended, untold = errs(count, memory, SERIES, innovations)
    assert changed * SERIES <= MOST
    assert trended * SERIES <= MOST
    assert untold < 0.4


def test_without_allowing_for_autocorrelation_far_more_would():
    rng = np.random.default_rng(2)
    wrong = sum(
        bool(segments.partition(noise.ranks(flat(120, 0.6, rng)), segments.PENALTY)) for _ in range(50)
    )
    assert wrong > 25


@pytest.mark.parametrize("values", [[], [1.0], [4.0, 5.0], [4.0] * 10, list(range(29))])
def test_a_short_series_is_not_judged(values):
    found = make_course(values)
    assert (found.changes, found.slope, found.p) == (None, None, None)


def test_a_constant_series_has_one_level_and_no_trend():
    found = make_course([4.0] * 60)
    assert (found.changes, found.levels, found.slope, found.p) == ((), (4.0,), None, None)
    assert not found.rises_or_falls
    assert found.swing == 0


def test_a_series_that_remembers_longer_than_it_lasts_is_not_judged():
    assert segments.changes(np.sin(np.linspace(0, 6, 60))) is None
    assert segments.too_few(60, noise.Noise(1.0, 0.6))
    assert not segments.too_few(60, noise.Noise(1.0, 0.3))


# Where something does


def test_a_change_of_level_is_found_with_its_instant_and_its_levels():
    found = make_course(noisy(levels((40, 10.0), (60, 13.0))))
    assert found.changes == pytest.approx([20.0], abs=1.0)
    assert found.levels == pytest.approx([10, 13], abs=0.5)
    assert found.swing == pytest.approx(3 / 11.8, rel=0.15)
    assert not found.rises_or_falls  # the level changed: a slope describes it worse


def test_several_changes_are_found_also_there_and_back():
    found = segments.changes(noisy(levels((50, 0.0), (40, 4.0), (60, 0.0), (50, 2.5))))
    assert found == pytest.approx([50, 90, 150], abs=3)


def test_a_level_of_any_height_is_one_change():
    for height in (3.0, 1e3, 1e9):
        assert segments.changes(noisy(levels((50, 0.0), (70, height)))) == pytest.approx([50], abs=2)


def test_a_single_spike_is_not_a_change_of_level():
    values = noisy(levels((120, 10.0)))
    values[60] = 1e6
    assert segments.changes(values) == []


def test_the_unit_does_not_matter():
    values = noisy(levels((50, 10.0), (50, 12.0)))
    assert segments.changes(values) == segments.changes(1e-3 * values) == segments.changes(1e6 * values)


def test_a_steady_rise_is_a_trend_and_no_change_of_level():
    found = make_course(noisy(np.linspace(100, 110, 120)), step_seconds=1.0)
    assert found.changes == ()
    assert found.rises_or_falls
    assert found.slope == pytest.approx(10 / 119 * 60 / 105, rel=0.1)
    assert found.trend_over_load == pytest.approx(10 / 105, rel=0.1)


def test_a_rise_much_steeper_than_the_noise_is_still_one_trend():
    found = make_course(noisy(np.linspace(100, 1000, 120)))
    assert found.changes == ()
    assert found.p < 1e-6


def test_what_was_not_measured_is_left_out():
    values = noisy(levels((60, 10.0), (60, 14.0)))
    values[[3, 4, 70, 119]] = np.nan
    found = make_course(values)
    assert found.changes == pytest.approx([30.0], abs=1.0)
    assert np.isfinite(found.levels).all()
    assert make_course(np.full(60, np.nan)).changes is None


def test_a_partition_has_the_least_cost_of_all():
    rng = np.random.default_rng(3)
    values = rng.normal(size=17) + levels((8, 0.0), (9, 1.5))

    def cost(begins) -> float:
        return sum(((part - part.mean()) ** 2).sum() for part in np.split(values, begins)) + 2.0 * len(begins)

    short = segments.SHORTEST
    allowed = [[]] + [[k] for k in range(short, 18 - short)]
    allowed += [[k, m] for k in range(short, 18) for m in range(k + short, 18 - short)]
    assert segments.partition(values, 2.0) == min(allowed, key=cost)


# Its parts


@pytest.mark.parametrize("memory", [0.0, 0.4, 0.8])
def test_noise_is_found_in_spite_of_levels_and_a_line(memory):
    values = flat(20_000, memory, np.random.default_rng(5))
    values += levels((7000, 0.0), (13_000, 10.0)) + np.linspace(0, 300, 20_000)
    found = noise.estimate(values)
    assert found.memory == pytest.approx(memory, abs=0.1)
    assert found.variance == pytest.approx(1 / (1 - memory**2), rel=0.25)
    assert noise.estimate([4.0] * 9) == noise.Noise(0.0, 0.0)


def test_ranks_have_mean_0_and_variance_1():
    found = noise.ranks(np.random.default_rng(6).lognormal(size=500))
    assert (found.mean(), found.var()) == pytest.approx((0, 1))
    assert noise.ranks([2.0, 1.0, 2.0])[0] == noise.ranks([2.0, 1.0, 2.0])[2]


def test_one_group_is_theil_and_sen_with_kendall():
    rng = np.random.default_rng(7)
    times, values = np.arange(25.0), rng.normal(size=25) + 0.05 * np.arange(25)
    found = trend.common_trend([(times, values)])
    slope, _, low, high = stats.theilslopes(values, times)
    assert found.slope == pytest.approx(slope)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-2)
    assert found.p == pytest.approx(stats.kendalltau(times, values, method="asymptotic").pvalue, rel=0.1)


def test_levels_of_groups_do_not_matter_to_their_common_trend():
    rng = np.random.default_rng(8)
    times = [np.sort(rng.uniform(0, 10, 6)) for _ in range(8)]
    groups = [(at, 0.3 * at + level + 0.1 * rng.normal(size=6)) for level, at in enumerate(times)]
    shifted = [(at, values + 100 * level) for level, (at, values) in enumerate(groups)]
    found = trend.common_trend(groups)
    assert found.slope == pytest.approx(0.3, abs=0.03)
    assert found.low < 0.3 < found.high
    assert found.p < 1e-6
    assert trend.common_trend(shifted) == pytest.approx(found)


@pytest.mark.parametrize(
    "groups", [[], [([0, 1], [1, 2])], [([0, 1, 2, 3], [5, 5, 5, 5])], [([1, 1, 1, 1], [1, 2, 3, 4])]]
)
def test_too_few_pairs_or_no_spread_is_not_a_trend(groups):
    assert trend.common_trend(groups) is None


def test_memory_makes_a_trend_less_sure():
    values = flat(2000, 0.7, np.random.default_rng(9))
    assert trend.inflation(values) == pytest.approx(1.7 / 0.3, rel=0.3)
    assert trend.inflation(flat(2000, 0.0, np.random.default_rng(9))) == pytest.approx(1, abs=0.1)
    times = np.arange(2000)
    assert trend.series_trend(times, values).p > trend.common_trend([(times, values)]).p


# Of a campaign


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> results.Campaign:
    folder = simulated_campaign.build(
        tmp_path_factory.mktemp("s") / "c", drives=("nvme-plp",), schedulers=("none",), traces=True
    )
    loaded = results.load(folder)
    run = loaded.runs[1]  # from its fifth second on it draws half as much again
    path, begin = run.folder / "power.csv", run.phases["workload"].start_ns + 5_000_000_000
    after = pl.col("time_ns") > begin
    pl.read_csv(path).with_columns(
        watts=pl.when(after).then(1.5 * pl.col("watts")).otherwise("watts")
    ).write_csv(path)
    return results.load(folder)


def test_the_table_has_a_row_a_run_with_instants_and_levels(campaign):
    over, _ = over_time.power_by_run(campaign)
    frame = series.table(campaign, series.courses_by_run(campaign, over))
    assert frame.height == 3
    row = frame.row(1, named=True)
    assert (row["quantity"], row["steps"], row["steps_measured"], row["changes"]) == ("W", 100, 100, 1)
    assert float(row["change_seconds"]) == pytest.approx(5.0, abs=0.11)
    before, after = map(float, row["levels"].split(";"))
    assert after / before == pytest.approx(1.5, rel=0.05)


def test_the_report_draws_the_run_that_changes_most(campaign):
    over, _ = over_time.power_by_run(campaign)
    found = load_courses.from_courses(campaign, series.courses_by_run(campaign, over))
    assert found.summary.startswith(
        "Of 3 runs with a power trace, 3 are long enough to be judged; power changes"
    )
    assert found.drawn.run.ordinal == 2
    assert float(found.drawn.changes) == pytest.approx(5.0, abs=0.11)
    assert " → " in found.drawn.levels
    assert "<!-- virtual lab -->" in found.figure.text


def test_runs_without_a_trace_are_counted(campaign):
    over, _ = over_time.power_by_run(campaign)
    found = series.courses_by_run(campaign, over)
    some = dict(list(found.items())[:2])
    assert "1 run that is ok kept no trace" in load_courses.from_courses(campaign, some).summary
    assert load_courses.from_courses(campaign, {}).summary.startswith("No run that is ok kept its power.csv")
    lost = dataclasses.replace(
        campaign, runs=tuple(dataclasses.replace(run, status="lost") for run in campaign.runs)
    )
    assert load_courses.from_courses(lost, series.courses_by_run(lost, over)).summary.startswith(
        "No run is ok"
    )
