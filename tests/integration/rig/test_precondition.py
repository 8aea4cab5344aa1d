# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive's known state before a run: when it is made, how it is judged, what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import drive_record, opening
from joulerig.rig.campaign.drive_record import DriveRecord
from joulerig.rig.campaign.execution import preconditioning
from joulerig.rig.campaign.execution import record as records
from joulerig.rig.campaign.execution.outcome import RunOutcome
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.cli import results
from joulerig.rig.common.errors import UserError

S = 1_000_000_000
BEGIN = 1_700_000_000 * S
ROUND = 2  # seconds
CLOCK = {"offset_ns": 3 * S, "error_ns": 10, "exchanges": 24}
ASKED = {"passes": 1, "round_seconds": ROUND, "max_rounds": 12, "reuse_within": 0.5}
SERIAL = "SERIAL-A"


class Host:
    """A test host that answers the module call: rounds of `iops` in turn, its clock 3 s behind."""

    def __init__(
        self, server, *stretches: list[float], watts: list[float] | None = None, **more: Any
    ) -> None:
        self.server, self.stretches, self.more = server, list(stretches), more
        self.watts = watts or [5.0] * sum(map(len, stretches))
        self.calls: list[dict[str, Any]] = []
        self.joules = 0.0

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(arguments)
        iops = self.stretches[len(self.calls) - 1]
        before = arguments["rounds_before"]
        numbers = range(before + 1, before + len(iops) + 1)
        for number in numbers:
            self._draw(number, self.watts[number - 1])
        return {
            "status": "ok",
            "reason": "",
            "purged": arguments["purge"],
            "filled": arguments["passes"],
            "rounds": [self._round(number, one) for number, one in zip(numbers, iops, strict=True)],
            "clock": [{**CLOCK, "at_ns": BEGIN - 3 * S}],
            "touched": {"write_bytes": 10**9, "discard_bytes": 10**12},
            "health": {"data_units_written": 4000},
            **self.more,
        }

    def _round(self, number: int, iops: float) -> dict[str, Any]:
        start = BEGIN + number * ROUND * S - 3 * S
        return {
            "number": number, "ops": int(iops * ROUND), "iops": iops, "start_ns": start, "end_ns": start + ROUND * S,
        }  # fmt: skip

    def _draw(self, number: int, watts: float) -> None:
        lines = []
        for point in range(ROUND * 100 + 1):
            if point:
                self.joules += watts / 100
            at = BEGIN + number * ROUND * S + point * S // 100
            samples = (at - BEGIN) // 1_000_000
            lines.append(
                f"power,meter=tap1,rail=12v,host=bench1,drive=fast watts={watts},watts_min={watts},"
                f"watts_max={watts},joules={self.joules},samples={samples}i,expected={samples}i,lost=0i,"
                f'duplicate=0i,repeated=0i,gap_seconds=0,clock_residual_seconds=0,session="s1" {at}'
            )
        self.server.write(*lines)


def opened(bench, mapping, **asked: Any) -> Journal:
    mapping = {**mapping, "precondition": {**ASKED, **asked}}
    return opening.open_campaign(mapping, bench, "playbooks/study.yml")


@pytest.fixture
def journal(state, bench, mapping, services_up) -> Iterator[Journal]:
    journal = opened(bench, mapping)
    yield journal
    journal.close()


def ensure(journal: Journal, bench, run: dict[str, Any], execute) -> RunOutcome | None:
    return preconditioning.ensure(OpenCampaign.load(journal, bench), run, execute)


def request(journal: Journal, bench, run: dict[str, Any]):
    return OpenCampaign.load(journal, bench).request(run)


def events(name: str | None = None) -> list[dict[str, Any]]:
    with DriveRecord() as record:
        return [one for one in record.events(SERIAL) if name in (None, one["event"])]


def kept(journal: Journal, run: dict[str, Any]) -> dict[str, Any]:
    return json.loads((journal.folder / "runs" / run["id"] / "precondition.json").read_text())


def taken(journal: Journal) -> dict[str, Any]:
    run = journal.take("bench1")
    assert run
    return run


def test_a_campaign_that_asks_for_none_makes_no_call(state, bench, mapping, services_up):
    journal = opening.open_campaign(mapping, bench, "playbooks/study.yml")
    run = taken(journal)
    assert ensure(journal, bench, run, lambda arguments: pytest.fail("called")) is None
    assert not request(journal, bench, run).preconditioned
    journal.close()


