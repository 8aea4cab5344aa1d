# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift over a campaign, each cell its own control, and outliers with the answer both ways."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare import drift, outliers
from joulerig.analysis.report import answer
from joulerig.analysis.report.chapters import drift as drift_chapter
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome
from tests.support.simulated_series import share_with_an_outlier


@pytest.fixture(scope="module")
def steady(tmp_path_factory) -> Campaign:
    return results.load(
        simulated_campaign.build(
            tmp_path_factory.mktemp("d") / "c", drives=("nvme-plp",), replicates=4, noise=0.005, seed=2
        )
    )


def scaled(campaign: Campaign, factor: Callable[[Run], float]) -> Campaign:
    """With each run's AI times a factor."""

    def scale(run: Run) -> Run:
        found = run.result
        by = factor(run)
        joules, ai = found.joules / by, found.ai_ops_per_joule * by
        return dataclasses.replace(
            run,
            result=dataclasses.replace(found, joules=joules, corrected_joules=joules, ai_ops_per_joule=ai),
        )

    return dataclasses.replace(campaign, runs=tuple(scale(run) for run in campaign.runs))


def hours(campaign: Campaign, run: Run) -> float:
    return (run.started_ns - campaign.runs[0].started_ns) / 3.6e12


def drift_of(campaign: Campaign) -> drift.Drift:
    (found,) = drift.estimate_drifts(campaign, comparison.compare_cells(campaign))
    return found


def groups(campaign: Campaign) -> list[answer.Group]:
    compared = comparison.compare_cells(campaign)
    return answer.groups(compared, runs_and_cells.cells(campaign, compared, {}).to_dicts())


# Drift


def test_a_campaign_at_rest_does_not_drift(steady):
    found = drift_of(steady)
    assert (len(found.residuals), found.cells) == (36, 9)
    assert not found.seen
    assert found.change(found.trend.low) < 0 < found.change(found.trend.high)
    assert abs(found.change(found.trend.slope)) < 0.01


def test_a_drift_of_all_cells_is_seen_with_its_size(steady):
    drifting = scaled(steady, lambda run: math.exp(0.2 * hours(steady, run)))
    found = drift_of(drifting)
    assert found.seen
    assert found.change(found.trend.slope, 3600) == pytest.approx(math.expm1(0.2), abs=0.03)
    row = drift.table(drifting, comparison.compare_cells(drifting)).row(0, named=True)
    assert row["drift_percent"] == 100 * found.change(found.trend.slope)
    assert row["drift_percent_low"] < row["drift_percent"] < row["drift_percent_high"]
    assert row["drift_percent_per_hour"] == pytest.approx(100 * math.expm1(0.2), abs=3)
    assert drift_chapter.sentence(found).endswith("it drifted, or its 4 blocks differ.")


def test_hardly_any_campaign_at_rest_drifts():
    rng = np.random.default_rng(3)
    seen, campaigns = 0, 300
    for _ in range(campaigns):
        order = np.array([rng.permutation(9) + 9 * block for block in range(3)])
        cells = [(order[:, cell], rng.normal(size=3)) for cell in range(9)]
        seen += drift.trend.common_trend(cells).p < 0.05
    assert stats.binom.sf(26, campaigns, 0.05) < 0.005
    assert seen <= 26


def test_the_sentence_says_how_much_how_sure_and_what_follows(steady):
    message = drift_chapter.sentence(drift_of(steady))
    assert message.startswith("nvme-plp, randwrite-fsync: over 12 min ")
    assert " AI changed by " in message
    assert "(95 % " in message
    assert message.endswith(": no drift seen.")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"replicates": 1}, "no cell has two runs"),
        ({"replicates": 2, "filesystems": ("ext4", "xfs"), "schedulers": ("none",)}, "too few runs"),
    ],
)
def test_where_drift_is_unknown_it_says_why(tmp_path, given, why):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), lost_share=0.0, **given)
    found = drift_of(results.load(folder))
    assert (found.trend, found.why) == (None, why)
    assert drift_chapter.sentence(found) == (f"nvme-plp, randwrite-fsync: drift cannot be judged: {why}.")


def test_runs_that_are_all_alike_have_neither_drift_nor_outliers(steady):
    first = {run.cell: run.result.ai_ops_per_joule for run in steady.runs}
    alike = scaled(steady, lambda run: first[run.cell] / run.result.ai_ops_per_joule)
    found = drift_of(alike)
    assert (found.trend, found.why) == (None, "the runs of each cell are all alike")
    assert drift_chapter.from_groups(alike, groups(alike)).outliers == ()


