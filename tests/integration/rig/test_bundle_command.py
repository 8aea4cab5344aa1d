# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig export` and `rig verify`, and that what is recorded is what its files give again."""

import json
import re
import shutil
from pathlib import Path

import pytest

from joulerig.analysis import results
from joulerig.analysis.bundle import recompute, writer
from tests.integration.rig.test_command_line import refused, rig
from tests.integration.rig.test_record_result import answer, journal, power, recorded
from tests.support import simulated_campaign, simulated_waveform, verifiable_campaign
from tests.support.simulated_campaign import Outcome

__all__ = ["journal", "rig"]  # fixtures


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return verifiable_campaign.build(tmp_path_factory.mktemp("made") / "study-1")


@pytest.fixture
def campaign(state, made):
    return Path(shutil.copytree(made, state / "results" / "study-1"))


@pytest.fixture
def bundle(campaign, rig, monkeypatch, tmp_path):
    """A bundle by the command, without its PDF: that takes the longest."""
    monkeypatch.setattr(writer.document, "pdf", lambda _: b"%PDF")
    done = rig("export", "study-1", "--bundle", tmp_path / "b.zip")
    assert done.returncode == 0, done.stderr
    return tmp_path / "b.zip"


def test_tables_go_into_the_campaigns_own_folder(rig, campaign):
    done = rig("export", "study-1", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert (campaign / "export" / "runs.csv").exists()
    assert (campaign / "export" / "schema.json").exists()
    assert not list((campaign / "export").glob("*.parquet"))
    assert f"{campaign}/export/power.csv" in done.stdout


def test_tables_go_where_they_are_asked_for(rig, campaign, tmp_path):
    assert rig("export", "study-1", "--output", tmp_path / "here").returncode == 0
    assert (tmp_path / "here" / "cells.parquet").exists()
    assert not (campaign / "export").exists()


def test_a_campaign_without_a_load_that_ended_has_no_coefficients(rig, state, tmp_path):
    given = {"outcome": lambda _: Outcome("failed", "no space left on device")}
    simulated_campaign.build(state / "results" / "nothing", **given)
    done = rig("export", "nothing", "--coefficients", tmp_path / "c.json")
    assert done.returncode == 2
    assert done.stderr == "rig: nothing: no run has a drive by itself and a load that ended\n"
    assert not (tmp_path / "c.json").exists()


def test_coefficients_are_written_and_what_is_withheld_is_named(rig, campaign, tmp_path):
    done = rig("export", "study-1", "--coefficients", tmp_path / "c.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "c.json").read_text())["format"] == "joulerig-coefficients"
    assert "withheld: joules_per_read_byte: " in done.stdout
    done = rig("export", "study-1", "--coefficients", tmp_path / "k.json", "--for", "kepler")
    assert "All_Weights" in (tmp_path / "k.json").read_text()


def test_a_bundle_is_verified(rig, bundle):
    done = rig("verify", bundle)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok            zip: ")
    assert not any(line.startswith("FAILED") for line in lines)
    assert len([line for line in lines if line.startswith("ok ")]) == 17


def test_a_campaign_is_verified_by_its_id(rig, campaign):
    done = rig("verify", "study-1")
    assert done.returncode == 0
    assert "not checkable manifest" in done.stdout


def test_waveforms_are_summed_as_well_as_the_power_points(rig, campaign):
    run = results.load(campaign).runs[0]
    start_ns = run.phases["workload"].start_ns
    path = run.folder / "waveform-tap1a.parquet"
    simulated_waveform.write(path, samples=20_000, begin_ns=start_ns - 10**9)
    done = rig("verify", campaign)
    assert done.returncode == 0, done.stdout
    assert "ok            energy: " in done.stdout
    assert "ok            waveforms: 1 phase and rail, 10000 samples of 10010 expected" in done.stdout
    path.write_bytes(b"PAR1")
    done = rig("verify", campaign)
    assert done.returncode == 1
    assert "FAILED        waveforms: 0 phases" in done.stdout
    assert f"    {run.id}: waveform-tap1a.parquet: cannot be read" in done.stdout


def test_what_does_not_hold_is_named_and_the_exit_code_is_1(rig, campaign):
    verifiable_campaign.edit(campaign, "UPDATE result SET ai_ops_per_joule = 1")
    done = rig("verify", campaign)
    assert done.returncode == 1
    assert re.search(r"^FAILED +joules and AI of runs: \d+ figures$", done.stdout, re.MULTILINE)
    assert "ai_ops_per_joule: 1.0 is stored" in done.stdout


def test_what_cannot_be_read_is_one_line(rig, state, bundle, tmp_path):
    assert "no such file or folder" in refused(rig("verify", "nothing.zip"))
    bundle.write_bytes(bundle.read_bytes()[:5000])
    assert f"{bundle}: cannot be read as a zip" in refused(rig("verify", bundle))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("study-1", "--format", "xlsx"), "--format: 'xlsx' is unknown; allowed: csv, parquet"),
        (("study-1", "--bundle", "b.zip", "--output", "x"), "--bundle: cannot be combined with --output"),
        (("study-2",), "no campaign 'study-2'"),
        (("study-1", "--output", "/proc/nowhere"), "/proc/nowhere: cannot be written"),
        (("study-1", "--bundle", "/proc/nowhere/b.zip"), "cannot be written"),
        (("study-1", "--coefficients", "/proc/nowhere/c.json"), "/proc/nowhere: cannot be written"),
        (
            ("study-1", "--coefficients", "c.json", "--bundle", "b.zip"),
            "--coefficients: cannot be combined",
        ),
        (("study-1", "--coefficients", "c.json", "--for", "excel"), "--for: 'excel' is unknown; allowed: al"),
        (("study-1", "--for", "alumet"), "--for: only with --coefficients"),
    ],
)
def test_what_cannot_be_exported_is_one_line(rig, campaign, monkeypatch, words, expected):
    monkeypatch.setattr(writer.document, "pdf", lambda _: b"%PDF")
    assert expected in refused(rig("export", *words))