def test_it_is_made_judged_on_both_and_kept(journal, bench, influxd):
    run = taken(journal)
    host = Host(influxd, [9000, 4000, *[1000.0] * 5])
    assert ensure(journal, bench, run, host) is None
    [call] = host.calls
    assert (call["purge"], call["passes"], call["rounds"], call["rounds_before"]) == ("discard", 1, 12, 0)
    assert call["member"]["serial"] == SERIAL
    assert "[randwrite]" in call["job"]["text"]
    found = kept(journal, run)
    assert (found["reused"], found["why"], found["by"]) == (False, "never preconditioned", run["id"])
    assert found["verdict"]["judged_on"] == ["iops", "watts"]
    assert (found["verdict"]["steady"], found["verdict"]["round"]) == (True, 7)
    assert [one["iops"] for one in found["stretches"][0]] == [9000, 4000, *[1000] * 5]
    assert [one["watts"] for one in found["stretches"][0]] == pytest.approx([5.0] * 7)
    names = [one["event"] for one in events()]
    assert names == ["began", "purged", "filled", "ended", "preconditioned"]
    assert events("ended")[0]["write_bytes"] == 10**9


def test_why_a_purge_was_no_other_is_kept(journal, bench, influxd):
    passed_over = {"format": "the drive has no such command"}
    purge = {"method": "discard", "passed_over": passed_over}
    host = Host(influxd, [1000.0] * 5, settings={"purge": purge})
    assert ensure(journal, bench, taken(journal), host) is None
    [event] = events("purged")
    assert (event["method"], event["passed_over"]) == ("discard", passed_over)


def test_while_watts_still_move_more_rounds_are_asked_for(journal, bench, influxd):
    host = Host(influxd, [1000.0] * 5, [1000.0] * 5, watts=[9, 8, 7, 6, 5, *[4.0] * 5])
    assert ensure(journal, bench, taken(journal), host) is None
    first, second = host.calls
    assert (first["rounds"], first["purge"]) == (12, "discard")
    assert (second["rounds"], second["rounds_before"]) == (7, 5)
    assert (second["purge"], second["passes"]) == ("", 0)
    verdict = events("preconditioned")[0]["verdict"]
    assert (verdict["steady"], verdict["round"], verdict["rounds_before"]) == (True, 10, 5)
    assert len(events("ended")) == 2


def test_a_drive_that_never_gets_there_is_a_result(journal, bench, influxd):
    run = taken(journal)
    host = Host(influxd, [1000.0] * 5, [1000.0] * 5, watts=[float(watts) for watts in range(19, 9, -1)])
    assert ensure(journal, bench, run, host) is None
    assert len(host.calls) == 2, "two more rounds cannot fill a window"
    assert kept(journal, run)["verdict"]["reason"].startswith("not steady after 10 rounds: watts range")
    reason = records._not_steady(journal.folder / "runs" / run["id"])
    assert reason.startswith("precondition: not steady after 10 rounds")


def test_watts_of_rounds_in_which_the_controllers_clock_was_set_are_not_used(
    journal, bench, influxd, monkeypatch
):
    booted = iter([7 * S, 9 * S])
    monkeypatch.setattr(preconditioning.process, "boot_ns", lambda: next(booted))
    run = taken(journal)
    assert ensure(journal, bench, run, Host(influxd, [1000.0] * 5)) is None
    verdict = kept(journal, run)["verdict"]
    assert (verdict["steady"], verdict["judged_on"]) == (True, ["iops"])
    notes = journal._db.execute("SELECT detail FROM event WHERE event = 'preconditioning'").fetchall()
    said = [json.loads(one["detail"]).get("why") for one in notes]
    assert "the controller's clock was set forward by 2 s in the run" in said


def test_a_later_run_reuses_it(journal, bench, influxd):
    first, second = taken(journal), None
    assert ensure(journal, bench, first, Host(influxd, [1000.0] * 5)) is None
    drive_record.run_begins(first, bench)
    touched = {"fast": {"write_bytes": 2 * 10**9, "discard_bytes": 0}}
    outcome = RunOutcome(status="ok", changed=True, touched=touched)
    drive_record.run_ended(first, outcome, bench)
    journal.finish(first["id"], "ok", "", {})
    second = taken(journal)
    assert ensure(journal, bench, second, lambda arguments: pytest.fail("called")) is None
    found = kept(journal, second)
    assert (found["reused"], found["by"]) == (True, first["id"])
    assert found["why"] == f"as {first['id']} left it: 2 GB written or discarded since, 500 GB allowed"
    assert found["verdict"] == kept(journal, first)["verdict"]
    assert "stretches" not in found


