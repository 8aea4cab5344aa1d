# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle power of each rail, from the runs whose drives were at rest."""

from __future__ import annotations

import sqlite3
import statistics

import pytest

from joulerig.analysis import results
from joulerig.analysis.runs import idle, idle_baseline
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome


def build(folder, **given):
    return simulated_campaign.build(folder, traces=True, **given)


def baselines_of(folder):
    campaign = results.load(folder)
    found = idle_baseline.rail_baselines(campaign, idle.by_run(campaign))
    return {(one.drive, one.rail): one for one in found}


def edit(folder, *statements):
    with sqlite3.connect(folder / "journal.sqlite") as database:
        for statement in statements:
            database.execute(statement)


def test_a_rails_baseline_is_the_mean_over_its_runs_at_rest(tmp_path):
    folder = build(tmp_path / "c")
    found = baselines_of(folder)
    assert set(found) == {("nvme-plp", "12v"), ("nvme-consumer", "3v3")}
    idles = idle.by_run(results.load(folder)).values()
    watts = [one.drives["nvme-plp"].watts for one in idles if "nvme-plp" in one.drives]
    watts = [one for one in watts if one is not None]
    plp = found["nvme-plp", "12v"]
    assert (plp.host, plp.meter, plp.n + plp.left_out) == ("vhost1", "tap1a", 9)
    assert plp.n == len(watts) >= 7
    assert plp.watts == pytest.approx(statistics.fmean(watts))
    assert plp.watts == pytest.approx(simulated_campaign.DRIVES["nvme-plp"]["idle"], rel=0.01)
    assert plp.standard_deviation == pytest.approx(statistics.stdev(watts))
    assert (plp.least, plp.greatest) == (min(watts), max(watts))
    assert plp.low < plp.watts < plp.high
    assert plp.settled_seconds < 2


def test_it_says_when_and_whether_that_was_one_day(tmp_path):
    folder = build(tmp_path / "c", drives=("nvme-plp",))
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert found.first_ns < found.last_ns
    assert found.same_day


def test_a_single_run_has_no_spread(tmp_path):
    folder = build(tmp_path / "c", drives=("nvme-plp",), filesystems=("ext4",), schedulers=("none",))
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert (found.n, found.standard_deviation) == (1, None)
    assert found.watts == found.least == found.greatest


def test_runs_without_joules_or_trace_are_left_out_counted_and_said_why(tmp_path):
    folder = build(
        tmp_path / "c",
        drives=("nvme-plp",),
        outcome=lambda levels: Outcome("partial", "silent", power_csv=levels["ordinal"] != 1),
    )
    edit(folder, "UPDATE energy SET joules = NULL WHERE phase = 'idle' AND run = (SELECT max(id) FROM run)")
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert found.n <= 7
    assert found.n + found.left_out == 9
    assert found.why == "no power points"


def test_a_rail_that_was_never_idle_with_joules_has_no_figure(tmp_path):
    folder = build(tmp_path / "c", drives=("nvme-plp",))
    edit(folder, "UPDATE energy SET joules = NULL WHERE phase = 'idle'")
    found = baselines_of(folder)["nvme-plp", "12v"]
    assert (found.n, found.watts, found.low, found.first_ns, found.left_out) == (0, None, None, None, 9)