def test_a_damaged_series_is_one_line(rig, campaign):
    path = next(campaign.glob("runs/*/power.csv"))
    path.write_text("a\n1\n")
    assert "no column 'time_ns'" in refused(rig("export", "study-1"))
    assert not (campaign / "export").exists()


# What is recorded of a run


@pytest.mark.parametrize(
    ("drive", "rails", "more"),
    [
        ("fast", {"fast": "tap1"}, {}),
        ("pair", {"hdd-1": "tap1", "hdd-2": "tap2"}, {}),
        ("pair", {"hdd-1": "tap1"}, {}),
        ("fast", {}, {}),
        ("bare", {}, {}),
        ("fast", {"fast": "tap1"}, {"status": "failed", "reason": "fio: no space"}),
        ("fast", {"fast": "tap1"}, {"status": "failed", "reason": "no load", "report": None}),
        ("fast", {"fast": "tap1"}, {"report": {"jobs": []}}),
        ("fast", {"fast": "tap1"}, {"phases": [], "reason": "no phase", "status": "failed"}),
    ],
)
def test_what_is_recorded_of_a_run_comes_out_again(journal, bench, influxd, drive, rails, more):
    for name, meter in rails.items():
        power(influxd, drive=name, meter=meter)
    reported = {"invocation": {"module_args": {"workload": {"tool": "fio"}}}}
    run = recorded(journal, bench, answer(**reported, **more), drive=drive)
    campaign = results.load(journal.folder)
    again, tallies = recompute.recompute(campaign)
    assert [offender for tally in tallies.values() for offender in tally.offenders] == []
    stored = next(one for one in campaign.runs if one.id == run["id"])
    computed = next(one for one in again.runs if one.id == run["id"])
    assert computed == stored
    if stored.performance:
        assert tallies["performance"].compared
        assert tallies["joules and AI of runs"].compared
    if any(rail.joules is not None for rail in stored.energy):
        assert tallies["energy"].compared


@pytest.mark.long
def test_a_merged_campaign_is_read_by_every_command(rig, campaign, tmp_path):
    shutil.copytree(campaign, tmp_path / "other")
    for place, ordinal in ((campaign, 1), (tmp_path / "other", 2)):
        for table in ("phase", "performance", "energy", "result", "io", "event"):
            verifiable_campaign.edit(place, f"DELETE FROM {table} WHERE run LIKE '%-000{ordinal}'")
        verifiable_campaign.edit(place, f"UPDATE run SET status = 'planned' WHERE ordinal = {ordinal}")
        [run] = (place / "runs").glob(f"*-000{ordinal}")
        shutil.rmtree(run)
    done = rig("merge", "study-1", tmp_path / "other", "--into", "both")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("results/both: 2 runs of 1 host: 2 ok\n")
    for words in (
        ["results", "both"], ["report", "both", "--format", "html"], ["export", "both"],
        ["export", "both", "--bundle", tmp_path / "both.zip"], ["verify", "both"],
        ["verify", tmp_path / "both.zip"],
    ):  # fmt: skip
        assert rig(*words).returncode == 0, words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["merge", "study-1", "study-1", "--into", "both"], "two or more different results folders"),
        (["merge", "study-1", "two", "--into", "both"], "no campaign 'two'; the newest: study-1"),
        (["merge", "study-1", "study-1", "--into", "../both"], "--into: '../both' is no name"),
        (["merge", "study-1", "study-1", "--into", "study-1"], "already exists"),
    ],
)
def test_what_cannot_be_merged_is_refused_on_one_line(rig, campaign, words, said):
    assert said in refused(rig(*words))
