# SPDX-License-Identifier: GPL-3.0-or-later
"""The query that the how-to shows answers over the exports of several campaigns."""

import re

import duckdb
import polars as pl
import pytest

from joulerig.analysis import export, results
from joulerig.analysis.tables import runs_and_cells
from tests.support import ROOT, simulated_campaign

PAGE = (ROOT / "docs" / "how-to" / "many-campaigns.md").read_text()
SMALL = {"drives": ["nvme-plp"], "schedulers": ["none"], "replicates": 2}


@pytest.fixture
def campaigns(tmp_path, monkeypatch):
    """Export two campaigns under the working directory's results/; a run of the first failed."""

    def one_failed(levels):
        failed = levels["ordinal"] == 2
        return simulated_campaign.Outcome("failed", "no space") if failed else simulated_campaign.Outcome()

    folders = [
        simulated_campaign.build(
            tmp_path / "results" / "a", name="first", filesystems=["ext4", "xfs"], outcome=one_failed, **SMALL
        ),
        simulated_campaign.build(tmp_path / "results" / "b", name="second", filesystems=["ext4"], **SMALL),
    ]
    loaded = [results.load(folder) for folder in folders]
    for campaign in loaded:
        export.write(campaign, campaign.folder / "export", ["parquet"])
    monkeypatch.chdir(tmp_path)
    return loaded


def ask(sql):
    return duckdb.sql(sql).fetchall()


def shown_query():
    (sql,) = re.findall(r'duckdb\.sql\("""\n(.*?)"""\)', PAGE, re.DOTALL)
    assert "AND NOT virtual_lab" in sql
    return sql


def test_the_shown_query_gives_the_sums_over_all_campaigns(campaigns):
    runs = pl.concat([runs_and_cells.runs(campaign) for campaign in campaigns]).filter(
        pl.col("status") == "ok"
    )
    sums = runs.group_by("drive", "filesystem").agg(pl.col("ops").sum() / pl.col("joules").sum())
    expected = {(drive, fs): pytest.approx(ratio, rel=1e-12) for drive, fs, ratio in sums.iter_rows()}
    answer = ask(shown_query().replace("AND NOT virtual_lab", ""))
    assert {row[:2]: row[2] for row in answer} == expected
    assert {filesystem for _, filesystem in expected} == {"ext4", "xfs"}
    assert [row[2] for row in answer] == sorted((row[2] for row in answer), reverse=True)


def test_virtual_figures_are_left_out(campaigns):
    virtual = {campaign.virtual for campaign in campaigns}
    assert virtual == {True}
    assert ask(shown_query()) == []


def test_columns_that_an_older_export_lacks_are_null(campaigns):
    path = campaigns[0].folder / "export" / "runs.parquet"
    pl.read_parquet(path).drop("calibration", "figure").write_parquet(path)
    rows = ask(
        "SELECT campaign, figure FROM read_parquet('results/*/export/runs.parquet', union_by_name = true)"
    )
    assert len(rows) == 6
    assert {row[0] for row in rows} == {campaign.id for campaign in campaigns}
