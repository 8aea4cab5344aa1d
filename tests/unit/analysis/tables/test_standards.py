# SPDX-License-Identifier: GPL-3.0-or-later
"""What standards ask for: filled where a campaign has it, and said where it has not."""

from __future__ import annotations

import json

import pytest

from joulerig.analysis import export, results
from joulerig.analysis.energy.meters import standing
from joulerig.analysis.runs import idle
from joulerig.analysis.tables import runs_and_cells
from joulerig.analysis.tables.standards import asked, eehpcwg
from tests.support import simulated_campaign

ACCURACY = {"volts": {"gain_percent": 0.1, "offset": 0.002}, "amps": {"gain_percent": 0.2, "offset": 1e-4}}
IOPS = {"series": "iops", "mean": 1200.0, "range_fraction": 0.08, "slope_fraction": 0.03}
WATTS = {"series": "watts", "mean": 3.0, "range_fraction": 0.02, "slope_fraction": 0.01}
VERDICT = {
    "steady": True,
    "round": 7,
    "rounds": 7,
    "rounds_before": 2,
    "judged_on": ["iops", "watts"],
    "reason": "steady",
    "windows": [{**window, "first": 5, "last": 9} for window in (IOPS, WATTS)],
}
RECIPE = {"purge": "discard", "passes": 2, "job": "randwrite", "round_seconds": 60, "use_bytes": 2 * 10**9}


@pytest.fixture
def build(tmp_path):
    def make(**given):
        given = {"traces": True, "accuracy": ACCURACY, "drives": ("nvme-plp",), **given}
        return simulated_campaign.build(tmp_path / "c", schedulers=("none",), filesystems=("ext4",), **given)

    return make


def rows(folder, name):
    """Return {(subject, quantity): (number, text)} of a table."""
    frame = runs_and_cells.frames(results.load(folder))[name]
    return {(row["subject"], row["quantity"]): (row["number"], row["text"]) for row in frame.to_dicts()}


CELL = "nvme-plp/ext4/none/randwrite-fsync"


def test_emeralds_figures_are_those_of_the_cell(build):
    folder = build(replicates=2)
    found = rows(folder, "emerald")
    (cell,) = runs_and_cells.cells(results.load(folder)).to_dicts()
    for quantity, column in (
        ("idle capacity per watt", "idle_gb_per_watt"),
        ("requests of the block layer per watt", "iops_per_watt"),
        ("throughput per watt", "mib_per_second_per_watt"),
        ("operations of the load per watt", "ai_ops_per_joule"),
        ("mean power", "mean_watts"),
    ):
        assert found[CELL, quantity] == (cell[column], ""), quantity
    assert found[CELL, "raw capacity"] == (4.294967296, "")
    assert found[CELL, "interface"] == (None, "nvme")
    assert found[CELL, "length"][0] == 10.0
    assert found[CELL, "input volts"][0] == pytest.approx(12.0, rel=1e-3)


def test_what_emerald_asks_for_and_the_rig_has_not_says_so(build):
    found = rows(build(), "emerald")
    for quantity in ("category of the taxonomy", "random read of the raw device", "ambient temperature"):
        assert found[CELL, quantity] == (None, "not measured")
    assert found[CELL, "conditioning"] == (None, "not measured")
    assert found["meter tap1a", "crest factor"] == (None, "not measured")


def test_an_instrument_has_its_rate_losses_and_standing(build):
    folder = build()
    found, campaign = rows(folder, "emerald"), results.load(folder)
    assert found["meter tap1a", "sample rate"] == (1000.0, "")
    assert found["meter tap1a", "kind of samples"] == (None, "window-mean")
    assert found["meter tap1a", "calibration date"] == (None, "not measured")
    (run,) = campaign.runs
    energy = run.energy
    lost = 100 * (1 - sum(rail.samples for rail in energy) / sum(rail.expected for rail in energy))
    assert found["meter tap1a", "samples that are not in the energy"][0] == pytest.approx(lost)
    text = standing(campaign.lab, campaign.provenance, "tap1a")
    assert found["meter tap1a", "what vouches for it"] == (None, text)


def test_samples_over_range_are_not_known_without_a_declared_range(build):
    """An instrument that clips without a word has none, and that is no zero."""
    folder = build()
    campaign = results.load(folder)
    assert rows(folder, "emerald")["meter tap1a", "samples over range"] == (None, "not measured")
    campaign.lab["controller"]["meters"]["tap1a"]["full_scale"] = {"amps": 5.0}
    meter = runs_and_cells.frames(campaign)["emerald"].filter(subject="meter tap1a")
    found = {row["quantity"]: row for row in meter.to_dicts()}
    assert found["range"]["text"] == "amps 5"
    assert found["samples over range"]["number"] == 0


