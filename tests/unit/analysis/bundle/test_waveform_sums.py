# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy that waveforms give is stated next to the journal's."""

from __future__ import annotations

import pytest

from joulerig.analysis import results
from joulerig.analysis.bundle import waveforms
from joulerig.analysis.bundle.check import FAILED, OK
from joulerig.analysis.runs import waveform_chunks
from joulerig.analysis.runs.cluster import in_process
from tests.support import simulated_campaign, simulated_waveform

NAME = "waveform-tap1a.parquet"


@pytest.fixture
def campaign(tmp_path):
    """Runs with power points; the first one also has a waveform of its workload phase."""
    folder = simulated_campaign.build(
        tmp_path / "c", drives=["nvme-plp"], schedulers=["none"], replicates=2, traces=True
    )
    loaded = results.load(folder)
    run = loaded.runs[0]
    start_ns = run.phases["workload"].start_ns
    simulated_waveform.write(run.folder / NAME, samples=20_000, begin_ns=start_ns - 10**9)
    return loaded


def test_the_sum_is_over_the_samples_that_end_in_the_phase(campaign):
    (found,), problems = waveforms.compute(campaign, in_process)
    assert problems == []
    assert found.run == campaign.runs[0].id
    assert found.rail.joules == campaign.runs[0].result.joules
    assert found.waveform.samples == 10_000  # ten seconds at 1 kHz
    assert found.waveform.joules == pytest.approx(12 * 0.45 * 10, rel=1e-2)


def test_the_check_says_how_much_less_that_is_than_the_journals(campaign):
    (found,), _ = waveforms.compute(campaign, in_process)
    check = waveforms.check(campaign, in_process)
    assert check.state == OK
    less = 100 * (1 - found.waveform.joules / found.rail.joules)
    assert check.detail == (
        f"1 phase and rail, 10000 samples of {found.rail.expected} expected;"
        f" less than the counters' joules by {less:.4f} to {less:.4f} %, mean {less:.4f} %"
    )


def test_a_waveform_of_many_blocks_gives_the_same_sum(campaign, monkeypatch):
    (whole,), _ = waveforms.compute(campaign, in_process)
    monkeypatch.setattr(waveform_chunks, "ROWS", 997)
    (parts,), _ = waveforms.compute(campaign, in_process)
    assert parts.waveform.samples == whole.waveform.samples
    assert parts.waveform.joules == pytest.approx(whole.waveform.joules, rel=1e-12)


@pytest.mark.parametrize("content", [b"PAR1", b"", b"nonsense" * 100])
def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_summed(campaign, content):
    bad = campaign.runs[1]
    (bad.folder / NAME).write_bytes(content)
    check = waveforms.check(campaign, in_process)
    assert check.state == FAILED
    assert check.detail.startswith("1 phase and rail, 10000 samples")
    (problem,) = check.offenders
    assert problem.startswith(f"{bad.id}: {NAME}: cannot be read")


def test_a_block_that_cannot_be_read_takes_its_file_out_and_no_other(campaign, monkeypatch):
    bad = campaign.runs[1]
    simulated_waveform.write(
        bad.folder / NAME, samples=20_000, begin_ns=bad.phases["workload"].start_ns - 10**9
    )
    read = waveform_chunks.stretches

    def stretches(block):
        if block.path.parent == bad.folder:
            raise waveforms.WaveformError(f"{block.path}: cannot be read: cut")
        return read(block)

    monkeypatch.setattr(waveform_chunks, "stretches", stretches)
    sums, problems = waveforms.compute(campaign, in_process)
    assert [one.run for one in sums] == [campaign.runs[0].id]
    assert problems == [f"{bad.id}: {NAME}: cannot be read: cut"]


def test_without_waveforms_there_is_nothing_to_check(campaign):
    assert waveforms.kept(campaign)
    (campaign.runs[0].folder / NAME).unlink()
    assert not waveforms.kept(campaign)
