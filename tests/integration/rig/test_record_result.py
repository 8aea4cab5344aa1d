# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign opened, and the record of a host's replies: work stands, energy is never guessed."""

import json
import os
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from joulerig.analysis.results import processor, progress
from joulerig.analysis.results.influxdb.client import Databases
from joulerig.rig.campaign import measure, opening
from joulerig.rig.campaign.execution.outcome import RunOutcome
from joulerig.rig.campaign.execution.record import record_result, settle
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import process, wait
from joulerig.rig.common.errors import UserError
from tests.support import FIXTURES

S = 1_000_000_000
BEGIN = 1_700_000_000 * S


@pytest.fixture
def journal(state, bench, mapping, services_up):
    journal = opening.open_campaign(
        {**mapping, "drives": ["fast", "bare", "pair"]}, bench, "playbooks/study.yml"
    )
    yield journal
    journal.close()


def power(server, watts=5.0, lost=0, twice=0, over=0, drive="fast", meter="tap1", last=1000, expected=10):
    server.write(
        *(
            f"power,meter={meter},rail=12v,host=bench1,drive={drive} volts=12,amps=1,watts={watts},watts_min={watts},"
            f"watts_max={watts},joules={watts * n / 100},samples={n * 10}i,expected={n * expected}i,lost={n * lost}i,"
            f"duplicate={n * twice}i,over_range={n * over}i,unbounded_seconds={n * over * 1e-3},"
            f'repeated=0i,gap_seconds=0,clock_residual_seconds=0,session="s1" {BEGIN + n * S // 100}'
            for n in range(last + 1)
        )
    )


def answer(**more):
    """Return a module's reply to a successful run; its clock is 3 s behind the controller's."""
    behind = 3 * S

    def phase(name, start, end):
        return {"phase": name, "start_ns": BEGIN + start * S - behind, "end_ns": BEGIN + end * S - behind}

    return {
        "status": "ok",
        "reason": "",
        "phases": [phase("prepare", 1, 2), phase("idle", 2, 4), phase("workload", 4, 8), phase("tail", 8, 9)],
        "clock": [{"at_ns": BEGIN + at * S - behind, "offset_ns": behind, "error_ns": 50} for at in (1, 9)],
        "report": json.loads((FIXTURES / "fio-fsync-two-jobs.json").read_text()),
        "counters": {
            "reads": 1,
            "read_bytes": 4096,
            "writes": 2,
            "write_bytes": 8192,
            "flushes": 2,
            "discards": 0,
        },
        "settings": {"queue": {"scheduler": {"before": "none", "in_effect": "bfq"}}},
        "health": {"before": {"temperature": 300}, "after": {"temperature": 301}},
        **more,
    }


def arguments(journal, run, bench):
    return OpenCampaign.load(journal, bench).request(run).arguments()


def record(journal, run, given, bench):
    return record_result(OpenCampaign.load(journal, bench), run, RunOutcome.from_reply(given))


def recorded(journal, bench, given, drive="fast"):
    """Takes runs until one is of `drive`, records its result; gives its row of the journal."""
    while (run := journal.take("bench1"))["drive"] != drive:
        journal.finish(run["id"], "not-run", "not of this test", {})
    record(journal, run, given, bench)
    return next(row for row in journal.runs() if row["id"] == run["id"])


def result(journal, run):
    [row] = journal.rows("result", run["id"])
    return row


# --- opening


def test_an_opened_campaign_has_its_plan_in_the_journal(journal, state):
    runs = journal.runs()
    assert len(runs) == 3 * 24
    assert journal.folder.parent == state / "results"
    assert runs[0]["id"] == f"{journal.campaign['id']}-0001"
    assert {run["status"] for run in runs} == {"planned"}
    assert journal.campaign["definition"]["phases"]["workload_seconds"] == 60


def test_excluded_runs_are_not_run_with_their_reason(state, bench, mapping, services_up):
    mapping["exclude"] = [{"scheduler": "bfq", "reason": "known to hang"}]
    journal = opening.open_campaign(mapping, bench, "playbooks/study.yml")
    assert journal.counts() == {"excluded": 12, "planned": 12}
    assert {r["reason"] for r in journal.runs() if r["status"] == "excluded"} == {"known to hang"}


