# SPDX-License-Identifier: GPL-3.0-or-later
"""The joules of waveforms, block by block."""

from __future__ import annotations

import polars as pl
import pytest

from joulerig.analysis.results import waveform
from joulerig.analysis.runs import waveform_chunks
from tests.support import simulated_waveform

BEGIN = 1_700_000_000_000_000_000
INTERVALS = [None, (BEGIN + 1_234_567, BEGIN + 7_000_000_001), (BEGIN - 1, BEGIN), (BEGIN, BEGIN + 10**12)]


def summed(path, interval=None):
    return waveform_chunks.joules(
        path, [waveform_chunks.stretches(block) for block in waveform_chunks.split_file(path, interval)]
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


def test_a_file_that_is_not_a_waveform_is_named(tmp_path):
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "w.parquet")
    with pytest.raises(waveform.WaveformError, match=r"w\.parquet: no metadata"):
        waveform_chunks.split_file(tmp_path / "w.parquet")
