# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a host that is set aside: they stay planned, or go to an equivalent host."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from joulerig.rig.campaign import definition
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.cli import up
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from tests.support.fake_channel import FAILED, GONE, WELL, Channel


def disk(serial: str, **changes: Any) -> dict[str, Any]:
    return {"interface": "sata-ssd", "serial": serial, "size_bytes": 10**12, "model": "SSD 9", **changes}


@pytest.fixture
def two_hosts(lab_files):
    """two_hosts(KEY=VALUE) is a lab of two hosts with a drive `bare` each; bench2's has these."""

    def make(**changes: Any):
        lab_files.inventory_text = "[controller]\nboss\n\n[test_hosts]\nbench1\nbench2\n"
        lab_files.hosts = {
            "bench1": {"controller_address": "192.0.2.1", "drives": {"bare": disk("SERIAL-1")}},
            "bench2": {"controller_address": "192.0.2.1", "drives": {"bare": disk("SERIAL-2", **changes)}},
        }
        return lab_files.load()

    return make


@pytest.fixture
def campaign(state, two_hosts, mapping, services_up, open_campaign):
    """campaign(KEY=VALUE) opens one of three blocks, with a run on each of two hosts."""

    def opened(**changes: Any) -> OpenCampaign:
        lab = two_hosts()
        factors = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randread"]}
        asked = {
            **mapping, "drives": ["bare"], "factors": factors, "replicates": 3, "order": "as-written",
            "on_failure": {"error": "retry 1"}, "stop": {"failures_in_a_row": 1}, "equivalent_hosts": True,
            **changes,
        }  # fmt: skip
        return open_campaign(asked, lab)

    return opened


def execute(
    campaign: OpenCampaign, host: str, channel: Channel, sleep: Callable[[float], None] | None = None
) -> int:
    sleep = sleep or channel.sleep
    return Executor(campaign, host, channel, {}, clock=channel.clock, sleep=sleep).execute()


def fail(campaign: OpenCampaign, *replies: Any, gone: int = 0) -> None:
    """Have bench1 be set aside."""
    with pytest.raises(UserError):
        execute(campaign, "bench1", Channel(*replies, gone=gone))


def places(campaign: OpenCampaign) -> list[tuple[int, int, str, str]]:
    return [(run["ordinal"], run["block"], run["host"], run["status"]) for run in campaign.journal.runs()]


def test_an_equivalent_host_executes_its_own_runs_and_then_those_that_are_left(campaign):
    opened, channel = campaign(), Channel()
    fail(opened, WELL, FAILED)
    assert execute(opened, "bench2", channel) == 5
    assert [line for line in channel.trace if line.startswith("run")] == [
        "run 0002", "run 0004", "run 0006", "run 0003", "run 0005",
    ]  # fmt: skip
    assert places(opened) == [
        (1, 1, "bench1", "ok"), (2, 1, "bench2", "ok"), (3, 2, "bench2", "ok"),
        (4, 2, "bench2", "ok"), (5, 3, "bench2", "ok"), (6, 3, "bench2", "ok"),
    ]  # fmt: skip


def test_a_run_that_moved_keeps_its_cell_and_attempts_and_an_event_says_so(campaign):
    opened, channel = campaign(), Channel()
    fail(opened, FAILED)
    before = {run["id"]: run["cell"] for run in opened.journal.runs()}
    execute(opened, "bench2", channel)
    assert {run["id"]: run["cell"] for run in opened.journal.runs()} == before
    rows = opened.journal._db.execute("SELECT run, detail FROM event WHERE event = 'moved' ORDER BY seq")
    run, detail = next(rows)
    assert run[-4:] == "0001"
    assert json.loads(detail) == {"from": "bench1", "to": "bench2", "serials": ["SERIAL-1", "SERIAL-2"]}
    [request] = [one for one in channel.requests if one["run"].endswith("0001")]
    assert request["call"].endswith("0001.2")
    assert request["members"][0]["serial"] == "SERIAL-2"
    assert "note: [bench2] takes over run 1: its host is set aside" in channel.said


def test_without_leave_of_the_campaign_the_runs_stay_planned(campaign):
    opened = campaign(equivalent_hosts=False)
    fail(opened, FAILED)
    assert execute(opened, "bench2", Channel()) == 3
    assert [status for _, _, host, status in places(opened) if host == "bench1"] == ["planned"] * 3