def test_what_the_drive_reported_to_its_host_since_is_asked(journal, bench, influxd):
    run = taken(journal)
    assert ensure(journal, bench, run, Host(influxd, [1000.0] * 5)) is None
    later = events()[-1]["time_ns"] + S
    influxd.write(
        f"drive_health,host=bench1,drive=fast data_units_written_bytes={4000 * 512000 + 7 * 10**9}i {later}"
    )
    host = Host(influxd, [1000.0] * 5)
    assert ensure(journal, bench, run, host) is None
    assert len(host.calls) == 1
    assert kept(journal, run)["why"] == "something other than the rig wrote 7 GB, by the drive's own count"


def test_a_drive_without_rails_is_judged_on_operations_alone(state, bench, mapping, services_up, influxd):
    journal = opened(bench, {**mapping, "drives": ["bare"]})
    run = taken(journal)
    assert ensure(journal, bench, run, Host(influxd, [1000.0] * 5)) is None
    verdict = kept(journal, run)["verdict"]
    assert (verdict["steady"], verdict["judged_on"]) == (True, ["iops"])
    journal.close()


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ({"status": "failed", "reason": "blkdiscard: exit 1: no"}, "failed", "precondition: blkdiscard: exit 1: no"),
        ({"status": "refused", "reason": "fast: mounted", "changed": False}, "refused", "fast: mounted"),
        ({"status": "not-run", "reason": "fast: busy", "changed": False}, "not-run", "fast: busy"),
        ({"status": "failed", "reason": "clock: no answer", "changed": False}, "failed", "precondition: clock: no answer"),
        ({"msg": "module\nbroke"}, "failed", "precondition: module broke"),
        ({"status": "ok"}, "failed", "precondition: joulerig_precondition: returned no rounds"),
        ({"status": "ok", "rounds": [{"number": 1, "ops": 1, "iops": 1.0, "start_ns": 1, "end_ns": 2}]}, "failed",
         "precondition: joulerig_precondition: returned no clock"),
    ],
)  # fmt: skip
def test_where_it_cannot_be_made_the_run_is_not_begun(journal, bench, answer, status, reason):
    run = taken(journal)
    amounts = {"touched": {"write_bytes": 0, "discard_bytes": 0}}
    found = ensure(journal, bench, run, lambda arguments: {**amounts, **answer})
    assert (found.status, found.reason) == (status, reason)
    assert records.record_result(OpenCampaign.load(journal, bench), run, found) == status
    assert events("preconditioned") == []
    written = events("ended")[0]["write_bytes"]
    touched = answer.get("changed", True)
    assert written == (None if touched else 0), "what a call that broke off wrote is not known"


def test_a_host_that_goes_away_leaves_a_drive_in_an_unknown_state(journal, bench, influxd):
    run = taken(journal)
    assert ensure(journal, bench, run, Host(influxd, [1000.0] * 5)) is None

    def gone(arguments):
        raise ConnectionError

    with DriveRecord() as record:
        record.note([SERIAL], [("began", {"by": "other"})])
    with pytest.raises(ConnectionError):
        ensure(journal, bench, run, gone)
    host = Host(influxd, [1000.0] * 5)
    assert ensure(journal, bench, run, host) is None
    assert kept(journal, run)["why"] == "what other wrote is not known"


def test_mkfs_of_a_preconditioned_drive_keeps_its_content(journal, bench):
    words = {run["filesystem"]: request(journal, bench, run).filesystem.mkfs for run in journal.runs()}
    assert {name: mkfs[-1] for name, mkfs in words.items()} == {"ext4": "-K", "xfs": "-K", "f2fs": "0"}
    assert request(journal, bench, journal.runs()[0]).preconditioned


def test_results_report_how_it_ended(journal, bench, influxd):
    for status in ("ok", "failed"):
        run = taken(journal)
        assert ensure(journal, bench, run, Host(influxd, [1000.0] * 5)) is None
        journal.finish(run["id"], status, "", {})
    [line] = results._preconditions(results.results.load(journal.folder))
    assert line.startswith(
        "drive bench1/fast: preconditioned 1 time, steady in 2 of 2 runs; steady at round 5"
    )
    assert results.as_json(journal.folder)["runs"][0]["precondition"]["by"] == journal.runs()[0]["id"]


# --- what a campaign may ask for, and what it costs


