# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that executes a campaign, as exact traces of calls and of the journal."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from joulerig.analysis.results.schema import Asked, EventKind
from joulerig.rig import power
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.drive_record import DriveRecord, state_after
from joulerig.rig.campaign.execution import record
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.execution.holds import Condition
from joulerig.rig.campaign.execution.host_loop import HostTakenError
from joulerig.rig.campaign.execution.kernels import InstalledKernel
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from tests.support.fake_channel import (
    BEGIN,
    BOOTED,
    FAILED,
    GONE,
    HZ100,
    OWN,
    REFUSED,
    REPORT,
    WELL,
    Channel,
)  # fmt: skip

# Most tests here are of the loop itself.
NO_RETRY = dict.fromkeys(["error", "busy", "interrupted", "booted", "host-gone", "clock"], "skip")


@pytest.fixture
def campaign(state, bench, mapping, services_up, open_campaign):
    """campaign(KEY=VALUE) opens one of three runs on a drive without rails, in their order."""

    def opened(**changes: Any) -> OpenCampaign:
        factors = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randread"]}
        asked = {
            **mapping, "drives": ["bare"], "factors": factors, "replicates": 3, "order": "as-written",
            "on_failure": NO_RETRY,
        }  # fmt: skip
        for key, value in changes.items():
            asked[key] = {**asked[key], **value} if isinstance(asked.get(key), dict) else value
        return open_campaign(asked, bench)

    return opened


def execute(
    campaign: OpenCampaign,
    channel: Channel,
    kernels: Mapping[str, InstalledKernel] = {},
    holds: Sequence[Condition] = (),
) -> int:
    return Executor(
        campaign, "bench1", channel, kernels, holds=holds, clock=channel.clock, sleep=channel.sleep
    ).execute()


def statuses(campaign: OpenCampaign) -> list[str]:
    return [run["status"] for run in campaign.journal.runs()]


def changes(campaign: OpenCampaign) -> list[str]:
    """Changes of status in the order of the journal's events."""
    rows = campaign.journal._db.execute("SELECT run, detail FROM event WHERE event = 'status' ORDER BY seq")
    return [f"{run[-4:]} {json.loads(detail)['to']}" for run, detail in rows]


def reasons(campaign: OpenCampaign) -> list[str]:
    return [run["reason"] for run in campaign.journal.runs()]


KILLED = {"failed": True, "msg": "No start of json char found"}


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


def test_refusals_for_the_same_cause_in_a_row_leave_the_rest_planned(campaign):
    opened = campaign(stop={"same_cause_in_a_row": 2})
    with pytest.raises(UserError, match=r"same cause \(refused: bare: mounted\); the remaining runs stay"):
        execute(opened, Channel(REFUSED, REFUSED, REFUSED))
    assert statuses(opened) == ["refused", "refused", "planned"]


def test_a_run_waits_for_a_cooler_drive_and_goes_on_by_itself(campaign):
    opened, channel = campaign(), Channel()
    waits = []

    def hot(run: Mapping[str, Any]) -> str:
        waits.append(opened.journal.held())
        return f"{run['drive']}: 71 °C" if 60 <= channel.seconds < 75 else ""

    assert execute(opened, channel, holds=[Condition("temperature", hot)]) == 3
    assert channel.trace == [
        "kernel?", "run 0001", "sleep 5", "sleep 5", "sleep 5", "run 0002", "run 0003",
    ]  # fmt: skip
    assert [text for text in channel.said if "bare/" not in text] == [
        "note: [bench1] waiting: bare: 71 °C", "note: [bench1] temperature: in order again",
    ]  # fmt: skip
    assert {"bench1": ["bare: 71 °C"]} in waits
    assert opened.journal.held() == {}
    assert statuses(opened) == ["ok", "ok", "ok"]


def test_what_it_waited_for_when_it_was_killed_is_over_with_the_next_run(campaign):
    opened = campaign()
    run = opened.journal.upcoming("bench1")
    opened.journal.note(run["id"], {"condition": "load", "why": "bench1: busy"}, EventKind.HOLD)
    assert opened.journal.held() == {"bench1": ["bench1: busy"]}
    execute(opened, Channel())
    assert opened.journal.held() == {}


def test_a_stop_ends_a_wait_and_its_run_stays_planned(campaign):
    opened, channel = campaign(), Channel()

    def loaded(run: Mapping[str, Any]) -> str:
        if channel.seconds > 100:
            opened.journal.ask(Asked.STOP)
        return "bench1: busy"

    with pytest.raises(UserError, match="stopped by 'rig stop'"):
        execute(opened, channel, holds=[Condition("load", loaded)])
    assert statuses(opened) == ["planned", "planned", "planned"]