def test_no_secret_is_in_the_journal(state, lab_files, mapping, services_up):
    lab_files.controller["influxdb"] = {"url": "http://db:8086", "token_file": "/secret/place"}
    lab_files.controller["notifications"] = [{"url": "https://chat.example/hook/secret"}]
    lab_files.controller["grafana"] = {"url": "http://grafana", "token_file": "/secret/place"}
    journal = opening.open_campaign(mapping, lab_files.load(), "playbooks/study.yml")
    assert "secret" not in json.dumps(journal.campaign)


@pytest.mark.parametrize("what", ["mapping", "services"])
def test_a_campaign_that_cannot_be_opened_leaves_nothing(
    state, bench, mapping, services_up, monkeypatch, what
):
    if what == "mapping":
        mapping["factors"]["filesystem"] = ["ext5"]
    else:

        def down(lab):
            raise UserError("InfluxDB at http://127.0.0.1:1 does not answer")

        monkeypatch.setattr(opening.services, "check", down)
    with pytest.raises(UserError):
        opening.open_campaign(mapping, bench, "playbooks/study.yml")
    assert not (state / "results").exists()


def test_what_a_host_gets_for_a_run(journal, bench):
    run = journal.take("bench1")
    reported = arguments(journal, run, bench)
    assert reported["run"] == run["id"]
    assert reported["filesystem"]["mkfs"][0] == f"mkfs.{run['filesystem']}"
    assert reported["phases"] == {"rest": 5, "idle": 5, "workload": 60, "tail": 5}
    assert reported["clock_server"] == "192.0.2.1:12300"
    assert "[global]" not in reported["workload"]["job"]


def test_of_an_array_a_host_gets_all_members(journal, bench):
    run = next(run for run in journal.runs() if run["drive"] == "pair")
    reported = arguments(journal, run, bench)
    assert reported["array"] is True
    assert [(m["name"], m["serial"]) for m in reported["members"]] == [
        ("hdd-1", "SERIAL-B"),
        ("hdd-2", "SERIAL-C"),
    ]


def test_replicates_differ_in_their_seed_cells_of_a_block_do_not(journal, bench):
    seeds = {}
    for run in journal.runs():
        seeds.setdefault(run["replicate"], set()).add(arguments(journal, run, bench)["seed"])
    assert all(len(found) == 1 for found in seeds.values())
    assert seeds[1] != seeds[2]


# --- recording results


def test_a_run_that_went_well(journal, bench, influxd):
    power(influxd)
    run = recorded(journal, bench, answer())
    assert (run["status"], run["reason"]) == ("ok", "")
    row = result(journal, run)
    assert row["joules"] == pytest.approx(20.0)
    assert row["mean_watts"] == pytest.approx(5.0)
    assert row["ai_ops_per_joule"] == pytest.approx(64 / 20.0)
    assert row["true_joules"] is None
    [done] = journal.rows("performance", run["id"])
    assert (done["ops"], done["seconds"]) == (64, 4.0)
    assert {p["phase"]: p["start_ns"] for p in journal.rows("phase", run["id"])}["workload"] == BEGIN + 4 * S
    assert [io["source"] for io in journal.rows("io", run["id"])] == ["host"]


def test_its_files_are_kept(journal, bench, influxd):
    power(influxd)
    run = recorded(journal, bench, answer())
    place = journal.folder / "runs" / run["id"]
    assert sorted(path.name for path in place.iterdir()) == [
        "load.json", "power.csv", "result.json", "settings.json", "smart_after.json", "smart_before.json",
    ]  # fmt: skip
    assert json.loads((place / "load.json").read_text())["jobs"]
    assert "report" not in json.loads((place / "result.json").read_text())


def test_what_its_load_reported_is_kept_on_the_controllers_clock(journal, bench, influxd):
    power(influxd)
    while (run := journal.take("bench1"))["drive"] != "fast":
        journal.finish(run["id"], "not-run", "not of this test", {})
    reported = [
        (5, 10),
        (6, 30),
        (7, 24),
        (20, 999),
    ]  # the last one after the run, as another load's would be
    influxd.write(
        *(
            f"workload,host=bench1,drive=fast,run={run['id']} ops={ops}i,read_bytes=0i,write_bytes={4096 * ops}i"
            f" {BEGIN + (at - 3) * S}"
            for at, ops in reported
        ),
        f"workload,host=bench1,drive=fast,run=another ops=7i,read_bytes=0i,write_bytes=0i {BEGIN + 2 * S}",
    )
    record(journal, run, answer(), bench)
    kept = progress.read(journal.folder / "runs" / run["id"])
    assert kept.rows() == [(BEGIN + at * S, ops, 0, 4096 * ops) for at, ops in reported[:3]]
    assert progress.read(journal.folder) is None


