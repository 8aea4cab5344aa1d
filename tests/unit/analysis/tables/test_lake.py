# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of several campaigns in one lake, asked in SQL."""

from __future__ import annotations

import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.results import power_points
from joulerig.analysis.tables import lake, runs_and_cells
from tests.support import simulated_campaign


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    """Two campaigns; of the first, with traces, one run failed."""

    def outcome(levels):
        failed = levels["ordinal"] == 2
        return simulated_campaign.Outcome("failed", "no space") if failed else simulated_campaign.Outcome()

    place = tmp_path_factory.mktemp("campaigns")
    small = {"drives": ["nvme-plp"], "filesystems": ["ext4", "xfs"], "schedulers": ["none"], "replicates": 2}
    first = simulated_campaign.build(place / "a", name="first", traces=True, outcome=outcome, **small)
    second = simulated_campaign.build(place / "b", name="second", **small)
    return [results.load(folder) for folder in (first, second)]


@pytest.fixture(scope="module")
def filled(campaigns, tmp_path_factory):
    place = tmp_path_factory.mktemp("filled") / "lake"
    for campaign in campaigns:
        lake.add(campaign, place)
    return place


def content(place):
    return {path.relative_to(place): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_its_files_are_partitioned_by_campaign_and_series_by_run_too(campaigns, filled):
    first = campaigns[0]
    found = {str(path) for path in content(filled)}
    once = {"campaigns", "runs", "cells", "phases", "energy"}
    assert {f"{table}/campaign={one.id}/part.parquet" for table in once for one in campaigns} <= found
    kept = {run.id for run in first.runs if run.status == "ok"}
    series = {f"series/campaign={first.id}/run={run}/part.parquet" for run in kept}
    assert {path for path in found if path.startswith("series")} == series
    assert len(found) == 2 * len(once) + len(kept)


def test_a_query_sees_all_campaigns_and_the_numbers_of_the_tables(campaigns, filled):
    answer = lake.query(filled, "SELECT campaign, run, ai_ops_per_joule FROM runs ORDER BY campaign, ordinal")
    expected = [
        (one.id, row["run"], row["ai_ops_per_joule"])
        for one in campaigns
        for row in runs_and_cells.runs(one).iter_rows(named=True)
    ]
    assert answer.columns == ("campaign", "run", "ai_ops_per_joule")
    assert answer.rows == expected
    assert {row[2] is None for row in expected} == {True, False}


@pytest.mark.parametrize("table", list(lake.TABLES))
def test_each_table_has_the_columns_that_it_says(filled, table):
    partitions = ["campaign", "run"] if table == "series" else ["campaign"]
    assert list(lake.query(filled, f"SELECT * FROM {table}").columns) == [*partitions, *lake.TABLES[table]]


def test_series_are_the_runs_power_points(campaigns, filled):
    run = next(run for run in campaigns[0].runs if run.status == "ok")
    points = power_points.read(run.folder / "power.csv")
    sql = f"SELECT time_ns, joules, watts FROM series WHERE run = '{run.id}' ORDER BY time_ns"
    assert lake.query(filled, sql).rows == points.sort("time_ns").select("time_ns", "joules", "watts").rows()


def test_energy_of_a_phase_is_the_journals(campaigns, filled):
    sql = f"SELECT sum(joules) FROM energy WHERE campaign = '{campaigns[0].id}' AND phase = 'idle'"
    runs = campaigns[0].runs
    journals = sum(rail.joules for run in runs for rail in run.energy if rail.phase == "idle")
    assert lake.query(filled, sql).rows[0][0] == pytest.approx(journals, rel=1e-12)


def test_adding_again_changes_no_byte(campaigns, tmp_path):
    rows = lake.add(campaigns[0], tmp_path)
    before = content(tmp_path)
    assert lake.add(campaigns[0], tmp_path) == rows
    assert content(tmp_path) == before
    assert rows["runs"] == 4
    assert rows["cells"] == 2


def test_a_series_that_is_gone_from_the_campaign_is_gone_from_the_lake(tmp_path):
    small = {"drives": ["nvme-plp"], "filesystems": ["ext4"], "schedulers": ["none"], "replicates": 2}
    folder = simulated_campaign.build(tmp_path / "c", traces=True, **small)
    campaign = results.load(folder)
    lake.add(campaign, tmp_path / "lake")
    (campaign.runs[0].folder / "power.csv").unlink()
    lake.add(campaign, tmp_path / "lake")
    assert lake.query(tmp_path / "lake", "SELECT DISTINCT run FROM series").rows == [(campaign.runs[1].id,)]


def test_a_damaged_file_leaves_the_lake_as_it_was(tmp_path):
    small = {"drives": ["nvme-plp"], "filesystems": ["ext4"], "schedulers": ["none"], "replicates": 2}
    folder = simulated_campaign.build(tmp_path / "c", traces=True, **small)
    campaign = results.load(folder)
    lake.add(campaign, tmp_path / "lake")
    before = content(tmp_path / "lake")
    (campaign.runs[1].folder / "power.csv").write_text("time_ns,rail\n1,3v3\n")
    with pytest.raises(power_points.PowerFileError, match=r"power\.csv: no column 'watts'"):
        lake.add(campaign, tmp_path / "lake")
    assert content(tmp_path / "lake") == before


def test_a_table_without_a_file_is_empty_but_has_its_columns(campaigns, tmp_path):
    lake.add(campaigns[1], tmp_path)
    answer = lake.query(tmp_path, "SELECT * FROM series")
    assert answer.rows == []
    assert list(answer.columns) == ["campaign", "run", *power_points.COLUMNS]


def test_a_file_of_an_older_version_lacks_columns_and_is_read_with_nulls(campaigns, tmp_path):
    for campaign in campaigns:
        lake.add(campaign, tmp_path)
    path = tmp_path / "runs" / f"campaign={campaigns[0].id}" / lake.PART
    pl.read_parquet(path, hive_partitioning=False).drop("calibration", "figure").write_parquet(path)
    answer = lake.query(tmp_path, "SELECT run, figure FROM runs")
    assert len(answer.rows) == 8


def test_a_campaign_whose_name_is_a_number_stays_text(campaigns, tmp_path):
    place = tmp_path / "it's"
    lake.add(campaigns[1], place)
    (place / "runs" / f"campaign={campaigns[1].id}").rename(place / "runs" / "campaign=0042")
    assert lake.query(place, "SELECT DISTINCT campaign FROM runs").rows == [("0042",)]


@pytest.mark.parametrize("sql", ["SELECT nothing FROM runs", "SELEC 1", "SELECT * FROM nowhere"])
def test_a_wrong_query_is_one_line(filled, sql):
    with pytest.raises(lake.LakeError) as told:
        lake.query(filled, sql)
    assert str(told.value).startswith("DuckDB: ")
    assert "\n" not in str(told.value)


def test_where_there_is_no_lake_that_is_said(tmp_path):
    with pytest.raises(lake.LakeError, match="no lake there"):
        lake.query(tmp_path / "none", "SELECT 1")


def test_where_no_lake_can_be_made_that_is_said(campaigns, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(lake.LakeError, match="cannot be written"):
        lake.add(campaigns[1], tmp_path / "file")
