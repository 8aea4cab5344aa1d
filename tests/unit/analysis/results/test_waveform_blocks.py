# SPDX-License-Identifier: GPL-3.0-or-later
"""The joules of waveforms, block by block, in one process and in several."""

from __future__ import annotations

import json
import os

import dask
import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.results import waveform, waveform_chunks
from joulerig.analysis.runs import cluster, recompute
from tests.support import simulated_campaign, simulated_waveform

BEGIN = 1_700_000_000_000_000_000
INTERVALS = [None, (BEGIN + 1_234_567, BEGIN + 7_000_000_001), (BEGIN - 1, BEGIN), (BEGIN, BEGIN + 10**12)]


def summed(path, interval=None):
    return waveform_chunks.joules(
        path, [waveform_chunks.stretches(block) for block in waveform_chunks.of_file(path, interval)]
    )


@pytest.mark.parametrize("kind", ["window-mean", "point"])
@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("rows", [97, 1024, 1 << 20])
def test_the_blocks_add_up_to_the_whole(tmp_path, monkeypatch, kind, interval, rows):
    monkeypatch.setattr(waveform_chunks, "ROWS", rows)
    missing = [5, 6, 7, 1500, 9999]
    path = simulated_waveform.write(
        tmp_path / "w.parquet",
        samples=10_000,
        rails=("12v", "5v"),
        kind=kind,
        missing=missing,
        group_rows=500,
    )
    start, end = interval or (None, None)
    whole = waveform.read(path, start_ns=start, end_ns=end)
    expected = waveform.energy_by_rail(whole)
    found = summed(path, interval)
    assert {rail: value.joules for rail, value in found.items()} == {
        rail: pytest.approx(joules, rel=1e-12, abs=1e-15) for rail, joules in expected.items()
    }
    assert sum(value.samples for value in found.values()) == whole.frame.height
    if interval is None:
        assert whole.frame.height == 2 * (10_000 - len(missing))


def test_a_file_that_is_no_waveform_is_named(tmp_path):
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "w.parquet")
    with pytest.raises(waveform.WaveformError, match=r"w\.parquet: no metadata"):
        waveform_chunks.of_file(tmp_path / "w.parquet")


@pytest.fixture(scope="module")
def two_processes():
    """A map over a cluster of two processes of this machine."""
    with cluster._local(2) as local, cluster.mapping(local.scheduler_address, 0) as mapped:
        yield mapped


def test_two_processes_give_the_same_joules_to_the_last_bit(tmp_path, two_processes):
    path = simulated_waveform.write(
        tmp_path / "w.parquet", samples=1_700_000, rails=("12v", "5v"), kind="point", missing=[1_000_000]
    )
    of_file = waveform_chunks.of_file(path, (BEGIN + 5, BEGIN + 1_650_000 * 1_000_000))
    assert len(of_file) == 4
    alone = waveform_chunks.joules(path, [waveform_chunks.stretches(block) for block in of_file])
    assert waveform_chunks.joules(path, two_processes(waveform_chunks.stretches, of_file)) == alone
    assert {value.samples for value in alone.values()} == {1_649_999}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Six runs with power points; the first one also has a waveform of its workload phase."""
    folder = simulated_campaign.build(
        tmp_path_factory.mktemp("anew") / "c",
        drives=["nvme-plp"],
        schedulers=["none"],
        replicates=2,
        traces=True,
    )
    loaded = results.load(folder)
    run = loaded.runs[0]
    simulated_waveform.write(
        run.folder / "waveform-tap1a.parquet",
        samples=20_000,
        begin_ns=run.phases["workload"].start_ns - 10**9,
    )
    return loaded


def in_process(function, given):
    return list(map(function, given))


def test_the_table_of_two_processes_is_that_of_one(campaign, two_processes):
    assert recompute.table(campaign, two_processes).equals(recompute.table(campaign, in_process))


def test_the_table_has_each_rail_of_each_run_beside_the_journal(campaign):
    table = recompute.table(campaign, in_process)
    assert dict(table.schema) == recompute.COLUMNS
    assert table["run"].to_list() == [run.id for run in campaign.runs]
    assert table["joules"].to_list() == [run.result.joules for run in campaign.runs]
    assert table["points_joules"].null_count() == 0
    assert table["problem"].null_count() == len(table)
    with_waveform = table.filter(pl.col("waveform_joules").is_not_null())
    assert with_waveform["run"].to_list() == [campaign.runs[0].id]
    assert with_waveform["waveform_samples"].item() == 10_000  # ten seconds at 1 kHz
    joules, journals = with_waveform["waveform_joules"].item(), with_waveform["joules"].item()
    assert with_waveform["waveform_less_percent"].item() == 100 * (1 - joules / journals)
    assert joules == pytest.approx(12 * 0.45 * 10, rel=1e-2)


def test_what_cannot_be_read_is_told_and_the_rest_is_done(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=["nvme-plp"],
        filesystems=["ext4"],
        schedulers=["none"],
        replicates=2,
        traces=True,
    )
    loaded = results.load(folder)
    (loaded.runs[0].folder / "power.csv").write_text("nonsense\n1\n")
    (loaded.runs[1].folder / "waveform-tap1a.parquet").write_bytes(b"PAR1")
    table = recompute.table(loaded, in_process)
    assert "power.csv: no column 'time_ns'" in table["problem"][0]
    assert "waveform-tap1a.parquet: cannot be read" in table["problem"][1]
    assert table["points_joules"][0] is None
    assert table["points_joules"][1] is not None


def test_few_things_need_no_cluster(monkeypatch):
    monkeypatch.setattr(cluster, "_local", lambda processes: pytest.fail("a cluster for so little"))
    with cluster.mapping(None, cluster.PAYS - 1) as mapped:
        assert mapped(json.dumps, [1, 2]) == ["1", "2"]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x"])
def test_a_scheduler_that_is_not_there_is_told_in_one_line(monkeypatch, address):
    monkeypatch.setattr(cluster, "_SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(cluster.ClusterError, match="no scheduler there") as told, cluster.mapping(address, 1):
        pass
    assert "\n" not in str(told.value)


def test_a_worker_that_dies_is_told_in_one_line():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        cluster._local(1) as local,
        cluster.mapping(local.scheduler_address, 1) as mapped,
        pytest.raises(cluster.ClusterError, match="workers: Attempted to run task"),
    ):
        mapped(os._exit, [1])


def test_an_error_in_a_worker_comes_through(tmp_path, two_processes):
    with pytest.raises(waveform.WaveformError, match="cannot be read"):
        two_processes(waveform_chunks.stretches, [waveform_chunks.Block(tmp_path / "none.parquet", 0)])