def packages(server, watts=20, host="bench1", last=12):
    """The host's packages draw `watts`; its clock is 3 s behind the controller's."""
    server.write(
        *(
            f"hostload,host={host} cpu_busy_seconds={at},package_joules={1000 + watts * (at + 0.5)}"
            f" {BEGIN + at * S + S // 2 - 3 * S}"
            for at in range(last)
        ),
    )


def test_what_the_processors_drew_stands_with_the_drives_joules(journal, bench, influxd):
    power(influxd)
    packages(influxd)
    packages(influxd, watts=500, host="bench2")
    row = recorded(journal, bench, answer())
    found = result(journal, row)
    assert found["cpu_joules"] == pytest.approx(20 * 4.0)
    assert found["joules"] == pytest.approx(5.0 * 4)
    kept = processor.read(journal.folder / "runs" / row["id"])
    assert kept.rows() == [(BEGIN + at * S + S // 2, 1000 + 20 * (at + 0.5)) for at in range(3, 9)]


def test_a_host_without_rapl_has_no_joules_of_processors(journal, bench, influxd):
    power(influxd)
    influxd.write(*(f"hostload,host=bench1 cpu_busy_seconds={at} {BEGIN + (at - 3) * S}" for at in range(12)))
    row = recorded(journal, bench, answer())
    assert (row["status"], result(journal, row)["cpu_joules"]) == ("ok", None)
    assert processor.read(journal.folder / "runs" / row["id"]) is None


def test_processors_read_for_half_of_a_run_have_no_joules(journal, bench, influxd, monkeypatch):
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 0.1)
    power(influxd)
    packages(influxd, last=6)
    assert result(journal, recorded(journal, bench, answer()))["cpu_joules"] is None


def test_a_meter_that_lost_too_much_makes_it_partial(journal, bench, influxd):
    power(influxd, lost=1)
    run = recorded(journal, bench, answer())
    assert run["status"] == "partial"
    assert run["reason"] == "meter tap1 lost 10.00 % of 12v; 1 % is allowed"
    assert result(journal, run)["joules"] == pytest.approx(20.0)


@pytest.mark.parametrize("step", [{"controller_step_ns": 2 * S}, {"controller_step_ns": -2 * S}])
def test_a_run_in_which_a_clock_was_set_has_no_joules(journal, bench, influxd, step):
    """Its points are there, and not where its phases are."""
    power(influxd)
    packages(influxd)
    run = recorded(journal, bench, answer(**step))
    word = "forward" if step["controller_step_ns"] > 0 else "back"
    assert run["status"] == "partial"
    assert run["reason"] == f"the controller's clock was set {word} by 2 s in the run"
    figures = [result(journal, run), *journal.rows("energy", run["id"])]
    named = ("joules", "joules_low", "joules_high", "ops_per_joule", "cpu_joules")
    assert {row[name] for row in figures for name in named if name in row} == {None}
    assert {row["drive"] for row in figures[1:]} == {"fast"}
    with closing(sqlite3.connect(journal.folder / "journal.sqlite")) as database:
        assert database.execute("SELECT cause FROM attempt WHERE run = ?", (run["id"],)).fetchone() == (
            "clock",
        )


def test_blocks_that_came_twice_came_in_place_of_lost_ones(journal, bench, influxd):
    power(influxd, twice=1)
    run = recorded(journal, bench, answer())
    assert run["reason"] == "meter tap1 lost 10.00 % of 12v; 1 % is allowed"


def test_a_meter_that_was_over_range_makes_it_partial_and_leaves_the_energy_without_bounds(
    state, bench, mapping, services_up, influxd
):
    power(influxd, over=1)
    journal = opening.open_campaign({**mapping, "loss_limit_percent": 100}, bench, "playbooks/study.yml")
    run = recorded(journal, bench, answer())
    assert run["status"] == "partial"
    assert run["reason"] == "meter tap1 was over range in 400 samples of 12v"
    found = result(journal, run)
    assert (found["joules"], found["joules_low"], found["joules_high"]) == (pytest.approx(20.0), None, None)


def test_what_contradicts_itself_is_in_the_reason_of_a_run_that_stays_ok(journal, bench, influxd):
    power(influxd, expected=11)
    run = recorded(journal, bench, answer())
    assert run["status"] == "ok"
    assert run["reason"] == (
        "doubtful: fast 12v of meter tap1: the controller's clock was set back by about 0.7 s"
    )


def test_a_check_that_was_out_of_control_is_in_the_reason_of_each_run_of_the_meter(
    state, bench, mapping, services_up, influxd, monkeypatch
):
    check = {"at": "2026-11-25T10:00:00Z", "rail": "bench1/fast/12v", "state": "out of control"}
    monkeypatch.setattr(
        opening.provenance, "checks", lambda lab: {"checks": {"tap1": {**check, "faults": ["late"]}}}
    )
    journal = opening.open_campaign({**mapping, "drives": ["fast"]}, bench, "playbooks/study.yml")
    power(influxd)
    run = recorded(journal, bench, answer())
    assert run["status"] == "ok"
    assert run["reason"] == "doubtful: meter tap1, checked 2026-11-25T10:00 at bench1/fast/12v: late"


def test_a_run_whose_rail_says_nothing_of_its_supply_has_joules_without_bounds_and_says_so(
    state, lab_files, mapping, services_up, influxd
):
    power(influxd)
    del lab_files.host["drives"]["fast"]["rails"]["12v"]["supply"]
    bench = lab_files.load()
    journal = opening.open_campaign(mapping, bench, "playbooks/study.yml")
    run = recorded(journal, bench, answer())
    assert run["status"] == "ok"
    assert run["reason"] == (
        "no bounds of the joules of fast 12v: loads faster than a sample are unknown,"
        " and its supply's amps and ohms are not declared"
    )
    found = result(journal, run)
    assert (found["joules"], found["joules_low"]) == (pytest.approx(20.0), None)


def test_below_the_campaigns_own_limit_a_loss_leaves_it_ok(state, bench, mapping, services_up, influxd):
    power(influxd, lost=1)
    journal = opening.open_campaign({**mapping, "loss_limit_percent": 10.5}, bench, "playbooks/study.yml")
    assert recorded(journal, bench, answer())["status"] == "ok"


def test_the_result_has_low_and_high_of_all_rails(journal, bench, influxd):
    power(influxd, drive="hdd-1", watts=6.0)
    power(influxd, drive="hdd-2", watts=7.0, meter="tap2")
    run = recorded(journal, bench, answer(), drive="pair")
    row, rails = result(journal, run), journal.rows("energy", run["id"])
    load = [rail for rail in rails if rail["phase"] == "workload"]
    assert row["joules_low"] == pytest.approx(sum(rail["joules_low"] for rail in load))
    assert row["joules_high"] == pytest.approx(sum(rail["joules_high"] for rail in load))
    assert row["joules_low"] < 52.0 < row["joules_high"]


def test_without_points_it_is_partial_with_no_joules(journal, bench, influxd):
    run = recorded(journal, bench, answer())
    assert (run["status"], run["reason"]) == ("partial", "no energy of fast 12v: no points")
    row = result(journal, run)
    assert (row["joules"], row["ai_ops_per_joule"], row["mean_watts"]) == (None, None, None)
    assert journal.rows("performance", run["id"])[0]["ops"] == 64


def test_a_drive_without_rails_has_performance_no_joules_and_says_so(journal, bench):
    run = recorded(journal, bench, answer(), drive="bare")
    assert (run["status"], run["reason"]) == ("ok", "no joules: bare: no rail")
    assert result(journal, run)["joules"] is None
    assert journal.rows("performance", run["id"])[0]["ops"] == 64


def test_a_failed_run_on_a_drive_without_rails_stays_failed(journal, bench):
    run = recorded(journal, bench, answer(status="failed", reason="fio: no space"), drive="bare")
    assert (run["status"], run["reason"]) == ("failed", "fio: no space")


def test_a_drive_that_counts_no_io_has_no_rows_of_it(journal, bench):
    run = recorded(journal, bench, answer(counters={}), drive="bare")
    assert run["status"] == "ok"
    assert journal.rows("io", run["id"]) == []


@pytest.fixture
def journaled(state, bench, mapping, services_up):
    """A campaign whose file systems have their journal on another drive, with rails or without."""

    def with_journal_on(drive):
        factors = {**mapping["factors"], "filesystem": ["ext4"], "journal": [drive]}
        return opening.open_campaign(
            {**mapping, "drives": ["pair"], "factors": factors}, bench, "playbooks/study.yml"
        )

    return with_journal_on


def test_an_external_journals_drive_is_named_and_measured(journaled, bench, influxd):
    power(influxd, drive="hdd-1", watts=6.0)
    power(influxd, drive="hdd-2", watts=7.0, meter="tap2")
    power(influxd, drive="fast", watts=5.0)
    journal = journaled("fast")
    run = journal.take("bench1")
    reported = arguments(journal, run, bench)
    assert (reported["journal"]["name"], reported["journal"]["serial"]) == ("fast", "SERIAL-A")
    assert [member["name"] for member in reported["members"]] == ["hdd-1", "hdd-2"]
    record(journal, run, answer(), bench)
    assert result(journal, run)["joules"] == pytest.approx(4 * (6.0 + 7.0 + 5.0))
    load = [row for row in journal.rows("energy", run["id"]) if row["phase"] == "workload"]
    assert {row["drive"]: row["joules"] for row in load} == pytest.approx(
        {"hdd-1": 24.0, "hdd-2": 28.0, "fast": 20.0}
    )


def test_the_data_drives_energy_does_not_pass_for_that_with_a_journal(journaled, bench, influxd):
    power(influxd, drive="hdd-1", watts=6.0)
    power(influxd, drive="hdd-2", watts=7.0, meter="tap2")
    journal = journaled("bare")
    run = journal.take("bench1")
    assert record(journal, run, answer(), bench) == "partial"
    assert result(journal, run)["joules"] is None


def test_a_run_without_external_journal_names_none(journal, bench):
    assert arguments(journal, journal.take("bench1"), bench)["journal"] == {}


def test_a_journals_drive_that_is_gone_ends_a_resumption(journaled, lab_files):
    name = journaled("fast").campaign["id"]
    del lab_files.drives["fast"]
    with pytest.raises(UserError, match="journal: 'fast' no longer exists"):
        opening.resume_campaign(name, lab_files.load())


def test_an_emulated_drive_is_in_the_provenance(state, lab_files, mapping, services_up):
    lab_files.host["emulated"] = {"access_milliseconds": 4}
    lab_files.drives["played"] = {"interface": "hdd", "serial": "scsi_debug-0", "size_bytes": 1 << 26}
    journal = opening.open_campaign(
        {**mapping, "drives": ["played"]}, lab_files.load(), "playbooks/study.yml"
    )
    assert journal.campaign["provenance"]["emulated"] == {"bench1": {"played": "scsi_debug, 4 ms a request"}}


def test_a_part_of_an_array_does_not_pass_for_the_whole(journal, lab_files, influxd):
    lab_files.drives["hdd-2"]["rails"] = {}
    power(influxd, drive="hdd-1")
    run = recorded(journal, lab_files.load(), answer(), drive="pair")
    assert run["status"] == "partial"
    assert result(journal, run)["joules"] is None
    assert [row["drive"] for row in journal.rows("energy", run["id"]) if row["phase"] == "workload"] == [
        "hdd-1"
    ]


def test_an_array_is_the_sum_of_its_members(journal, bench, influxd):
    power(influxd, drive="hdd-1", watts=6.0)
    power(influxd, drive="hdd-2", watts=7.0, meter="tap2")
    run = recorded(journal, bench, answer(), drive="pair")
    assert (run["status"], result(journal, run)["joules"]) == ("ok", pytest.approx(52.0))


def test_points_of_a_session_that_powerd_has_not_had_are_left_out_and_reported(journal, bench, influxd):
    power(influxd)
    at = BEGIN + S // 200
    influxd.write(
        f'power,meter=tap1,rail=12v,host=bench1,drive=fast watts=1,joules=1e9,samples=1i,session="f\'0" {at}'
    )
    run = recorded(journal, bench, answer())
    assert (run["status"], result(journal, run)["joules"]) == ("ok", pytest.approx(20.0))
    assert '1 point of session "f\'0", which powerd has not had here, left out' in run["reason"]


def test_influxdb_that_is_down_makes_it_partial(journal, bench, monkeypatch):
    monkeypatch.setattr(
        measure, "client", lambda lab: Databases("http://127.0.0.1:1", "joulerig", "u", "p", hosts=lab.hosts)
    )
    run = recorded(journal, bench, answer())
    assert run["status"] == "partial"
    assert run["reason"].startswith("no energy: ")
    assert journal.rows("performance", run["id"])
    assert journal.rows("result", run["id"]) == []


def test_a_token_that_is_gone_makes_it_partial(journal, bench, monkeypatch):
    def gone(lab):
        raise UserError("/secret/place: No such file or directory")

    monkeypatch.setattr(measure, "client", gone)
    run = recorded(journal, bench, answer())
    assert (run["status"], run["reason"]) == (
        "partial",
        "no energy: /secret/place: No such file or directory",
    )


def test_a_failed_run_keeps_its_reason_and_its_phases(journal, bench):
    given = answer(status="failed", reason="mkfs.xfs: exit 1: no space", report=None)
    given["phases"] = given["phases"][:1]
    run = recorded(journal, bench, given)
    assert (run["status"], run["reason"]) == ("failed", "mkfs.xfs: exit 1: no space")
    assert [p["phase"] for p in journal.rows("phase", run["id"])] == ["prepare"]
    assert journal.rows("performance", run["id"]) == []


def test_a_refused_run_is_refused(journal, bench):
    given = {
        "status": "refused",
        "reason": "fast: mounted",
        "phases": [],
        "clock": [],
        "settings": {},
        "health": {},
    }
    run = recorded(journal, bench, given)
    assert (run["status"], run["reason"]) == ("refused", "fast: mounted")


@pytest.mark.parametrize("lacking", ["report", "phases", "clock"])
def test_an_ok_without_its_evidence_is_a_failure(journal, bench, lacking):
    run = recorded(journal, bench, answer(**{lacking: []}))
    assert (run["status"], run["reason"]) == ("failed", "the load left no report")


@pytest.mark.parametrize("report", [{"jobs": [{}]}, {"fio version": "fio-3.33"}, {"jobs": ["j"]}])
def test_a_report_that_cannot_be_read_is_a_failure(journal, bench, report):
    run = recorded(journal, bench, answer(report=report))
    assert run["status"] == "failed"
    assert run["reason"].startswith("the load's report cannot be read: ")


def test_a_status_is_never_made_better(journal, bench, influxd):
    """The load failed after its report was written: energy or not, it stays failed."""
    power(influxd)
    run = recorded(journal, bench, answer(status="failed", reason="the scheduler changed"))
    assert (run["status"], run["reason"]) == ("failed", "the scheduler changed")


# --- resuming


# --- settling


@pytest.fixture
def late(journal, bench, influxd, monkeypatch):
    """A run recorded while its power was on the way, which arrived since."""
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 0.1)
    run = recorded(journal, bench, answer())
    assert run["status"] == "partial"
    power(influxd)
    return run


