# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives of one host side by side, as exact traces of what their host does and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from joulerig.analysis.results.schema import Asked, EventKind, is_control
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution.holds import Condition
from joulerig.rig.campaign.execution.side_by_side.lanes import LanesExecutor
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common.errors import UserError
from tests.support.fake_channel import FAILED, GONE
from tests.support.lanes_channel import LanesChannel

NO_RETRY = dict.fromkeys(["error", "busy", "interrupted", "booted", "host-gone"], "skip")
LASTS = {"fast": 10.0, "hdd-1": 25.0}
DONE = "partial"  # this host's meters deliver nothing


@pytest.fixture
def campaign(state, bench, mapping, services_up, open_campaign):
    """campaign(KEY=VALUE) opens one of two drives, three cells of each, in one block."""

    def opened(**changes: Any) -> OpenCampaign:
        asked = {
            **mapping, "drives": ["fast", "hdd-1"], "side_by_side": True, "replicates": 1,
            "factors": {"filesystem": ["ext4", "xfs", "f2fs"], "scheduler": ["none"], "workload": ["randread"]},
            "on_failure": NO_RETRY, **changes,
        }  # fmt: skip
        return open_campaign(asked, bench)

    return opened


def execute(opened: OpenCampaign, channel: LanesChannel, **more: Any) -> int:
    return LanesExecutor(
        opened, "bench1", channel, clock=channel.clock, sleep=channel.sleep, **more
    ).execute()


def resume(opened: OpenCampaign) -> OpenCampaign:
    journal = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    return OpenCampaign.load(journal, opened.lab)


def plan(opened: OpenCampaign, drive: str) -> list[str]:
    """The runs of a drive in their order; a control has a star."""
    return [
        run["id"][-4:] + "*" * is_control(run["factors"])
        for run in opened.journal.runs()
        if run["drive"] == drive
    ]


def statuses(opened: OpenCampaign, drive: str) -> list[str]:
    return [run["status"] for run in opened.journal.runs() if run["drive"] == drive]


def begun(channel: LanesChannel, drive: str) -> list[str]:
    """The runs of a drive as the host began them; one that had it to itself has a star."""
    words = [line.split() for line in channel.trace]
    return [line[2] + "*" * ("alone" in line) for line in words if line[1] == drive and line[3] == "begins"]


def test_each_drive_has_its_runs_in_the_order_of_the_plan_and_its_control_alone(campaign):
    opened, channel = campaign(), LanesChannel(LASTS)
    assert execute(opened, channel) == 8
    for drive in LASTS:
        assert begun(channel, drive) == plan(opened, drive)
        assert statuses(opened, drive) == [DONE] * 4
    assert {"fast", "hdd-1"} in channel.together


def test_the_trace_of_a_block(campaign):
    """The control of the one drive waits for the other's run, and that one for the control."""
    opened, channel = campaign(seed=2), LanesChannel(LASTS)
    execute(opened, channel)
    assert plan(opened, "fast") == ["0001", "0003", "0007", "0008*"]
    assert plan(opened, "hdd-1") == ["0002", "0004", "0005*", "0006"]
    assert channel.trace == [
        "0 fast 0001 begins", "0 hdd-1 0002 begins", "10 fast 0001 ends", "10 fast 0003 begins",
        "20 fast 0003 ends", "20 fast 0007 begins", "25 hdd-1 0002 ends", "25 hdd-1 0004 begins",
        "30 fast 0007 ends", "50 hdd-1 0004 ends", "50 fast 0008 begins alone", "60 fast 0008 ends",
        "60 hdd-1 0005 begins alone", "85 hdd-1 0005 ends", "85 hdd-1 0006 begins", "110 hdd-1 0006 ends",
    ]  # fmt: skip