@pytest.mark.parametrize(
    ("asked", "drives", "expected"),
    [
        ({"fills": 1}, ["fast"], "campaign.precondition: unknown key 'fills'; allowed: job, max_rounds, passes"),
        ({"purge": "erase"}, ["fast"], "campaign.precondition.purge: 'erase'"),
        ({"max_rounds": 4}, ["fast"], "campaign.precondition.max_rounds: 4; allowed: greater than or equal to 5"),
        ({"round_seconds": 0}, ["fast"], "campaign.precondition.round_seconds: 0"),
        ({"reuse_within": -1}, ["fast"], "campaign.precondition.reuse_within: -1"),
        ({"passes": -1}, ["fast"], "campaign.precondition.passes: -1"),
        ({"job": "seqread"}, ["fast"], "campaign.precondition.job: 'seqread' is unknown; allowed: randwrite"),
        ({"purge": "format"}, ["bare"], "campaign.precondition.purge: 'format': 'bare' is sata-ssd; allowed: auto, discard, unmap, secure-erase"),
        ({}, ["hdd-1"], "campaign.precondition: 'hdd-1' of bench1 is hdd; allowed: nvme or sata-ssd: fast, bare"),
        ({}, ["fast", "pair"], "campaign.precondition: 'pair' of bench1 is an array; allowed: nvme or sata-ssd"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(bench, mapping, asked, drives, expected):
    with pytest.raises(UserError) as caught:
        campaigns.parse({**mapping, "drives": drives, "precondition": asked}, bench, "playbooks/study.yml")
    assert str(caught.value).startswith(f"playbooks/study.yml: {expected}")
    assert "\n" not in str(caught.value)


def test_a_job_that_loads_another_drive_than_the_leased_one_is_refused(bench, mapping, tmp_path, monkeypatch):
    job = tmp_path / "fast.fio"
    job.write_text("[a]\nfilename=/dev/sda\nrw=randwrite\n")
    monkeypatch.setattr(campaigns, "precondition_jobs", lambda: {"fast": job})
    with pytest.raises(UserError, match=r"fast\.fio:2: filename: '/dev/sda'; allowed: \$\{JOULERIG_DEVICE\}"):
        campaigns.parse({**mapping, "precondition": {"job": "fast"}}, bench, "playbooks/study.yml")


def cost(bench, mapping, asked: dict[str, Any] | None) -> campaigns.Cost:
    campaign = campaigns.parse({**mapping, "precondition": asked}, bench, "playbooks/study.yml")
    return campaigns.cost(campaign, bench, campaigns.plan(campaign, bench))


def test_a_plan_has_the_preconditions_time_wear_and_energy(bench, mapping):
    mapping["phases"] = {"workload_seconds": 1}
    without = cost(bench, mapping, None)
    found = cost(bench, mapping, {"passes": 2, "round_seconds": 10, "max_rounds": 6, "reuse_within": 1})
    assert (without.preconditions, found.preconditions) == (0, 1)
    seconds = 2 * 1e12 / 300e6 + 60 + campaigns.WATCH_SECONDS
    assert found.precondition_hours == pytest.approx(seconds / 3600)
    assert found.hours - without.hours == pytest.approx(seconds / 3600)
    assert found.terabytes_written - without.terabytes_written == pytest.approx(2 + 15.8e9 * 60 / 1e12)
    assert found.kilowatt_hours - without.kilowatt_hours == pytest.approx(25 * seconds / 3.6e6)


@pytest.mark.parametrize(("reuse_within", "times"), [(0, 24), (0.015, 24), (0.016, 12), (1.0, 1)])
def test_a_plan_counts_on_it_as_long_as_it_must_hold(bench, mapping, reuse_within, times):
    mapping["phases"] = {"workload_seconds": 1}  # at most 15.8 of 1000 GB a run
    assert cost(bench, mapping, {"reuse_within": reuse_within}).preconditions == times


def test_of_a_campaign_that_uses_the_first_bytes_it_is_of_these_alone(
    state, bench, mapping, services_up, influxd
):
    steady, gib = [1000.0] * 5, 1 << 30

    def campaign(**changes: Any) -> tuple[Journal, dict[str, Any]]:
        journal = opened(bench, {**mapping, **changes})
        return journal, taken(journal)

    small, run = campaign(name="small", use_bytes="64 GiB")
    host = Host(influxd, steady)
    assert ensure(small, bench, run, host) is None
    assert host.calls[0]["use_bytes"] == request(small, bench, run).use_bytes == 64 * gib
    assert kept(small, run)["recipe"]["use_bytes"] == 64 * gib
    assert ensure(small, bench, run, lambda arguments: pytest.fail("called")) is None
    # Half of the drive may be written, but not half of what is used of it.
    amounts = {"write_bytes": 33 * gib, "discard_bytes": 0, "counter_bytes": None}
    with DriveRecord() as record:
        record.note([SERIAL], [("began", {"by": "x"}), ("ended", {"by": "x", **amounts})])
    host = Host(influxd, steady)
    assert ensure(small, bench, run, host) is None
    assert len(host.calls) == 1
    whole, run = campaign(name="whole")
    host = Host(influxd, steady)
    assert ensure(whole, bench, run, host) is None
    assert host.calls[0]["use_bytes"] == request(whole, bench, run).use_bytes == 0
    for journal in (small, whole):
        journal.close()
