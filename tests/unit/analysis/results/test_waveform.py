# SPDX-License-Identifier: GPL-3.0-or-later
"""A waveform file written by the collectors' package, read by results.waveform."""

import json
import subprocess

import numpy as np
import polars as pl
import pytest

from joulerig.analysis.results import waveform
from tests.support import ROOT

BEGIN = 1700000000123456789
PRESENT = [k for k in range(3000) if not 1000 <= k < 1500]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Return the file of collectors/internal/waveform/example, and its counters' joules."""
    path = tmp_path_factory.mktemp("waveform") / "power.parquet"
    done = subprocess.run(
        [ROOT / "tools/go", "run", "./collectors/internal/waveform/example", path],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return path, json.loads(done.stdout)


def known(volts, k):
    return volts - (k % 1000) / 1024, (k % 333) / 256 - 0.25


def test_every_sample_comes_back_exactly(example):
    frame = waveform.read(example[0]).frame
    assert dict(frame.schema) == waveform.COLUMNS
    assert frame.height == 2 * (2500 + 3000)
    for rail, volts in (("12v", 12), ("5v", 5)):
        for stream, indices in ((0, PRESENT), (1, list(range(3000)))):
            rows = frame.filter(pl.col("rail") == rail, pl.col("stream") == stream)
            assert rows["index"].to_list() == indices
            v, a = known(volts, np.array(indices))
            assert np.array_equal(rows["volts"].to_numpy(), v)
            assert np.array_equal(rows["amps"].to_numpy(), a)
    assert frame.select("host", "drive").unique().rows() == [("vhost1", "nvme-plp")]


def test_the_sum_over_the_file_is_the_joules_of_the_counter(example):
    path, joules = example
    energy = waveform.energy_by_rail(waveform.read(path))
    assert set(energy) == {("vhost1", "nvme-plp", "12v"), ("vhost1", "nvme-plp", "5v")}
    for (_, _, rail), value in energy.items():
        assert value == pytest.approx(joules[rail], rel=1e-12)


def test_times_are_the_ends_of_the_samples_by_the_clocks_pairs(example):
    frame = waveform.read(example[0], rails=["5v"]).frame
    for stream, per_sample in ((0, 1_000_100), (1, 1_000_000)):
        rows = frame.filter(pl.col("stream") == stream)
        want = BEGIN + stream * 10_000_000_000 + (rows["index"] + 1) * per_sample
        assert (rows["time_ns"] - want).abs().max() <= 1


def test_outside_the_pairs_time_runs_at_the_declared_rate():
    pairs = [(100, BEGIN), (200, BEGIN + 110_000_000)]
    meta = {
        "sample_rate_hz": 1000,
        "clock": [{"stream": 3, "index": index, "utc_ns": utc} for index, utc in pairs],
    }
    times = waveform.sample_times(meta, 3, pl.Series([89, 99, 149, 199, 209]))
    assert (times - BEGIN).to_list() == [-10_000_000, 0, 55_000_000, 110_000_000, 120_000_000]


def test_a_stream_without_a_clock_has_no_times():
    meta = {"sample_rate_hz": 1000, "clock": []}
    assert waveform.sample_times(meta, 0, pl.Series([0, 1])).to_list() == [None, None]


@pytest.mark.parametrize("begin", [-1_000_000_000, 0, 500_000, 2_100_000_000, 3_500_000_000, 11_000_000_000])
@pytest.mark.parametrize("length", [0, 1_000_000, 700_000_000, 9_000_000_000])
def test_an_interval_is_what_the_whole_file_has_of_it(example, begin, length):
    whole = waveform.read(example[0]).frame
    start, end = BEGIN + begin, BEGIN + begin + length
    part = waveform.read(example[0], start_ns=start, end_ns=end).frame
    assert part.equals(whole.filter(pl.col("time_ns") > start, pl.col("time_ns") <= end))


def test_point_samples_are_joined_by_trapezoids_but_not_over_a_gap():
    frame = pl.DataFrame(
        {
            "host": "h",
            "drive": "d",
            "rail": "12v",
            "stream": [0, 0, 0, 1],
            "index": [0, 1, 3, 4],
            "volts": [10.0, 12.0, 8.0, 8.0],
            "amps": 1.0,
        }
    )
    meta = {"sample_rate_hz": 10, "samples": "point"}
    assert waveform.energy_by_rail(waveform.Waveform(frame, meta)) == {("h", "d", "12v"): pytest.approx(1.1)}


def test_the_file_says_what_it_is(example):
    meta = waveform.metadata(example[0])
    assert (meta["meter"], meta["session"], meta["instrument"]) == ("tap1a", "0123456789ab", "R&S RTA4004")
    assert (meta["recorded"], meta["dropped"], meta["cut"], meta["truncated"]) == (11000, 0, 0, False)
    assert meta["rails"][0]["volts"] == {
        "name": "CH1",
        "gain": 1.0005,
        "offset": -0.001,
        "certificate": "K-2026-1",
    }
    assert meta["last"][1] == {"rail": 1, "stream": 1, "index": 2999}


def test_a_file_that_is_not_a_waveform_is_refused_in_one_line(tmp_path, example):
    plain = tmp_path / "plain.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(plain)
    text = tmp_path / "text.parquet"
    text.write_text("time_ns,rail\n")
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(example[0].read_bytes()[:-100])
    for path in (plain, text, torn, tmp_path / "none.parquet"):
        with pytest.raises(waveform.WaveformError) as refused:
            waveform.read(path)
        assert str(path) in str(refused.value)
        assert "\n" not in str(refused.value)