def test_a_request_says_whose_lanes_share_the_host_and_which_run_is_alone(campaign):
    opened, channel = campaign(), LanesChannel(LASTS)
    execute(opened, channel)
    row = opened.journal.campaign
    assert {request["lanes_of"] for request in channel.requests} == {f"{row['id']} {row['created_ns']}"}
    assert sum(request["alone"] for request in channel.requests) == 2


def test_a_run_that_fails_leaves_the_others_going(campaign):
    opened = campaign()
    first = plan(opened, "fast")[0][:4]
    assert execute(opened, LanesChannel(LASTS, {first: [FAILED]})) == 8
    assert statuses(opened, "fast") == ["failed", DONE, DONE, DONE]
    assert statuses(opened, "hdd-1") == [DONE] * 4


def test_a_drive_that_keeps_failing_is_given_up_and_the_other_goes_on(campaign):
    opened = campaign(stop={"failures_in_a_row": 2})
    channel = LanesChannel(LASTS, {run[:4]: [FAILED] for run in plan(opened, "hdd-1")})
    what = r"^bench1, hdd-1: stopped after 2 failed runs in a row; the remaining runs stay planned$"
    with pytest.raises(UserError, match=what):
        execute(opened, channel)
    assert statuses(opened, "hdd-1") == ["failed", "failed", "planned", "planned"]
    assert statuses(opened, "fast") == [DONE] * 4
    assert list(opened.journal.hosts_set_aside()) == ["bench1"]


def test_a_stop_ends_all_lanes_after_what_they_are_in(campaign):
    opened, channel = campaign(), LanesChannel(LASTS)
    channel.after_run = lambda run: opened.journal.ask(Asked.STOP)
    with pytest.raises(UserError, match="stopped by 'rig stop'"):
        execute(opened, channel)
    ended = [line for line in channel.trace if line.endswith("ends")]
    assert len(ended) == len(channel.requests) <= 2
    assert opened.journal.counts()["planned"] == 8 - len(ended)


def test_a_pause_holds_every_lane(campaign):
    opened, channel = campaign(), LanesChannel(LASTS)
    first = []

    def pause(run: str) -> None:
        if not first:
            first.append(channel.timeline.now)
            opened.journal.ask(Asked.PAUSE)

    def go_on(seconds: float) -> None:
        channel.timeline.wait(seconds)
        if first and channel.timeline.now > first[0] + 100 and opened.journal.asked:
            opened.journal.ask(None)

    channel.after_run, channel.sleep = pause, go_on  # type: ignore[method-assign]
    assert execute(opened, channel) == 8
    paused = [float(line.split()[0]) for line in channel.trace if line.split()[3] == "begins"]
    assert not [at for at in paused if first[0] < at <= first[0] + 100]


def test_what_ends_one_lane_for_good_ends_the_others_after_their_run(campaign):
    opened = campaign(on_failure={**NO_RETRY, "error": "hold"})
    first = plan(opened, "fast")[0][:4]
    with pytest.raises(UserError, match=r"^bench1: set aside, run \d+ ended \(error"):
        execute(opened, LanesChannel(LASTS, {first: [FAILED]}))
    assert statuses(opened, "fast") == ["failed", "planned", "planned", "planned"]
    assert opened.journal.counts()["planned"] >= 5
    assert "running" not in opened.journal.counts()
    assert list(opened.journal.hosts_set_aside()) == ["bench1"]


def test_a_killed_controller_leaves_two_runs_and_both_are_collected(campaign):
    """Both lanes end with the process; their host goes on with what it is in."""
    opened = campaign(seed=2)
    fast, hdd = (plan(opened, drive) for drive in LASTS)
    runs = [next(run for run in lane if "*" not in run) for lane in (fast, hdd)]
    channel = LanesChannel(LASTS, {run: [KeyboardInterrupt()] for run in runs})
    with pytest.raises(KeyboardInterrupt):
        execute(opened, channel)
    running = sorted(run["id"][-4:] for run in opened.journal.running())
    assert running == sorted(runs)
    again = resume(opened)
    host = LanesChannel(LASTS, knows=[f"{run}.1" for run in runs])
    execute(again, host)
    went_on = {line.split()[2] for line in host.trace if "goes on" in line}
    assert went_on == set(runs)
    assert [line.split()[0] for line in host.trace if "goes on" in line] == ["0", "0"]
    began = [line.split()[2] for line in (*channel.trace, *host.trace) if "begins" in line]
    assert sorted(began) == sorted(run[:4] for run in (*fast, *hdd)), "each run is begun once"
    assert again.journal.counts() == {DONE: 8}


