# SPDX-License-Identifier: GPL-3.0-or-later
"""How warm the drives of compared runs were, and whether work per joule goes with that."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare import temperature
from joulerig.analysis.report import document
from joulerig.analysis.runs import temperature as temperatures
from joulerig.analysis.tables import runs_and_cells
from joulerig.rig.cli import results as command
from tests.support import simulated_campaign

NVME = {"critical_warning": 0, "temperature": 273 + 31}
SATA = {"smartctl": {"exit_status": 0}, "temperature": {"current": 31}}


@pytest.mark.parametrize(
    ("report", "celsius"),
    [
        (NVME, 31),
        (SATA, 31),
        ({"temperature": 0}, None),
        ({"temperature": {}}, None),
        ({"temperature": {"current": None}}, None),
        ({"temperature": True}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_the_temperature_of_a_health_report(report, celsius):
    assert temperatures.celsius(report) == celsius


@pytest.fixture
def build(tmp_path):
    """Build a campaign whose drives begin at `start(run)` and end 9 K warmer."""

    def make(start, **given):
        given = {"replicates": 6, "noise": 0.002, **given}
        folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",), schedulers=("none",), **given)
        for run in results.load(folder).runs:
            for name, kelvin in (("before", 273), ("after", 282)):
                report = {"temperature": int(start(run)) + kelvin}
                (run.folder / f"smart_{name}.json").write_text(json.dumps(report))
        return folder

    return make


def compare(folder):
    campaign = results.load(folder)
    found = temperatures.by_run(campaign)
    (one,) = temperature.compare(campaign, comparison.compare_cells(campaign), found)
    return one


def warm_by_block(run):
    return 30 + 2 * run.block


def slow_when_warm(folder, per_kelvin):
    """Let each run draw so much more for each kelvin above 30 degrees, as a fraction."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as database, database:
        for run in results.load(folder).runs:
            factor = 1 + per_kelvin * (warm_by_block(run) - 30)
            database.execute(
                "UPDATE result SET joules = ?, ai_ops_per_joule = ? WHERE run = ?",
                (run.result.joules * factor, run.result.ai_ops_per_joule / factor, run.id),
            )
    return folder


def test_rows_have_the_temperatures_and_cells_their_means(build):
    campaign = results.load(build(warm_by_block))
    for row in runs_and_cells.runs(campaign).iter_rows(named=True):
        assert row["temperature_start_celsius"] == 30 + 2 * row["block"]
        assert row["temperature_end_celsius"] == 39 + 2 * row["block"]
    for row in runs_and_cells.cells(campaign).iter_rows(named=True):
        assert row["temperature_start_celsius"] == pytest.approx(37)
        assert row["temperature_end_celsius"] == pytest.approx(46)


def test_the_warmest_of_several_drives_counts(build, monkeypatch):
    folder = build(warm_by_block)
    campaign = results.load(folder)
    run = campaign.runs[0]
    several = {"a": {"temperature": 300}, "b": {"temperature": 310}, "c": None}
    (run.folder / "smart_before.json").write_text(json.dumps(several))
    monkeypatch.setattr(type(campaign), "drives", lambda self, run: ["a", "b", "c"])
    assert temperatures.of_run(campaign, campaign.runs[0]).start == 37


def test_work_per_joule_that_goes_with_temperature_is_seen(build):
    one = compare(slow_when_warm(build(warm_by_block), 0.005))
    assert one.seen
    assert one.per_kelvin(one.trend.slope) == pytest.approx(-0.005, abs=0.001)
    assert one.cells_differ == 0
    (said,) = temperature.warnings([one])
    assert said.startswith("nvme-plp, randwrite-fsync: work per joule goes with the drive's temperature, -0.")


def test_where_nothing_goes_with_temperature_one_campaign_in_twenty_at_most_says_so(build, tmp_path):
    """Integer temperatures that repeat leave the test cautious, not bold."""
    rng, seen = np.random.default_rng(5), 0
    folder = build(warm_by_block)
    campaign = results.load(folder)
    compared = comparison.compare_cells(campaign)
    count = 200
    for _ in range(count):
        found = {
            run.id: temperatures.Temperatures(float(rng.integers(30, 40)), None) for run in campaign.runs
        }
        (one,) = temperature.compare(campaign, compared, found)
        seen += one.seen
    assert seen <= 18  # 10 expected at most; 18 has 1 % with a right of 5 %


def test_cells_that_began_at_notably_different_temperatures_are_named(build):
    one = compare(build(lambda run: 45 if run.filesystem == "f2fs" else 31))
    assert list(temperature.warnings([one])) == [
        "nvme-plp, randwrite-fsync: cells ran at different temperatures, ext4 with none at 31 °C"
        " and f2fs with none at 45 °C at the start, 14.0 K apart"
    ]
    assert one.trend is None
    assert one.why == "too few runs of a cell at different temperatures"


def test_five_kelvins_between_cells_are_not_notable(build):
    one = compare(build(lambda run: 36 if run.filesystem == "f2fs" else 31))
    assert list(temperature.warnings([one])) == []


def test_cells_of_one_run_are_compared_in_temperature_too(build):
    one = compare(build(lambda run: 45 if run.filesystem == "f2fs" else 31, replicates=1))
    assert one.cells_differ == 14
    assert one.why == "no cell has two runs"


@pytest.mark.parametrize(
    ("start", "why"),
    [(lambda run: 31, "every run began at 31 °C"), (lambda run: -273, "no drive reports its temperature")],
)
def test_without_different_temperatures_nothing_can_be_judged(build, start, why):
    one = compare(build(start))
    assert (one.trend, one.p, one.seen, one.why) == (None, None, False, why)


def test_report_terminal_and_table_agree(build):
    folder = slow_when_warm(build(warm_by_block), 0.005)
    campaign = results.load(folder)
    one = compare(folder)
    page = document.html(campaign)
    (said,) = temperature.warnings([one])
    shown = said.replace("'", "&#39;")
    assert page.index(shown) < page.index("Most work per joule, by drive and workload")
    assert f"WARNING: {said}" in command.summary_text(folder).splitlines()
    assert "Temperature of the drives" in page
    (row,) = temperature.table(campaign, [one]).iter_rows(named=True)
    assert row["percent_per_kelvin"] == pytest.approx(100 * one.per_kelvin(one.trend.slope))
    assert row["percent_per_kelvin_low"] < row["percent_per_kelvin"] < row["percent_per_kelvin_high"]
    assert (row["start_least_celsius"], row["start_greatest_celsius"]) == (32, 42)
    assert (row["seen"], row["p"]) == (True, one.p)


def test_a_campaign_whose_drives_report_nothing_has_no_chapter(tmp_path):
    folder = simulated_campaign.build(tmp_path / "bare", drives=("nvme-plp",))
    assert "Temperature of the drives" not in document.html(results.load(folder))


def test_a_damaged_health_report_is_as_none_and_is_named(build):
    folder = build(warm_by_block)
    path = results.load(folder).runs[0].folder / "smart_before.json"
    path.write_text("{")
    campaign = results.load(folder)
    assert temperatures.of_run(campaign, campaign.runs[0]) == temperatures.Temperatures(None, 41.0)
    (problem,) = temperatures.damaged_files(campaign)
    assert problem.startswith(f"{path}: cannot be read as JSON")
    assert "smart_before.json: cannot be read as JSON" in document.html(campaign)
