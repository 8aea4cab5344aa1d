# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that executes a campaign, as exact traces of calls and of the journal."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from joulerig.analysis.results.schema import Asked
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.execution.kernels import InstalledKernel
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from tests.support.fake_channel import BOOTED, FAILED, GONE, HZ100, OWN, REFUSED, WELL, Channel


@pytest.fixture
def campaign(state, bench, mapping, services_up):
    """campaign(KEY=VALUE) opens one of three runs on a drive without rails, in their order."""
    journals = []

    def opened(**changes: Any) -> OpenCampaign:
        factors = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randread"]}
        asked = {**mapping, "drives": ["bare"], "factors": factors, "replicates": 3, "order": "as-written"}
        for key, value in changes.items():
            asked[key] = {**asked[key], **value} if isinstance(asked.get(key), dict) else value
        journals.append(opening.open_campaign(asked, bench, "playbooks/study.yml"))
        return OpenCampaign.load(journals[-1], bench)

    yield opened
    for journal in journals:
        journal.close()


def execute(campaign: OpenCampaign, channel: Channel, kernels: Mapping[str, InstalledKernel] = {}) -> int:
    return Executor(campaign, "bench1", channel, kernels, clock=channel.clock, sleep=channel.sleep).execute()


def statuses(campaign: OpenCampaign) -> list[str]:
    return [run["status"] for run in campaign.journal.runs()]


def changes(campaign: OpenCampaign) -> list[str]:
    """Changes of status in the order of the journal's events."""
    rows = campaign.journal._db.execute("SELECT run, detail FROM event WHERE event = 'status' ORDER BY seq")
    return [f"{run[-4:]} {json.loads(detail)['to']}" for run, detail in rows]


def reasons(campaign: OpenCampaign) -> list[str]:
    return [run["reason"] for run in campaign.journal.runs()]


def attempts(campaign: OpenCampaign) -> list[str]:
    rows = campaign.journal._db.execute("SELECT run, number, status, cause FROM attempt ORDER BY run, number")
    return [f"{run[-4:]}.{number} {status} {cause}" for run, number, status, cause in rows]


def test_runs_are_executed_one_after_another(campaign):
    opened, channel = campaign(), Channel()
    assert execute(opened, channel) == 3
    assert channel.trace == ["kernel?", "run 0001", "run 0002", "run 0003"]
    assert changes(opened) == [
        "0001 running", "0001 ok", "0002 running", "0002 ok", "0003 running", "0003 ok",
    ]  # fmt: skip
    assert channel.said[0].startswith("ok: [bench1] 1/3 bare/ext4/none/randread: ok")


def test_a_request_names_the_kernel_that_runs(campaign):
    channel = Channel()
    execute(campaign(), channel)
    assert {request["kernel"] for request in channel.requests} == {OWN}
    assert [request["seed"] for request in channel.requests] == [1001, 1002, 1003]


def test_a_failed_run_has_the_kernel_asked_for_and_the_rest_goes_on(campaign):
    opened, channel = campaign(), Channel(FAILED)
    assert execute(opened, channel) == 3
    assert channel.trace == ["kernel?", "run 0001", "kernel?", "run 0002", "run 0003"]
    assert statuses(opened) == ["failed", "ok", "ok"]
    assert channel.said[0] == "failed: [bench1] 1/3 bare/ext4/none/randread: failed (fio: no space)"


def test_failures_in_a_row_end_it(campaign):
    opened, channel = campaign(stop={"failures_in_a_row": 2}), Channel(FAILED, FAILED)
    with pytest.raises(
        UserError, match=r"^bench1: stopped after 2 failed runs in a row; the remaining runs stay planned$"
    ):
        execute(opened, channel)
    assert statuses(opened) == ["failed", "failed", "planned"]


def test_a_success_between_failures_begins_the_count_again(campaign):
    opened = campaign(stop={"failures_in_a_row": 2})
    assert execute(opened, Channel(FAILED, WELL, FAILED)) == 3
    assert statuses(opened) == ["failed", "ok", "failed"]


def test_a_refused_run_counts_neither_way(campaign):
    opened = campaign(stop={"failures_in_a_row": 2})
    with pytest.raises(UserError, match="2 failed runs"):
        execute(opened, Channel(FAILED, REFUSED, FAILED))
    assert statuses(opened) == ["failed", "refused", "failed"]


