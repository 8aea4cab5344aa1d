# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's cells compared: precision and budget, ranking, and tables that agree."""

from __future__ import annotations

import dataclasses
import math
import sqlite3

import numpy as np
import polars as pl
import pytest
from scipy import stats

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.energy.interval import standard_uncertainties
from joulerig.analysis.report import answer
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.statistics import interval
from joulerig.analysis.tables import comparisons, runs_and_cells
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome
from tests.unit.analysis.report.test_lab_report import ACCURACY


def campaign(folder, **given) -> Campaign:
    return results.load(simulated_campaign.build(folder / "c", **{"drives": ("nvme-plp",), **given}))


def test_standard_uncertainties_follow_from_the_limits_around_the_value():
    """Of a corrected value, of one that is not, and of one whose parts are not known."""
    unknown = math.nan
    found = standard_uncertainties(
        gap_low=np.array([1.0, 1.0, unknown]),
        gap_high=np.array([4.0, 4.0, 4.0]),
        interpolation=np.array([3.0, 3.0, unknown]),
        alignment=np.array([0.3, unknown, unknown]),
        product=np.array([0.6, 0.6, unknown]),
        meter=np.array([2.0, 2.0, unknown]),
        gap_correction=np.array([2.5, 0.0, 0.0]),
        product_correction=np.array([-0.3, 0.0, 0.0]),
    )
    assert {name: values.tolist() for name, values in found.items()} == {
        # 1 to 4 around their middle, and around what they are added to: the mean square
        "gaps": pytest.approx([1.5 / math.sqrt(3), math.sqrt(7.0), unknown], nan_ok=True),
        "interpolation": pytest.approx([math.sqrt(3), math.sqrt(3), unknown], nan_ok=True),
        "alignment": pytest.approx([0.3 / math.sqrt(3), unknown, unknown], nan_ok=True),
        "product": pytest.approx([0.3 / math.sqrt(3), 0.6 / math.sqrt(3), unknown], nan_ok=True),
        "meter": pytest.approx([1.0, 1.0, unknown], nan_ok=True),
    }


def test_the_interval_is_fiellers_with_the_common_parts(tmp_path):
    loaded = campaign(tmp_path, replicates=4, accuracy=ACCURACY)
    (one,) = comparison.compare_cells(loaded)
    for cell, precision in one.precision.items():
        runs = [run for run in loaded.runs if run.cell == cell]
        work, joules = [run.performance.ops for run in runs], [run.result.ai_joules for run in runs]
        rails = [rail for run in runs for rail in run.energy if rail.phase == "workload"]
        assert precision.fieller == interval.fieller(work, joules)
        assert precision.bootstrap == pytest.approx(interval.bca(work, joules), rel=1e-12)
        assert precision.unknown == {}
        assert precision.parts["meter"] == pytest.approx(sum(r.meter_joules for r in rails) / 2 / sum(joules))
        common = math.hypot(*(part for name, part in precision.parts.items() if name != "run to run"))
        value = sum(work) / sum(joules)
        assert precision.interval == pytest.approx(interval.with_common(value, precision.fieller, common, 4))
        assert sum(precision.shares.values()) == pytest.approx(1)


def test_parts_that_are_not_known_are_named_and_are_in_no_interval(tmp_path):
    (one,) = comparison.compare_cells(campaign(tmp_path, replicates=2))
    precision = one.precision[one.ranking.order[0]]
    assert precision.unknown == {"meter": "the meter's class"}
    assert "meter" not in precision.parts
    assert precision.bootstrap is None  # two runs


def test_one_run_has_a_budget_without_its_spread_and_no_interval(tmp_path):
    (one,) = comparison.compare_cells(campaign(tmp_path, accuracy=ACCURACY))
    precision = one.precision[one.ranking.order[0]]
    assert (precision.fieller, precision.bootstrap, precision.interval) == (None, None, None)
    assert list(precision.unknown) == ["run to run"]