def settled(journal, bench) -> tuple[list[str], list[str]]:
    said: list[str] = []
    return settle(OpenCampaign.load(journal, bench), said.append), said


def row_of(journal, run):
    return next(row for row in journal.runs() if row["id"] == run["id"])


def test_energy_that_arrives_later_makes_a_partial_run_ok(journal, bench, influxd, late):
    stay, said = settled(journal, bench)
    assert stay == []
    assert said == [f"{late['id']} {late['cell']}: partial -> ok"]
    assert (row_of(journal, late)["status"], row_of(journal, late)["reason"]) == ("ok", "")
    at_once = recorded(journal, bench, answer())
    for table in ("energy", "result", "io", "performance", "phase"):
        first, second = (journal.rows(table, one["id"]) for one in (late, at_once))
        assert [{**row, "run": ""} for row in first] == [{**row, "run": ""} for row in second]


def counts(influxd, first, last):
    """Return what the agent counted, each second, by the host's clock."""
    influxd.write(
        *(
            f"blockio,host=bench1,drive=fast reads={n}i,read_bytes={n}i,writes={n}i,write_bytes={n}i,"
            f"flushes={n}i,discards=0i {BEGIN + n * S}"
            for n in range(first, last)
        )
    )


def test_a_settled_run_has_the_counts_that_its_agent_delivers_last(
    journal, bench, influxd, late, monkeypatch
):
    counts(influxd, -20, -10)
    slept = []

    def sleep(seconds: float) -> None:
        if not slept:
            counts(influxd, -10, 20)
        slept.append(seconds)

    monkeypatch.setattr(wait, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    assert settled(journal, bench)[0] == []
    assert slept
    assert "iod" in {row["source"] for row in journal.rows("io", late["id"])}


def test_both_states_of_a_settled_run_are_in_the_journal(journal, bench, late):
    settled(journal, bench)
    rows = journal._db.execute("SELECT detail FROM event WHERE run = ? AND event = 'settled'", (late["id"],))
    [detail] = [json.loads(row["detail"]) for row in rows]
    assert detail == {"from": "partial", "to": "ok", "reason": ""}
    attempt = journal._db.execute("SELECT * FROM attempt WHERE run = ?", (late["id"],)).fetchone()
    assert (attempt["status"], attempt["cause"], attempt["reason"]) == ("ok", "completed", "")


def test_what_has_still_not_arrived_leaves_the_run_as_it_was(journal, bench, influxd, monkeypatch):
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 0.1)
    run = recorded(journal, bench, answer())
    before = journal.rows("energy", run["id"])
    assert settled(journal, bench) == ([run["id"]], [])
    assert row_of(journal, run) == run
    assert journal.rows("energy", run["id"]) == before
    assert not journal._db.execute("SELECT 1 FROM event WHERE event = 'settled'").fetchall()