def test_a_control_that_was_in_progress_stays_alone_when_it_is_collected(campaign):
    opened = campaign()
    [control] = [run[:4] for run in plan(opened, "fast") if "*" in run]
    with pytest.raises(KeyboardInterrupt):
        execute(opened, LanesChannel(LASTS, {control: [KeyboardInterrupt()]}))
    again = resume(opened)
    host = LanesChannel(LASTS, knows=[f"{control}.1"])
    execute(again, host)  # it fails where another begins before the control has ended
    assert host.trace[0] == f"0 fast {control} goes on alone"
    assert again.journal.counts() == {DONE: 8}


def test_a_host_that_is_away_for_a_moment_loses_no_run(campaign):
    opened = campaign()
    channel = LanesChannel(LASTS)

    def leave(run: str) -> None:
        channel.away_until = channel.timeline.now + 30 if len(channel.trace) < 4 else 0.0

    channel.after_run = leave
    assert execute(opened, channel) == 8
    assert opened.journal.counts() == {DONE: 8}


def test_a_host_that_stays_away_is_set_aside_with_all_its_lanes(campaign):
    opened = campaign()
    channel = LanesChannel(LASTS)

    def leave(run: str) -> None:
        channel.away_until = 1e9

    channel.after_run = leave
    with pytest.raises(UserError, match="gone for"):
        execute(opened, channel)
    assert list(opened.journal.hosts_set_aside()) == ["bench1"]
    assert "running" not in opened.journal.counts()


def test_a_hot_drive_holds_its_lane_alone_and_status_says_which(campaign):
    opened, channel = campaign(seed=2), LanesChannel(LASTS)
    held = []

    def hot(run: Mapping[str, Any]) -> str:
        if run["drive"] == "hdd-1" and channel.timeline.now < 60:
            held.append(opened.journal.held())
            return "hdd-1: 71 °C"
        return ""

    execute(opened, channel, holds=[Condition("temperature", hot)])
    first = next(line for line in channel.trace if "hdd-1" in line)
    assert float(first.split()[0]) >= 60
    assert held[-1] == {"bench1": ["hdd-1: 71 °C"]}, "a run of the other drive began since"
    assert opened.journal.held() == {}


def test_calls_are_forgotten_once_all_lanes_are_done(campaign):
    opened, channel = campaign(), LanesChannel(LASTS)
    execute(opened, channel)
    over = [asked for asked in channel.asked if asked.get("over")]
    assert over == [{"module": "joulerig_calls", "over": opened.journal.campaign["id"]}]
    assert channel.asked[-1] == over[0]


def test_the_host_is_noted_once_for_all_of_its_lanes(campaign):
    opened = campaign()
    execute(opened, LanesChannel(LASTS))
    rows = opened.journal._db.execute("SELECT detail FROM event WHERE event = ?", (EventKind.BEGUN,))
    assert [json.loads(row["detail"])["host"] for row in rows] == ["bench1"]


def test_a_connection_that_breaks_in_one_lane_does_not_touch_the_other(campaign):
    opened = campaign()
    first = plan(opened, "fast")[0][:4]
    channel = LanesChannel(LASTS, {first: [GONE]}, knows=())
    assert execute(opened, channel) == 8
    assert opened.journal.counts() == {DONE: 8}