def test_the_family_of_the_tests_is_the_whole_campaign(tmp_path):
    def first_ranking(folder, drives):
        return comparison.compare_cells(campaign(folder, drives=drives, replicates=3))[0].ranking

    alone = first_ranking(tmp_path / "1", ("nvme-plp",))
    one_of_two = first_ranking(tmp_path / "2", ("nvme-plp", "sata-plp"))
    assert all(pair.separated == (pair.p < 0.05) for pair in alone.pairs)
    assert all(pair.separated == (pair.p < 1 - 0.95**0.5) for pair in one_of_two.pairs)


def drawn(loaded: Campaign, rng: np.random.Generator, best: str = "", by: float = 1.0) -> Campaign:
    """Return the campaign with its runs' work redrawn, one cell better `by` a factor.

    The work varies by 2 % between runs and 2 % between blocks.
    """
    shift = {block: 0.02 * rng.normal() for block in {run.block for run in loaded.runs}}

    def one(run):
        ops = 1e6 * math.exp(shift[run.block] + 0.02 * rng.normal()) * (by if run.cell == best else 1.0)
        done = dataclasses.replace(run.performance, ops=ops, ops_per_second=ops / run.performance.seconds)
        result = dataclasses.replace(run.result, joules=1e4, corrected_joules=1e4, ai_ops_per_joule=ops / 1e4)
        return dataclasses.replace(run, performance=done, result=result)

    return dataclasses.replace(loaded, runs=tuple(map(one, loaded.runs)))


def named_alone(loaded: Campaign) -> list[str]:
    """Return the combinations that an answer of the report names as the best, without another."""
    compared = comparison.compare_cells(loaded)
    answers = map(
        answer.answer, answer.groups(compared, runs_and_cells.cells(loaded, compared, {}).to_dicts())
    )
    return [one.claim for one in answers if one.claim in map(answer.combination, one.group.compared)]


CAMPAIGNS, MOST_NAMED = 200, 19


@pytest.mark.parametrize("replicates", [1, 3, 5])
def test_where_nothing_differs_at_most_one_campaign_in_twenty_names_a_winner(
    tmp_path, monkeypatch, replicates
):
    """Two drives, four cells each; either one's answer counts. Less than five runs name none."""
    monkeypatch.setattr(interval, "bca_by_cell", lambda cells: [None] * len(cells))  # in no answer, and slow
    assert stats.binom.sf(MOST_NAMED, CAMPAIGNS, 0.05) < 0.005
    loaded = campaign(
        tmp_path,
        drives=("nvme-plp", "sata-plp"),
        filesystems=("ext4", "xfs"),
        schedulers=("none", "bfq"),
        replicates=replicates,
    )
    rng = np.random.default_rng(20)
    named = sum(bool(named_alone(drawn(loaded, rng))) for _ in range(CAMPAIGNS))
    assert named <= (MOST_NAMED if replicates == 5 else 0)
    if replicates == 5:
        best = drawn(loaded, rng, "sata-plp/xfs/bfq/randwrite-fsync", by=1.3)
        assert "xfs with bfq" in named_alone(best)


def test_runs_that_do_not_count_are_in_no_comparison(tmp_path):
    def first_fails(levels):
        return (
            Outcome("partial", "meter fell silent", joules=False) if levels["replicate"] == 1 else Outcome()
        )

    one, other = (
        comparison.compare_cells(campaign(tmp_path / name, replicates=3, outcome=outcome))[0]
        for name, outcome in (("a", first_fails), ("b", lambda _: Outcome()))
    )
    assert {name: len(one.ranking.order) for name, one in (("a", one), ("b", other))} == {"a": 9, "b": 9}
    assert one.by_factor.residual_freedom == 8
    assert other.by_factor.residual_freedom == 16


def test_drives_without_a_rail_are_ranked_by_performance(tmp_path):
    loaded = campaign(tmp_path, replicates=3, outcome=lambda _: Outcome("ok", "no rail", joules=False))
    (one,) = comparison.compare_cells(loaded)
    assert (one.quantity, one.precision, one.points, one.front) == ("ops/s", {}, {}, [])
    assert one.ranking.order[0].startswith("nvme-plp/f2fs/")
    cells = runs_and_cells.cells(loaded)
    assert cells["letters"].null_count() == 0
    assert cells["pareto"].null_count() == cells["ai_ops_per_joule_interval_low"].null_count() == cells.height