def test_a_run_whose_host_may_have_its_outcome_stays_there(campaign):
    opened = campaign()
    fail(opened, GONE, gone=999)
    opened.journal.plan_again(opened.journal.runs()[0]["id"], "a test")
    execute(opened, "bench2", Channel())
    assert places(opened)[0] == (1, 1, "bench1", "planned")
    assert [host for _, _, host, _ in places(opened)[1:]] == ["bench2"] * 5


def test_a_host_that_is_done_waits_while_the_other_may_be_set_aside(campaign):
    opened, channel = campaign(), Channel()
    opened.journal.begin_host("bench1", process.identity(os.getpid()))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            opened.journal.set_aside("bench1", "bench1: gone")

    assert execute(opened, "bench2", channel, sleep) == 6
    assert slept == [2.0] * 3
    assert "note: [bench2] done; it waits for runs of hosts that are set aside" in channel.said


def test_it_does_not_wait_for_a_process_that_ended(campaign):
    opened = campaign()
    opened.journal.begin_host("bench1", f"{process.identity(os.getpid())}0")
    assert execute(opened, "bench2", Channel()) == 3


def test_a_resumption_begins_runs_on_the_host_again(campaign):
    opened = campaign()
    fail(opened, FAILED)
    assert [*opened.journal.hosts_set_aside()] == ["bench1"]
    assert execute(opened, "bench1", Channel()) == 3
    assert opened.journal.hosts_set_aside() == {}


def test_hosts_never_take_over_the_same_run(campaign):
    opened = campaign(replicates=30)
    opened.journal.set_aside("bench1", "bench1: gone")
    taken: list[str] = []

    def take_all(host: str) -> None:
        journal = Journal(opened.journal.folder)
        while run := journal.take_over(host, lambda run: run["host"] == "bench1", lambda host, drive: ""):
            taken.append(run["id"])
        journal.close()

    threads = [threading.Thread(target=take_all, args=[f"other{number}"]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [run["id"] for run in opened.journal.runs() if run["ordinal"] % 2]


def test_status_says_which_host_is_set_aside_and_what_moved(campaign, capsys, monkeypatch):
    opened = campaign()
    monkeypatch.setattr(services, "powerd_status", lambda: {"meters": []})
    fail(opened, FAILED)
    up.status()
    why = "bench1: stopped after 1 failed run in a row; the remaining runs stay planned"
    assert f"  set aside: {why}" in capsys.readouterr().out
    execute(opened, "bench2", Channel())
    up.status()
    assert "  3 runs taken over by equivalent hosts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": None}, "model, which must be declared of both"),
        ({"model": "SSD 8"}, "model, which must be declared of both"),
        ({"size_bytes": 10**11}, "size_bytes"),
        ({"interface": "nvme"}, "interface"),
        ({"plp": True}, "plp"),
        ({"rails": {"5v": {"meter": "tap1", "volts": "CH1", "amps": "CH2"}}}, "rails"),
    ],
)
def test_a_drive_that_differs_is_not_equivalent(two_hosts, mapping, changes, why):
    asked = {**mapping, "drives": ["bare"], "equivalent_hosts": True}
    with pytest.raises(UserError) as refused:
        definition.parse(asked, two_hosts(**changes), "playbooks/study.yml")
    assert str(refused.value) == (
        f"playbooks/study.yml: campaign.equivalent_hosts: 'bare' of bench1 and bench2 differ in {why};"
        " allowed: with a drive of one name that two hosts have alike"
    )


def test_a_drive_of_one_host_has_no_equivalent(bench, mapping):
    with pytest.raises(UserError, match="'fast' is on bench1 alone; allowed: with a drive of one name"):
        definition.parse({**mapping, "equivalent_hosts": True}, bench, "playbooks/study.yml")


def test_a_host_whose_runs_all_moved_is_one_of_the_campaigns_still(campaign):
    opened = campaign()
    fail(opened, FAILED)
    execute(opened, "bench2", Channel())
    assert {host for _, _, host, _ in places(opened)} == {"bench2"}
    assert opened.hosts() == ["bench1", "bench2"]