def test_without_a_rail_the_drift_is_of_performance(tmp_path):
    loaded = results.load(
        simulated_campaign.build(
            tmp_path / "c",
            drives=("nvme-plp",),
            replicates=3,
            outcome=lambda _: Outcome("ok", "no rail", joules=False),
        )
    )
    assert " performance changed by " in drift_chapter.sentence(drift_of(loaded))


# Outliers


def values_of(cells: int, runs: int, seed: int = 1) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    return {
        f"cell {cell}": {f"{cell}-{run}": 5.0 * cell + rng.normal() for run in range(runs)}
        for cell in range(cells)
    }


def test_a_far_run_is_the_only_outlier_though_it_moves_the_mean_of_its_cell():
    for off in (15.0, -15.0, 200.0):
        cells = values_of(6, 3)
        cells["cell 2"]["2-1"] += off
        ((cell, run, z),) = outliers.find_outlying(cells)
        assert (cell, run, z > 0) == ("cell 2", "2-1", off > 0)
        assert abs(z) > outliers.FAR


def test_several_outliers_are_found_worst_first():
    cells = values_of(6, 4)
    cells["cell 1"]["1-0"] += 20
    cells["cell 4"]["4-3"] -= 60
    assert [run for _, run, _ in outliers.find_outlying(cells)] == ["4-3", "1-0"]


def test_few_comparisons_without_any_have_one():
    share = share_with_an_outlier(9, 3, 200)
    assert 0 < share <= 0.15  # one in ten is 20; 31 or more have a chance below 1 % then


@pytest.mark.parametrize(
    ("cells", "runs", "off"), [(20, 2, 100.0), (3, 3, 100.0), (6, 3, 0.0)], ids=["pairs", "few", "none"]
)
def test_where_it_is_unknown_or_nothing_is_off_there_is_none(cells, runs, off):
    values = values_of(cells, runs)
    values["cell 0"]["0-0"] += off
    assert outliers.find_outlying(values) == []


def test_runs_that_are_all_alike_have_no_outlier():
    cells = {f"cell {cell}": dict.fromkeys((f"{cell}-{run}" for run in range(4)), 1.0) for cell in range(4)}
    assert outliers.find_outlying(cells) == []


@pytest.fixture(scope="module")
def spoilt(steady) -> Campaign:
    """The best cell's third run at a fifth of its AI."""
    best = comparison.compare_cells(steady)[0].ranking.order[0]
    (victim,) = [run.id for run in steady.runs if run.cell == best and run.replicate == 3]
    return scaled(steady, lambda run: 0.2 if run.id == victim else 1.0)


def test_an_outlier_is_named_with_its_deviation(spoilt):
    (judged,) = outliers.find_outliers(spoilt, comparison.compare_cells(spoilt))
    assert judged.judged == 36
    (found,) = judged.outliers
    assert found.run.replicate == 3
    assert found.off == pytest.approx(-0.8, abs=0.01)
    row = outliers.table(spoilt, comparison.compare_cells(spoilt)).row(0, named=True)
    assert (row["run"], row["off_percent"], row["modified_z"]) == (found.run.id, 100 * found.off, found.z)


def test_outliers_stay_in_and_the_answer_is_given_both_ways(steady, spoilt):
    found = drift_chapter.from_groups(spoilt, groups(spoilt))
    (both,) = found.both
    assert both.all_runs == answer.answer(groups(spoilt)[0])
    without = comparison.compare_cells(steady)[0].ranking.order[0]
    assert both.without.group.compared[0]["cell"] == without
    assert both.without.group.compared[0]["runs_counted"] == 3
    assert both.without.figure != both.all_runs.figure
    assert [outlier.run.replicate for _, outlier in found.outliers] == [3]


def test_without_outliers_it_says_how_many_could_be_one(steady, tmp_path):
    found = drift_chapter.from_groups(steady, groups(steady))
    assert found.both == found.outliers == ()
    assert found.judged == "Of 36 runs in cells with 3 or more, no run is an outlier."
    single = results.load(simulated_campaign.build(tmp_path / "c"))
    assert drift_chapter.from_groups(single, groups(single)).judged.startswith(
        "No run can be called an outlier"
    )


def test_of_many_comparisons_those_most_likely_to_drift_are_drawn(tmp_path):
    loaded = results.load(
        simulated_campaign.build(
            tmp_path / "c",
            filesystems=("ext4", "xfs"),
            schedulers=("none",),
            replicates=3,
            extra_factors={"kernel": [f"6.{minor}" for minor in range(5)]},
        )
    )
    found = drift_chapter.from_groups(loaded, groups(loaded))
    assert len(found.sentences) == 10
    ps = {
        one.comparison.name: one.trend.p
        for one in drift.estimate_drifts(loaded, comparison.compare_cells(loaded))
    }
    assert list(found.drawn) == sorted(ps, key=ps.__getitem__)[:8]