def test_cells_have_what_the_comparison_says_of_them(tmp_path):
    loaded = campaign(tmp_path, replicates=3, accuracy=ACCURACY)
    (one,) = comparison.compare_cells(loaded)
    for row in runs_and_cells.cells(loaded).iter_rows(named=True):
        precision = one.precision[row["cell"]]
        for name in ("interval", "fieller", "bootstrap"):
            ends = row[f"ai_ops_per_joule_{name}_low"], row[f"ai_ops_per_joule_{name}_high"]
            assert ends == getattr(precision, name)
        assert row["letters"] == one.ranking.letters[row["cell"]]
        assert row["pareto"] == (row["cell"] in one.front)
        assert row["ai_ops_per_joule_interval_low"] < row["ai_ops_per_joule"]


def test_tables_of_comparisons(tmp_path):
    loaded = campaign(tmp_path, drives=("nvme-plp", "sata-plp"), replicates=3)
    compared = comparison.compare_cells(loaded)
    frames = {name: table(loaded, compared) for name, table in comparisons.TABLES.items()}
    assert {name: frame.height for name, frame in frames.items()} == {
        "pairs": 72, "best": 16, "effects": 10, "budget": 18 * 6, "cemp": 6, "elasticity": 0, "drift": 2,
        "outliers": 2, "cross_talk": 0, "claims": 0,
    }  # fmt: skip
    pairs = frames["pairs"].filter(pl.col("separated"))
    assert pairs.height > 0
    assert (pairs["less_percent_low"] * pairs["less_percent_high"] > 0).all()
    unknown = frames["budget"].filter(pl.col("unknown").is_not_null())
    assert set(unknown["source"]) == {"meter"}
    shares = frames["budget"].group_by("cell").agg(pl.col("share_percent").sum())["share_percent"]
    assert np.allclose(shares, 100)


@pytest.mark.parametrize(
    "given",
    [
        {"drives": ()},
        {"replicates": 1},
        {"filesystems": ("ext4",), "schedulers": ("none",)},
        {"outcome": lambda _: Outcome("lost", "host gone")},
        {"outcome": lambda _: Outcome("partial", "meter fell silent", joules=False)},
        {"outcome": lambda levels: Outcome("failed" if levels["ordinal"] % 2 else "ok"), "replicates": 3},
        {"noise": 0.0, "replicates": 3, "lost_share": 0.0},
    ],
)
def test_no_campaign_is_a_traceback_and_all_tables_have_their_columns(tmp_path, given):
    paths = runs_and_cells.write(campaign(tmp_path, **given), tmp_path / "report")
    further = [
        "quiescence",
        "processor",
        "temperature",
        "audit",
        "agreement",
        "power_states",
        "emerald",
        "pts",
        "eehpcwg",
        "windows",
        "endurance",
        "coefficients",
        "series",
    ]
    assert [path.stem for path in paths] == ["runs", "cells", *comparisons.TABLES, *further]
    for path in paths:
        assert pl.read_csv(path, infer_schema=False).columns


def test_a_journal_of_version_1_names_what_is_not_known(tmp_path):
    loaded = campaign(tmp_path, replicates=3)
    with sqlite3.connect(loaded.folder / "journal.sqlite") as database:
        names = [row[1] for row in database.execute("PRAGMA table_info(energy)")]
        for name in names[names.index("joules_low") :]:
            database.execute(f"UPDATE energy SET {name} = NULL")
    (one,) = comparison.compare_cells(results.load(loaded.folder))
    precision = one.precision[one.ranking.order[0]]
    assert list(precision.parts) == ["run to run"]
    assert list(precision.unknown) == ["gaps", "interpolation", "alignment", "product", "meter"]
    assert (precision.interval, precision.interval_mb) == (None, None)
    assert one.ranking.contenders == []