def test_a_run_that_its_host_has_begun_is_collected_without_a_wait(campaign):
    opened = campaign()
    with pytest.raises(UserError, match="gone for"):
        execute(opened, Channel(WELL, GONE, gone=999))
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    channel, waited = Channel(knows={"0002.1"}), []

    def note(run: Mapping[str, Any]) -> str:
        waited.append(run["id"][-4:])
        return ""

    execute(OpenCampaign.load(resumed, opened.lab), channel, holds=[Condition("load", note)])
    assert waited == ["0003"]


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


def test_a_module_that_is_killed_while_it_waits_is_asked_again(campaign):
    opened, channel = campaign(), Channel(KILLED, KILLED)
    assert execute(opened, channel) == 3
    assert channel.trace == ["kernel?", "run 0001", "run 0001", "run 0001", "run 0002", "run 0003"]
    assert statuses(opened) == ["ok", "ok", "ok"]
    assert channel.said[0] == "note: no answer (No start of json char found); what runs on the host goes on"


def test_the_host_forgets_a_call_once_its_outcome_is_recorded(campaign):
    channel, opened = Channel(GONE), campaign()
    execute(opened, channel)
    forgotten = [[name[-6:] for name in request["collected"]] for request in channel.requests]
    assert forgotten == [[], [], ["0001.1"], ["0002.1"]]
    assert channel.forgotten == [{"over": opened.journal.campaign["id"]}], "and all of them in the end"


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


def test_files_of_an_attempt_that_goes_on_stay_and_those_of_an_earlier_one_go(campaign):
    opened = campaign()
    with pytest.raises(UserError, match="gone for"):
        execute(opened, Channel(BOOTED, GONE, gone=999))
    files = [opened.folder(run) / "kept" for run in opened.journal.runs()[:2]]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    execute(OpenCampaign.load(resumed, opened.lab), Channel(knows={"0002.1"}))
    assert [file.exists() for file in files] == [False, True]


def test_what_a_lost_run_wrote_to_its_drive_is_not_known(campaign):
    """Its begin is noted before the host is asked, and its end never."""
    opened = campaign()
    channel = Channel(GONE, gone=999)
    begun = []
    channel.after_run = lambda: begun.extend(drive_events())
    with pytest.raises(UserError, match="gone for"):
        execute(opened, channel)
    assert begun == drive_events() == ["began"]
    assert state_after(recorded_events()).unknown.endswith("-0001")


def recorded_events() -> list[dict[str, Any]]:
    with DriveRecord() as record:
        return record.events("SERIAL-D")


def drive_events() -> list[str]:
    return [one["event"] for one in recorded_events()]


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
    execute(opened, Channel(*[{"failed": True, "msg": "MODULE FAILURE\nSee stdout", "rc": 1}] * 3))
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
    assert reasons(opened)[0].startswith("joulerig_run: returned 'novelty'")


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"phases": [{"phase": "workload", "start_ns": "soon", "end_ns": 2}]}, "joulerig_run: returned a wrong phases.0.start_ns: "),
        ({"status": "splendid"}, "joulerig_run: returned a wrong status: "),
        ({"health": {"before": None, "after": {"ata_device_statistics": {"pages": [7]}}}},
         "its results cannot be read: AttributeError: "),
        ({"health": {"before": None, "after": {"ata_device_statistics": {"pages": 7}}}},
         "its results cannot be read: TypeError: "),
        ({"clock": [{"at_ns": BEGIN, "offset_ns": 2**63 - 1, "error_ns": 50}]},
         "its results cannot be read: OverflowError: "),
        ({"report": {**REPORT, "jobs": [{**REPORT["jobs"][0], "read": {"total_ios": 2**70, "io_bytes": 0}}]}},
         "its results cannot be read: OverflowError: "),
        ({"report": {**REPORT, "jobs": [{**REPORT["jobs"][0], "read": {"total_ios": float("nan"), "io_bytes": 0}}]}},
         "its results cannot be read: IntegrityError: "),
    ],
)  # fmt: skip
def test_a_report_of_an_odd_shape_fails_its_run_and_the_rest_goes_on(campaign, odd, reason):
    opened = campaign()
    assert execute(opened, Channel({**WELL, **odd})) == 3
    assert statuses(opened) == ["failed", "ok", "ok"]
    [first, *_] = reasons(opened)
    assert first.startswith(reason)
    assert first.isprintable()
    assert attempts(opened)[0] == "0001.1 failed error"


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


# --- what follows a failure

BUSY = {"status": "not-run", "reason": "another run is in progress on this host", "cause": "busy"}