def test_pts_has_the_preconditioning_and_its_window(build):
    folder = build()
    (run,) = results.load(folder).runs
    made = {"reused": False, "why": "never", "by": run.id, "recipe": RECIPE, "verdict": VERDICT}
    (run.folder / "precondition.json").write_text(json.dumps({**made, "stretches": []}))
    found = rows(folder, "pts")
    drive = f"vhost1/nvme-plp before run {run.id}"
    assert found[drive, "purge"] == (None, "discard")
    assert found[drive, "active range"] == (2.0, "")
    assert found[drive, "WIPC: passes over the active range"] == (2.0, "")
    assert found[drive, "WDPC: load of the rounds"] == (None, "randwrite")
    assert found[drive, "WDPC by the tested load through its file system"] == (None, "not measured")
    assert found[drive, "rounds"] == (9.0, "")
    assert found[drive, "iops: rounds of the window"] == (None, "5 to 9")
    assert found[drive, "iops: range, at most 20 allowed"] == (pytest.approx(8.0), "")
    assert found[drive, "watts: slope, at most 10 allowed"] == (pytest.approx(1.0), "")
    emerald = rows(folder, "emerald")[CELL, "conditioning"]
    assert emerald == (None, "purge discard, 2 passes, rounds of randwrite: steady")


def test_a_drive_that_was_not_preconditioned_says_so_in_each_row(build):
    found = rows(build(), "pts")
    for quantity in ("purge", "active range", "rounds", "iops: mean", "reached"):
        assert found["vhost1/nvme-plp", quantity] == (None, "not measured")
    assert found["vhost1/nvme-plp", "model"] == (None, "QEMU NVMe Ctrl")
    assert found["vhost1/nvme-plp", "write cache"] == (None, "write back")


def test_a_load_has_the_settings_that_fio_reports(build):
    folder = build()
    (run,) = results.load(folder).runs
    options = {"rw": "randwrite", "bs": "4k", "numjobs": "4", "iodepth": "8"}
    report = {"global options": {"size": "1g"}, "jobs": [{"job options": options}]}
    (run.folder / "load.json").write_text(json.dumps(report))
    found = rows(folder, "pts")
    load = "vhost1/nvme-plp randwrite-fsync"
    assert found[load, "threads"] == (4.0, "")
    assert found[load, "outstanding I/O per thread"] == (None, "8")
    assert found[load, "active range"] == (None, "1g")
    assert found[load, "data pattern"] == (None, "not measured")


@pytest.mark.parametrize("name", ["precondition", "settings", "load"])
def test_a_damaged_file_leaves_its_rows_not_measured(build, name):
    folder = build()
    (results.load(folder).runs[0].folder / f"{name}.json").write_text("{")
    assert (None, "not measured") in rows(folder, "pts").values()


RAIL = "nvme-plp 12v by tap1a"


def test_the_level_is_the_least_of_the_aspects_and_names_what_is_missing(build):
    found = rows(build(), "eehpcwg")
    assert found[RAIL, "granularity"] == (3.0, "1000 samples per second, integrated one by one")
    assert found[RAIL, "time span"][0] == 3
    assert found[RAIL, "subsystems"][0] == 1
    assert found[RAIL, "accuracy"][0] == 3
    level, missing = found[RAIL, "least of the aspects"]
    assert level == 0
    assert missing.startswith("point of measurement: behind the supply")


@pytest.mark.parametrize(
    ("given", "aspect", "level"),
    [
        ({"accuracy": None}, "accuracy", 0),
        ({"accuracy": {name: {"gain_percent": 1.0} for name in ("volts", "amps")}}, "accuracy", 2),
        ({"accuracy": {name: {"gain_percent": 2.5} for name in ("volts", "amps")}}, "accuracy", 1),
        ({"accuracy": {name: {"gain_percent": 9.0} for name in ("volts", "amps")}}, "accuracy", 0),
        ({"lost_share": 0.05}, "time span", 0),
    ],
)
def test_levels_fall_with_what_is_worse(build, given, aspect, level):
    assert rows(build(**given), "eehpcwg")[RAIL, aspect][0] == level


@pytest.mark.parametrize(
    ("spec", "level"),
    [
        ({"sample_rate_hz": 120.0, "timing": "stream"}, 3),
        ({"sample_rate_hz": 119.0, "timing": "stream"}, 2),
        ({"sample_rate_hz": 1000.0, "timing": "poll"}, 2),
        ({"sample_rate_hz": 0.5, "timing": "poll"}, 0),
        ({}, 0),
    ],
)
def test_granularity_is_by_rate_and_kind(build, spec, level):
    campaign = results.load(build())
    meter = campaign.lab["controller"]["meters"]["tap1a"]
    del meter["sample_rate_hz"]
    meter.update(spec)
    (row,) = [one for one in eehpcwg.asked(campaign, idle.by_run(campaign)) if one.quantity == "granularity"]
    assert row.number == level


def test_report_and_export_write_the_same_tables(build, tmp_path):
    folder = build()
    campaign = results.load(folder)
    runs_and_cells.write(campaign, tmp_path / "report")
    export.write(campaign, tmp_path / "export", ["csv"])
    for name in ("emerald", "pts", "eehpcwg"):
        text = (tmp_path / "report" / f"{name}.csv").read_text()
        assert text == (tmp_path / "export" / f"{name}.csv").read_text()
        assert text.startswith(",".join(asked.COLUMNS))


def test_pts_has_what_a_load_did_and_names_what_is_not_kept(build):
    folder = build(replicates=3)
    found = rows(folder, "pts")
    load = "vhost1/nvme-plp randwrite-fsync"
    rates = sorted(run.performance.ops_per_second for run in results.load(folder).runs)
    assert found[load, "operations per second, through a file system"] == (rates[1], "")
    assert found[load, "99 % quantile of latency, through a file system"][0] > 0
    assert found[load, "greatest latency"] == (None, "not measured")