def test_a_settled_campaign_is_settled_again_without_a_change(journal, bench, late):
    settled(journal, bench)
    assert settled(journal, bench) == ([], [])


def test_only_runs_that_worked_are_settled(journal, bench, influxd):
    run = journal.take("bench1")["id"]
    journal.finish(run, "failed", "fio: no space", {})
    with pytest.raises(ValueError, match="failed cannot become ok"):
        journal.settle(run, "ok", "", {})


def test_without_influxdb_nothing_is_settled_and_it_is_named(journal, bench, late, influxd):
    influxd.stop()
    with pytest.raises(UserError, match=r"^InfluxDB: "):
        settled(journal, bench)
    assert row_of(journal, late) == late


def test_files_that_cannot_be_read_are_named(journal, bench, late):
    (journal.folder / "runs" / late["id"] / "load.json").write_text("{")
    with pytest.raises(UserError, match=rf"{late['id']}: its files cannot be read"):
        settled(journal, bench)
    assert row_of(journal, late) == late


def test_a_resumed_campaign_plans_what_was_cut_off_again(journal, bench, influxd):
    power(influxd)
    done = recorded(journal, bench, answer())
    cut = journal.take("bench1")["id"]
    place = journal.folder / "runs" / cut
    place.mkdir(parents=True)
    (place / "result.json").write_text("{}")
    resumed = opening.resume_campaign(journal.campaign["id"], bench)
    statuses = {run["id"]: run["status"] for run in resumed.runs()}
    assert (statuses[done["id"]], statuses[cut]) == ("ok", "planned")
    assert place.exists(), "what its host has begun goes on"
    assert (journal.folder / "runs" / done["id"]).exists()