def test_hours_end_it(campaign):
    opened = campaign(stop={"hours": 0.03})  # 108 s; a run takes 60 of this host's
    with pytest.raises(
        UserError, match=r"^bench1: stopped after 0\.03 hours; the remaining runs stay planned$"
    ):
        execute(opened, Channel())
    assert statuses(opened) == ["ok", "ok", "planned"]


def test_a_run_goes_on_without_a_connection_and_its_outcome_is_collected(campaign):
    opened, channel = campaign(), Channel(GONE, gone=2)
    assert execute(opened, channel) == 3
    assert channel.trace == [
        "kernel?", "run 0001",
        "reconnect", "ping", "sleep 5", "reconnect", "ping", "sleep 5", "reconnect", "ping",
        "run 0001", "run 0002", "run 0003",
    ]  # fmt: skip
    assert [request["call"][-6:] for request in channel.requests] == ["0001.1", "0001.1", "0002.1", "0003.1"]
    assert statuses(opened) == ["ok", "ok", "ok"]
    assert channel.said[0] == "note: no connection (ssh: broken pipe); what runs on the host goes on"


def test_the_host_forgets_a_call_once_its_outcome_is_recorded(campaign):
    channel = Channel(GONE)
    execute(campaign(), channel)
    forgotten = [[name[-6:] for name in request["collected"]] for request in channel.requests]
    assert forgotten == [[], [], ["0001.1"], ["0002.1"]]
    assert [name[-6:] for name in channel.forgotten] == ["0003.1"]


def test_a_host_is_waited_for_as_long_as_it_may_be_in_its_run(campaign):
    """Its phases, 300 s from the begin of the call that broke after 60, and 600 s to come back."""
    opened, channel = campaign(phases={"workload_seconds": 285}), Channel(GONE, gone=999)
    with pytest.raises(
        UserError, match=r"^bench1: gone for 840 s; its remaining runs stay planned; resume the campaign$"
    ):
        execute(opened, channel)
    assert statuses(opened) == ["lost", "planned", "planned"]
    assert reasons(opened)[0] == "host gone: ssh: broken pipe"
    assert channel.trace.count("sleep 5") == 168


def test_a_connection_that_breaks_every_time_is_given_up(campaign):
    opened, channel = campaign(), Channel(*[GONE] * 10)
    execute(opened, channel)
    assert channel.trace.count("run 0001") == 10
    assert statuses(opened) == ["lost", "ok", "ok"]


def test_an_outcome_that_waits_on_the_host_is_collected_by_a_resumption(campaign):
    opened = campaign()
    with pytest.raises(UserError, match="gone for"):
        execute(opened, Channel(WELL, GONE, gone=999))
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    channel = Channel(knows={"0002.1"})
    assert execute(OpenCampaign.load(resumed, opened.lab), channel) == 2
    assert channel.trace == ["collect 0002.1", "kernel?", "run 0003"]
    assert statuses(opened) == ["ok", "ok", "ok"]
    assert attempts(opened) == ["0001.1 ok completed", "0002.1 ok completed", "0003.1 ok completed"]


def test_a_host_that_booted_has_lost_its_run(campaign):
    opened, channel = campaign(), Channel(BOOTED)
    assert execute(opened, channel) == 3
    assert channel.trace == ["kernel?", "run 0001", "kernel?", "run 0002", "run 0003"]
    assert statuses(opened) == ["lost", "ok", "ok"]
    assert reasons(opened)[0] == "the host booted while it ran"


def test_a_lost_run_is_attempted_again_by_a_resumption(campaign):
    opened = campaign()
    execute(opened, Channel(BOOTED))
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    channel = Channel()
    assert execute(OpenCampaign.load(resumed, opened.lab), channel) == 1
    assert channel.trace == ["kernel?", "run 0001"]
    assert channel.requests[0]["call"].endswith("0001.2")
    assert attempts(opened)[:2] == ["0001.1 lost booted", "0001.2 ok completed"]