def test_a_run_is_attempted_again_as_often_as_its_cause_allows(campaign):
    opened, channel = campaign(on_failure={"error": "retry 2"}), Channel(FAILED, FAILED, FAILED)
    execute(opened, channel)
    names = [request["call"][-6:] for request in channel.requests]
    assert names == ["0001.1", "0001.2", "0001.3", "0002.1", "0003.1"]
    assert statuses(opened) == ["failed", "ok", "ok"]
    assert attempts(opened)[:3] == ["0001.1 failed error", "0001.2 failed error", "0001.3 failed error"]
    assert channel.said[1] == "note: [bench1] run 1 ended (error: retry 1 of 2): it is attempted again"


def test_a_run_that_works_at_its_second_attempt_is_ok_and_both_are_kept(campaign):
    opened = campaign(on_failure={"error": "retry 1"})
    assert execute(opened, Channel(FAILED)) == 4
    assert statuses(opened) == ["ok"] * 3
    assert attempts(opened)[:2] == ["0001.1 failed error", "0001.2 ok completed"]
    rows = opened.journal._db.execute("SELECT detail FROM event WHERE event = 'resumed'")
    assert [json.loads(detail) for (detail,) in rows] == [{"was": "failed", "by": "error: retry 1 of 1"}]


def test_retries_are_counted_by_cause(campaign):
    opened = campaign(on_failure={"error": "retry 1", "booted": "retry 1"})
    execute(opened, Channel(FAILED, BOOTED, FAILED))
    assert attempts(opened)[:3] == ["0001.1 failed error", "0001.2 lost booted", "0001.3 failed error"]
    assert statuses(opened) == ["failed", "ok", "ok"]


def test_attempts_count_for_the_stop_rule_and_the_run_stays_planned(campaign):
    opened = campaign(on_failure={"error": "retry 9"}, stop={"failures_in_a_row": 2})
    with pytest.raises(UserError, match="stopped after 2 failed runs in a row"):
        execute(opened, Channel(FAILED, FAILED))
    assert statuses(opened) == ["planned"] * 3
    assert attempts(opened) == ["0001.1 failed error", "0001.2 failed error"]


def test_a_busy_host_is_given_a_while(campaign):
    opened, channel = campaign(on_failure={"busy": "retry 1"}), Channel(BUSY)
    execute(opened, channel)
    assert channel.trace.count("sleep 2") == 30
    assert statuses(opened) == ["ok"] * 3


def test_the_retry_of_a_host_that_was_gone_asks_it_for_the_outcome_first(campaign):
    opened = campaign(on_failure={"host-gone": "retry 1"})
    channel = Channel(*[GONE] * 10, knows={"0001.1"})
    execute(opened, channel)
    assert channel.trace.count("collect 0001.1") == 1
    assert attempts(opened)[0] == "0001.1 ok completed"


def test_hold_sets_the_host_aside(campaign):
    opened = campaign(on_failure={"refused": "hold"})
    with pytest.raises(UserError) as ended:
        execute(opened, Channel(REFUSED))
    assert str(ended.value) == (
        "bench1: set aside, run 1 ended (refused: hold); the remaining runs stay planned"
    )
    assert statuses(opened) == ["refused", "planned", "planned"]
    assert opened.journal.asked is None, "other hosts go on"


def test_stop_ends_the_campaign_on_all_hosts(campaign):
    opened = campaign(on_failure={"error": "stop"})
    with pytest.raises(UserError, match=r"run 1 ended \(error: stop\); the campaign stops"):
        execute(opened, Channel(FAILED))
    assert statuses(opened) == ["failed", "planned", "planned"]
    assert opened.journal.asked == Asked.STOP


def test_what_a_person_stopped_is_not_attempted_again(campaign):
    opened = campaign(on_failure={"interrupted": "retry 1"})
    channel = Channel({**FAILED, "reason": "interrupted", "cause": "interrupted"})
    channel.after_run = lambda: opened.journal.ask(Asked.STOP)
    with pytest.raises(UserError, match="stopped by 'rig stop'"):
        execute(opened, channel)
    assert statuses(opened) == ["failed", "planned", "planned"]


# --- a host that hangs


class Outlet:
    """A switch after which the host of `channel` answers, where it has a `cure`."""

    def __init__(self, channel: Channel, cure: bool = True, error: UserError | None = None) -> None:
        self._channel, self._cure, self._error = channel, cure, error

    def off(self) -> None:
        self._channel.trace.append("OFF")
        if self._error:
            raise self._error

    def on(self) -> None:
        self._channel.trace.append("ON")
        if self._cure:
            self._channel._gone = 0