def test_a_campaign_whose_drive_is_gone_is_not_resumed(journal, lab_files):
    journal.take("bench1")
    del lab_files.drives["fast"]
    with pytest.raises(UserError, match=r"drive: 'fast' no longer exists; allowed: hdd-1, hdd-2, bare, pair"):
        opening.resume_campaign(journal.campaign["id"], lab_files.load())
    assert journal.counts()["running"] == 1


def test_a_campaign_that_is_being_executed_is_not_resumed(journal, bench):
    journal.take("bench1")
    Journal(journal.folder).claim(process.identity(os.getpid()))
    with pytest.raises(UserError, match="is executed by"):
        opening.resume_campaign(journal.campaign["id"], bench)


# --- heat


def test_a_run_whose_drive_throttled_is_partial(journal, bench, influxd):
    power(influxd)
    health = {"before": {"thm_temp2_total_time": 3}, "after": {"thm_temp2_total_time": 15}}
    run = recorded(journal, bench, answer(health=health))
    assert run["status"] == "partial"
    assert "fast was hot: 12 s of heavy throttling" in run["reason"]
    assert result(journal, run)["joules"] == pytest.approx(5 * 4, rel=0.01)


def test_a_run_whose_drive_throttled_stays_partial(journal, bench, influxd):
    power(influxd)
    health = {"before": {"warning_temp_time": 0}, "after": {"warning_temp_time": 1}}
    run = recorded(journal, bench, answer(health=health))
    assert settle(OpenCampaign.load(journal, bench), lambda line: None) == [run["id"]]