@pytest.mark.parametrize(
    ("reply", "again"),
    [
        (REFUSED, True),
        ({"status": "not-run", "reason": "another run is in progress on this host", "cause": "busy"}, True),
        ({"status": "failed", "reason": "interrupted", "cause": "interrupted", "changed": True}, True),
        ({"status": "not-run", "reason": "no such scheduler", "changed": False}, False),
        (FAILED, False),
    ],
)
def test_what_may_be_over_is_taken_up_again_by_a_resumption_and_nothing_else(campaign, reply, again):
    opened = campaign(replicates=1)
    execute(opened, Channel(reply))
    opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    assert statuses(opened) == ["planned" if again else reply["status"]]


def test_hosts_lost_in_a_row_are_failures(campaign):
    opened = campaign(stop={"failures_in_a_row": 2})
    with pytest.raises(UserError, match="2 failed runs"):
        execute(opened, Channel(BOOTED, BOOTED))
    assert statuses(opened) == ["lost", "lost", "planned"]


def test_a_module_that_crashed_is_a_failed_run(campaign):
    opened = campaign()
    execute(opened, Channel({"failed": True, "msg": "MODULE FAILURE\nSee stdout", "rc": 1}))
    assert statuses(opened) == ["failed", "ok", "ok"]
    assert reasons(opened)[0] == "MODULE FAILURE See stdout"


def test_results_that_cannot_be_kept_fail_the_run_and_end_it(campaign):
    opened = campaign()
    (opened.journal.folder / "runs").write_text("where folders of runs should be")
    with pytest.raises(OSError, match="runs"):
        execute(opened, Channel())
    assert statuses(opened) == ["failed", "planned", "planned"]
    assert reasons(opened)[0].startswith("its results could not be kept: [Errno")


def test_an_outcome_of_a_newer_host_fails_the_run_and_ends_it(campaign):
    opened = campaign()
    with pytest.raises(UserError, match="the host runs a newer Joulerig"):
        execute(opened, Channel({**WELL, "novelty": 1}))
    assert statuses(opened) == ["failed", "planned", "planned"]
    assert reasons(opened)[0].startswith("its results could not be kept: joulerig_run: returned 'novelty'")


def test_what_a_killed_call_had_left_on_the_host_is_said(campaign):
    channel = Channel({**WELL, "taken_down": ["process 7 (fio) ended", "scheduler put back"]})
    execute(campaign(), channel)
    assert (
        "note: [bench1] a call that was killed had left things behind:"
        " process 7 (fio) ended; scheduler put back"
    ) in channel.said


def test_the_host_learns_what_is_on_its_drives_by_the_controllers_record(campaign):
    """For a host that lost its own record."""
    identity = {"signatures": [["ext4", "uuid-1"]], "digest": None}
    opened, channel = campaign(), Channel()
    drive = opened.journal.runs()[0]["drive"]
    channel = Channel({**WELL, "made": {drive: identity}})
    execute(opened, channel)
    known = [request["members"][0]["known"] for request in channel.requests]
    assert known[0] is None
    assert known[1] == identity


def test_an_interruption_leaves_the_run_to_a_resumption(campaign):
    opened, channel = campaign(), Channel(WELL, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        execute(opened, channel)
    assert statuses(opened) == ["ok", "running", "planned"]
    assert channel.trace == ["kernel?", "run 0001", "run 0002"], "nothing more is asked of the host"
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    channel = Channel()
    assert execute(OpenCampaign.load(resumed, opened.lab), channel) == 2
    assert channel.trace == ["collect 0002.1", "kernel?", "run 0002", "run 0003"]
    assert statuses(opened) == ["ok", "ok", "ok"]


# --- asked by a person


def test_a_stop_ends_it_after_what_runs(campaign):
    opened, channel = campaign(), Channel()
    channel.after_run = lambda: opened.journal.ask(Asked.STOP)
    with pytest.raises(UserError, match=r"^bench1: stopped by 'rig stop'; the remaining runs stay planned$"):
        execute(opened, channel)
    assert statuses(opened) == ["ok", "planned", "planned"]


def test_a_pause_holds_the_next_run_until_it_is_over(campaign):
    opened, channel = campaign(), Channel()
    opened.journal.ask(Asked.PAUSE)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert statuses(opened) == ["planned"] * 3
        if len(slept) == 3:
            opened.journal.ask(None)

    Executor(opened, "bench1", channel, {}, clock=channel.clock, sleep=sleep).execute()
    assert len(slept) == 3
    assert channel.said[0] == "note: [bench1] paused; 'rig pause --off' goes on"
    assert statuses(opened) == ["ok"] * 3


def test_a_resumed_campaign_is_no_longer_stopped(campaign):
    opened = campaign()
    opened.journal.ask(Asked.STOP)
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab, executor=MINE)
    assert execute(OpenCampaign.load(resumed, opened.lab), Channel()) == 3


