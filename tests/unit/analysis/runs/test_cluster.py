# SPDX-License-Identifier: GPL-3.0-or-later
"""Waveforms are summed on a Dask cluster as in one process, to the last bit."""

from __future__ import annotations

import json
import os
import sys

import dask
import distributed
import pytest

from joulerig.analysis import results
from joulerig.analysis.bundle import waveforms
from joulerig.analysis.results import waveform
from joulerig.analysis.runs import cluster, waveform_chunks
from tests.support import simulated_campaign, simulated_waveform

BEGIN = 1_700_000_000_000_000_000


def local_cluster(processes):
    """A cluster of this machine; polars is held to one thread a process."""
    with dask.config.set({"distributed.nanny.pre-spawn-environ.POLARS_MAX_THREADS": 1}):
        return distributed.LocalCluster(
            n_workers=processes, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        )


@pytest.fixture(scope="module")
def two_processes():
    """A map over a cluster of two processes of this machine."""
    with local_cluster(2) as local, cluster.mapping(local.scheduler_address) as mapped:
        yield mapped


def test_two_processes_give_the_same_joules_to_the_last_bit(tmp_path, two_processes):
    path = simulated_waveform.write(
        tmp_path / "w.parquet", samples=1_700_000, rails=("12v", "5v"), kind="point", missing=[1_000_000]
    )
    blocks = waveform_chunks.split_file(path, (BEGIN + 5, BEGIN + 1_650_000 * 1_000_000))
    assert len(blocks) == 4
    alone = waveform_chunks.joules(path, [waveform_chunks.stretches(block) for block in blocks])
    assert waveform_chunks.joules(path, two_processes(waveform_chunks.stretches, blocks)) == alone
    assert {value.samples for value in alone.values()} == {1_649_999}


def test_the_check_on_two_processes_is_that_of_one(tmp_path, two_processes):
    folder = simulated_campaign.build(tmp_path / "c", drives=["nvme-plp"], schedulers=["none"], traces=True)
    campaign = results.load(folder)
    for run in campaign.runs[:2]:
        start_ns = run.phases["workload"].start_ns
        simulated_waveform.write(run.folder / "waveform-tap1a.parquet", samples=20_000, begin_ns=start_ns)
    (campaign.runs[2].folder / "waveform-tap1a.parquet").write_bytes(b"PAR1")
    alone = waveforms.compute(campaign, cluster.in_process)
    assert len(alone[0]) == 2
    assert len(alone[1]) == 1
    assert waveforms.compute(campaign, two_processes) == alone


def test_without_an_address_no_dask_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with cluster.mapping(None) as mapped:
        assert mapped(json.dumps, [1, 2]) == ["1", "2"]


def test_with_an_address_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(cluster.ClusterError, match=r"\.\[scale\]"), cluster.mapping("tcp://x:1"):
        pass


def test_a_scheduler_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr(cluster, "_SECONDS_TO_CONNECT", 0.5)
    address = "tcp://127.0.0.1:1"
    with pytest.raises(cluster.ClusterError, match="no scheduler there") as caught, cluster.mapping(address):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["nonsense://x", "", "x", "tcp://x", "tcp://x:1\n", "tcp://{{ 7*7 }}:1", "x" * 4096 + ":1"]
)
def test_a_text_that_is_no_address_is_refused_before_dask_tries_it(monkeypatch, address):
    monkeypatch.setitem(sys.modules, "distributed", None)  # it would be imported first
    with pytest.raises(cluster.ClusterError, match="allowed: tcp://HOST:PORT"), cluster.mapping(address):
        pass


def test_a_worker_that_dies_is_one_line():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(1) as local,
        cluster.mapping(local.scheduler_address) as mapped,
        pytest.raises(cluster.ClusterError, match="workers: Attempted to run task"),
    ):
        mapped(os._exit, [1])


def test_an_error_in_a_worker_comes_through(tmp_path, two_processes):
    with pytest.raises(waveform.WaveformError, match="cannot be read"):
        two_processes(waveform_chunks.stretches, [waveform_chunks.Block(tmp_path / "none.parquet", 0)])