@pytest.fixture
def hanging(campaign, lab_files, monkeypatch):
    """hanging(CHANNEL, KEY=VALUE) opens a campaign on a host with a switch, declared like that."""

    def opened(channel: Channel, outlet: Outlet | None = None, **declared: Any) -> OpenCampaign:
        monkeypatch.setattr(power, "host_switch", lambda lab, host: outlet or Outlet(channel))
        unit = {"by": "labgrid", "model": "gude", "host": declared.pop("host", "192.0.2.9"), "index": 3}
        lab_files.host.update(switch=unit, power_cycle=declared)
        found = campaign(on_failure={"host-gone": "retry 1"})
        return OpenCampaign.load(found.journal, lab_files.load())

    return opened


def test_a_host_that_stays_away_is_power_cycled_and_goes_on(hanging):
    channel = Channel(GONE, gone=9999, knows={"0001.1"})
    opened = hanging(channel)
    execute(opened, channel)
    assert channel.trace.count("OFF") == 1
    around = channel.trace.index("OFF")
    assert channel.trace[around : around + 3] == ["OFF", "sleep 10", "ON"]
    assert statuses(opened) == ["ok"] * 3
    assert (
        "note: [bench1] does not answer for 615 s: its power is CUT NOW, for 10 s"
        " (gude at 192.0.2.9, outlet 3; 1 of 2 times in this campaign)"
    ) in channel.said
    [(detail,)] = opened.journal._db.execute("SELECT detail FROM event WHERE event = 'power-cycled'")
    assert json.loads(detail) == {
        "host": "bench1", "by": "gude at 192.0.2.9, outlet 3", "number": 1, "away_seconds": 615.0,
    }  # fmt: skip


def test_a_host_that_does_not_ask_for_it_keeps_its_power(campaign, monkeypatch):
    opened, channel = campaign(), Channel(GONE, gone=9999)
    monkeypatch.setattr(power, "host_switch", lambda lab, host: Outlet(channel))
    with pytest.raises(UserError, match="gone for 615 s; its remaining runs stay planned"):
        execute(opened, channel)
    assert "OFF" not in channel.trace


def test_a_host_that_its_power_does_not_bring_back_is_set_aside(hanging):
    channel = Channel(GONE, gone=9999)
    opened = hanging(channel, Outlet(channel, cure=False))
    with pytest.raises(UserError, match="gone for 600 s; its remaining runs stay planned"):
        execute(opened, channel)
    assert channel.trace.count("OFF") == 1
    assert [*opened.journal.hosts_set_aside()] == ["bench1"]


def test_the_power_is_cut_so_many_times_in_a_campaign_and_no_more(hanging):
    channel = Channel(GONE, gone=9999)
    opened = hanging(channel, most=1)
    opened.journal.note(None, {"host": "bench1"}, EventKind.POWER_CYCLED)
    with pytest.raises(UserError, match="gone for 615 s"):
        execute(opened, channel)
    assert "OFF" not in channel.trace
    assert "note: [bench1] its power was cut 1 of 1 times in this campaign: not again" in channel.said


def test_a_switch_that_fails_is_switched_on_and_the_host_set_aside(hanging):
    channel = Channel(GONE, gone=9999)
    opened = hanging(channel, Outlet(channel, error=UserError("bench1: switch: no route")))
    with pytest.raises(UserError) as ended:
        execute(opened, channel)
    assert str(ended.value) == (
        "bench1: gone for 615 s, and its power could not be cycled (bench1: switch: no route);"
        " its remaining runs stay planned; resume the campaign"
    )
    assert channel.trace[-1] == "ON"


def test_the_journal_keeps_no_password_of_a_switch(hanging):
    channel = Channel()
    opened = hanging(channel, host="http://me:secret@192.0.2.9")
    fresh = opening.open_campaign(
        {**opened.journal.campaign["definition"], "name": "again"}, opened.lab, "playbooks/study.yml"
    )
    assert "secret" not in json.dumps(fresh.campaign)
    fresh.close()


# --- asked by a person


def test_a_stop_ends_it_after_what_runs(campaign):
    opened, channel = campaign(), Channel()
    channel.after_run = lambda: opened.journal.ask(Asked.STOP)
    with pytest.raises(UserError, match=r"^bench1: stopped by 'rig stop'; the remaining runs stay planned$"):
        execute(opened, channel)
    assert statuses(opened) == ["ok", "planned", "planned"]
    [asked] = channel.forgotten
    assert [name[-6:] for name in asked["collected"]] == ["0001.1"], "and keeps what was not collected"


