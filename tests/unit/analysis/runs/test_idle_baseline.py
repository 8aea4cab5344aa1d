# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle power of each rail, from the runs' idle phases."""

from __future__ import annotations

import sqlite3
import statistics

import pytest

from joulerig.analysis import results
from joulerig.analysis.runs import idle_baseline
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome


def baselines_of(folder):
    return {(found.drive, found.rail): found for found in idle_baseline.rail_baselines(results.load(folder))}


def edit(folder, *statements):
    with sqlite3.connect(folder / "journal.sqlite") as database:
        for statement in statements:
            database.execute(statement)


def test_a_rails_baseline_is_the_mean_over_its_idle_phases(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    found = baselines_of(folder)
    assert set(found) == {("nvme-plp", "12v"), ("nvme-consumer", "3v3")}
    watts = [
        rail.corrected_joules / simulated_campaign.PHASES["idle"]
        for run in results.load(folder).runs
        for rail in run.energy
        if rail.phase == "idle" and rail.drive == "nvme-plp"
    ]
    plp = found["nvme-plp", "12v"]
    assert (plp.host, plp.meter, plp.n, plp.left_out) == ("vhost1", "tap1a", 9, 0)
    assert plp.watts == pytest.approx(statistics.fmean(watts))
    assert plp.watts == pytest.approx(simulated_campaign.DRIVES["nvme-plp"]["idle"], rel=0.01)
    assert plp.standard_deviation == pytest.approx(statistics.stdev(watts))
    assert (plp.least, plp.greatest) == (min(watts), max(watts))
    assert plp.low < plp.watts < plp.high


def test_it_says_when_and_whether_that_was_one_day(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",))
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert found.first_ns < found.last_ns
    assert found.same_day
    day = 86_400 * simulated_campaign.SECOND
    edit(
        folder,
        f"UPDATE phase SET start_ns = start_ns + {day}, end_ns = end_ns + {day}"
        " WHERE run = (SELECT max(id) FROM run)",
    )
    assert not baselines_of(folder)["nvme-plp", "12v"].same_day


def test_a_single_run_has_no_spread(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", drives=("nvme-plp",), filesystems=("ext4",), schedulers=("none",)
    )
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert (found.n, found.standard_deviation) == (1, None)
    assert found.watts == found.least == found.greatest


def test_phases_without_joules_or_with_long_gaps_are_left_out_and_counted(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c",
        drives=("nvme-plp",),
        outcome=lambda levels: Outcome("partial", "silent", joules=levels["ordinal"] != 1),
    )
    edit(
        folder,
        "UPDATE energy SET gap_seconds = 0.5, joules = joules / 2"
        " WHERE phase = 'idle' AND run = (SELECT max(id) FROM run)",
    )
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert (found.n, found.left_out) == (7, 2)
    assert found.least == pytest.approx(found.watts, rel=0.01)


def test_a_rail_that_was_never_idle_with_joules_has_no_figure(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",))
    edit(folder, "UPDATE energy SET joules = NULL WHERE phase = 'idle'")
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert (found.n, found.watts, found.low, found.first_ns, found.left_out) == (0, None, None, None, 9)