def test_what_was_stopped_while_no_controller_was_there_is_attempted_again(campaign):
    opened = campaign(replicates=1)
    with pytest.raises(KeyboardInterrupt):
        execute(opened, Channel(KeyboardInterrupt()))
    assert [run["attempt"] for run in opened.journal.running()] == [1]
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    channel = Channel({**FAILED, "reason": "interrupted", "cause": "interrupted"}, knows={"0001.1"})
    execute(OpenCampaign.load(resumed, opened.lab), channel)
    assert channel.trace == ["collect 0001.1", "kernel?", "run 0001"]
    assert attempts(opened) == ["0001.1 failed interrupted", "0001.2 ok completed"]


# --- who executes it

MINE = process.identity(os.getpid())


def test_one_process_at_a_time_executes_a_campaign(campaign):
    opened = campaign()
    with subprocess.Popen(["sleep", "60"]) as other:
        opened.journal.claim(process.identity(other.pid))
        complaint = (
            f"is executed by process {other.pid} of {socket.gethostname()};"
            " wait for its end, or end it by 'rig stop'"
        )
        with pytest.raises(UserError, match=complaint):
            opening.resume_campaign(opened.journal.campaign["id"], opened.lab, executor=MINE)
        other.kill()
        other.wait()
        assert opened.journal.executor is None
        opening.resume_campaign(opened.journal.campaign["id"], opened.lab, executor=MINE)
    assert opened.journal.executor == MINE


def test_a_process_with_the_number_of_an_earlier_one_does_not_execute_it(campaign):
    opened = campaign()
    opened.journal.claim(f"{MINE}0")
    assert opened.journal.executor is None


def test_a_process_of_another_machine_counts_as_alive(campaign):
    opened = campaign()
    opened.journal.claim("elsewhere boot-1 17 9")
    assert opened.journal.executor == "elsewhere boot-1 17 9"
    with pytest.raises(UserError, match="process 17 of elsewhere"):
        opened.journal.claim(MINE)


# --- kernels


def kernel_campaign(campaign, **more: Any) -> OpenCampaign:
    return campaign(factors={"kernel": ["hz100"]}, **more)


def test_the_hosts_own_kernel_runs_again_at_the_end(campaign):
    channel = Channel()
    execute(kernel_campaign(campaign), channel, {"hz100": HZ100})
    assert channel.trace == [
        "kernel?", "boot 6.1.1-hz100-a", "reconnect", "kernel?", "run 0001", "run 0002", "run 0003",
        "boot its own", "reconnect", "kernel?",
    ]  # fmt: skip
    assert {request["kernel"] for request in channel.requests} == {HZ100.release}


def test_it_runs_again_after_a_stop_rule(campaign):
    opened, channel = kernel_campaign(campaign, stop={"failures_in_a_row": 1}), Channel(FAILED)
    with pytest.raises(UserError, match="1 failed run "):
        execute(opened, channel, {"hz100": HZ100})
    assert channel.trace[-3:] == ["boot its own", "reconnect", "kernel?"]
    assert statuses(opened) == ["failed", "planned", "planned"]


# --- preconditioning


def test_a_precondition_that_fails_ends_the_run_before_it_begins(campaign, monkeypatch):
    opened, channel = campaign(precondition={"passes": 1}), Channel()
    monkeypatch.setattr(channel, "_precondition", lambda _: {"failed": True, "msg": "no fio"}, raising=False)
    execute(opened, channel)
    assert [line for line in channel.trace if line.startswith("run")] == []
    assert statuses(opened) == ["failed"] * 3
    assert reasons(opened)[0] == "precondition: no fio"