def test_nothing_is_asked_of_a_host_that_did_nothing_before_the_stop(campaign):
    opened, channel = campaign(), Channel()
    opened.journal.ask(Asked.STOP)
    with pytest.raises(UserError, match="stopped by 'rig stop'"):
        execute(opened, channel)
    assert (channel.trace, channel.forgotten) == ([], [])


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


# --- clocks that are set


def set_by(*seconds: float) -> Iterator[int]:
    """The controller's boot by its clock, which is set by so much in each call of a host."""
    now = 7_000_000_000
    for step in seconds:
        yield now
        now += int(step * 1e9)
        yield now
    while True:
        yield now


@pytest.mark.parametrize(("seconds", "shown"), [(1.5, "forward by 1.5 s"), (-30, "back by 30 s")])
def test_a_run_in_which_the_controllers_clock_was_set_is_partial_and_repeated(
    campaign, monkeypatch, seconds, shown
):
    opened, channel = campaign(replicates=2, on_failure={"clock": "retry 1"}), Channel()
    booted = set_by(seconds)
    monkeypatch.setattr(process, "boot_ns", lambda: next(booted))
    execute(opened, channel)
    assert attempts(opened) == ["0001.1 partial clock", "0001.2 ok completed", "0002.1 ok completed"]
    assert statuses(opened) == ["ok", "ok"]
    first = opened.journal._db.execute("SELECT reason FROM attempt WHERE number = 1 LIMIT 1").fetchone()
    assert first["reason"].startswith(f"the controller's clock was set {shown} in the run")
    assert any("ended (clock: retry 1 of 1): it is attempted again" in line for line in channel.said)


def host_set(seconds: float) -> dict[str, Any]:
    """The outcome of a run in which the host's clock was set."""
    first, last = WELL["clock"]
    moved = int(seconds * 1e9)
    return {
        **WELL,
        "clock": [{**first, "booted_ns": 5}, {**last, "booted_ns": 5 + moved, "offset_ns": -moved}],
    }


@pytest.mark.parametrize("seconds", [1.5, -1.5, 30, -30])
def test_a_run_in_which_the_hosts_clock_was_set_is_partial_until_it_is_repeated(campaign, seconds):
    opened = campaign(replicates=1, on_failure={"clock": "skip"})
    execute(opened, Channel(host_set(seconds)))
    assert attempts(opened) == ["0001.1 partial clock"]
    assert "the host's clock was set" in reasons(opened)[0]
    said: list[str] = []
    assert record.settle(opened, said.append) == [opened.journal.runs()[0]["id"]]  # nothing completes it
    assert (statuses(opened), said) == (["partial"], [])
    resumed = opening.resume_campaign(opened.journal.campaign["id"], opened.lab)
    execute(OpenCampaign.load(resumed, opened.lab), Channel())
    assert attempts(opened) == ["0001.1 partial clock", "0001.2 ok completed"]


def test_a_clock_that_is_slewed_makes_no_run_partial(campaign):
    first, last = WELL["clock"]
    slewed = {**last, "offset_ns": int(500e-6 * (last["at_ns"] - first["at_ns"]))}
    opened = campaign(replicates=1)
    execute(opened, Channel({**WELL, "clock": [first, slewed]}))
    assert attempts(opened) == ["0001.1 ok completed"]


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


def test_a_host_that_another_took_meanwhile_keeps_the_kernel_that_runs(campaign):
    opened, channel = campaign(replicates=1), Channel()

    def reserve(seconds: float) -> None:
        raise HostTakenError("bench1: is reserved by bob@lab2; the remaining runs stay planned")

    executor = Executor(opened, "bench1", channel, {"hz100": HZ100}, reserve=reserve, clock=channel.clock)
    with pytest.raises(UserError, match="is reserved by bob@lab2"):
        executor.execute()
    assert channel.trace == []
    assert statuses(opened) == ["planned"]


def test_a_run_reserves_its_host_for_its_length(campaign):
    asked: list[float] = []
    channel = Channel()
    opened = campaign(replicates=1, phases={"workload_seconds": 86400})
    Executor(
        opened, "bench1", channel, {}, reserve=asked.append, clock=channel.clock, sleep=channel.sleep
    ).execute()
    assert asked[0] == 0.0
    assert asked[1] >= 86400


def test_a_run_that_has_begun_ends_though_its_host_is_reserved(campaign):
    def reserve(seconds: float) -> None:
        if seconds:
            raise UserError("bench1: another has reserved it")

    opened, channel = campaign(replicates=1), Channel()
    Executor(
        opened, "bench1", channel, {}, reserve=reserve, clock=channel.clock, sleep=channel.sleep
    ).execute()
    assert statuses(opened) == ["ok"]
