# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page of one campaign gets beyond its live message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from joulerig.rig.campaign.drive_record import DriveRecord
from joulerig.rig.dashboard.api import campaign
from tests.support.dashboard_journal import T0, WritableJournal

SECOND = 1_000_000_000


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "var" / "log").mkdir(parents=True)
    (tmp_path / "var" / "secrets").mkdir()
    return tmp_path / "var"


def read(journal: WritableJournal, state: Path | None = None, *, has_log: bool = False) -> dict:
    found = campaign.read(journal.folder, state, has_log=has_log)
    json.dumps(found, allow_nan=False)
    return found


def test_each_cell_has_its_runs_in_plan_order(journal):
    journal.plan(replicates=2)
    cells = read(journal)["cells"]
    assert [(one["filesystem"], one["scheduler"]) for one in cells] == [
        ("ext4", "none"), ("ext4", "bfq"), ("xfs", "none"), ("xfs", "bfq"),
    ]  # fmt: skip
    assert [run["ordinal"] for run in cells[0]["runs"]] == [1, 5]
    assert {run["status"] for one in cells for run in one["runs"]} == {"planned"}
    assert cells[0]["ai"] == {}


def test_a_cells_ai_is_that_of_the_live_table_with_the_reports_interval(journal):
    runs = journal.plan(filesystems=("ext4",), schedulers=("none",), replicates=3)
    for run, ops in zip(runs, (1000, 1030, 990), strict=True):
        journal.end(run, T0, ops=ops, joules=10.0)
        journal.insert(
            "energy", run=run, phase="workload", meter="tap1a", drive="nvme-plp", rail="12v", joules=10.0,
            gap_low_joules=0.0, gap_high_joules=0.0, interpolation_joules=0.0, alignment_joules=0.0,
            product_joules=0.0, meter_joules=0.0, expected=10, samples=10, lost=0, gap_seconds=0.0,
        )  # fmt: skip
    (cell,) = read(journal)["cells"]
    ops = cell["ai"]["ops"]
    assert (ops["mean"], ops["low"], ops["high"], ops["n"]) == (pytest.approx(302 / 3), 99.0, 103.0, 3)
    assert ops["interval"]["low"] < ops["mean"] < ops["interval"]["high"]
    assert cell["runs"][1]["ops_per_joule"] == 103.0


def test_one_run_has_no_interval_and_no_mark(journal):
    runs = journal.plan(filesystems=("ext4", "xfs"), schedulers=("none",), replicates=2)
    for run in runs[:2]:
        journal.end(run, T0, ops=1000, joules=10.0)
    for cell in read(journal)["cells"]:
        assert (cell["ai"]["ops"]["interval"], cell["ai"]["ops"]["mark"]) == (None, "")
        assert cell["untested"]


def test_further_factors_are_apart_and_controls_are_in_no_cell(journal):
    journal.plan(filesystems=("ext4",), schedulers=("none",), kernel="6.1")
    assert read(journal)["cells"][0]["factors"] == {"kernel": "6.1"}
    journal.database.execute("UPDATE run SET factors = json_set(factors, '$.control', 'alone')")
    assert read(journal)["cells"] == []


def test_a_run_says_what_it_is_worth(journal):
    run = journal.plan(filesystems=("ext4",), schedulers=("none",))[0]
    journal.end(
        run, T0 + SECOND, "partial", "2 % lost", ops=1000, joules=10.0, joules_low=9.0, joules_high=11.0
    )
    journal.database.execute("UPDATE result SET device_bound_fraction = 0.7")
    journal.insert(
        "phase", run=run, phase="workload", start_ns=T0, end_ns=T0 + SECOND, clock_offset_ns=0,
        clock_error_ns=1000, slowness=4.0,
    )  # fmt: skip
    for phase, lost in (("workload", 2), ("idle", 50)):
        journal.insert(
            "energy", run=run, phase=phase, meter="tap1a", rail="12v", drive="nvme-plp", joules=10.0,
            samples=98, expected=100, lost=lost, gap_seconds=0.0,
        )  # fmt: skip
    most = {"at_most_seconds": 60.0, "at_most_rounds": 25}
    journal.event("preconditioning", T0, run, precondition="begun", why="never", **most)
    journal.event("preconditioning", T0, run, precondition="ended", steady=False, reason="25 rounds")
    (one,) = read(journal)["cells"][0]["runs"]
    assert (one["status"], one["reason"], one["low"], one["high"]) == ("partial", "2 % lost", 9.0, 11.0)
    assert (one["lost_percent"], one["steady"], one["slowness"]) == (2.0, False, 4.0)
    assert one["device_bound_fraction"] == 0.7


def test_a_run_that_has_not_begun_says_nothing_of_itself(journal):
    journal.plan(filesystems=("ext4",), schedulers=("none",))
    (one,) = read(journal)["cells"][0]["runs"]
    unknown = ("ops_per_joule", "joules", "low", "high", "lost_percent", "steady", "slowness")
    assert {one[name] for name in unknown} == {None}


def test_a_cell_that_a_race_left_out_says_by_which_look_and_why(journal):
    journal.plan()
    cell = "nvme-plp/xfs/bfq/randwrite-fsync"
    for look, reason in ((3, "is out: worse than ext4"), (4, "is out again")):
        journal.event(
            "look", T0, race="nvme-plp, randwrite-fsync", look=look, dropped=[{"cell": cell, "reason": reason}],
            kept=[], verdict="goes on",
        )  # fmt: skip
    found = {one["cell"]: one["dropped"] for one in read(journal)["cells"]}
    assert found.pop(cell) == {"by": "nvme-plp, randwrite-fsync, look 3", "reason": "is out: worse than ext4"}
    assert set(found.values()) == {None}


def rate(journal, terabytes):
    drives = {"nvme-plp": {"serial": "JR1", "rated_terabytes_written": terabytes}}
    lab = json.dumps({"hosts": {"vhost1": {"drives": drives}}})
    journal.database.execute("UPDATE campaign SET lab = ?", (lab,))


def workload(journal, run, write_bytes):
    journal.insert(
        "phase",
        run=run,
        phase="workload",
        start_ns=T0,
        end_ns=T0 + SECOND,
        clock_offset_ns=0,
        clock_error_ns=1,
    )
    journal.insert("io", run=run, source="iod", write_bytes=write_bytes)


def test_endurance_is_of_the_loads_where_there_is_no_record(journal, state):
    runs = journal.plan(filesystems=("ext4",))
    rate(journal, 0.001)
    workload(journal, runs[0], 10**8)
    (one,) = read(journal, state)["endurance"]
    assert (one["by"], one["written_bytes"], one["rated_bytes"]) == ("workload", 10**8, 1e9)
    assert one["fraction"] == pytest.approx(0.1)


def test_endurance_is_of_all_that_its_runs_wrote_by_the_record(journal, state):
    runs = journal.plan(filesystems=("ext4",))
    rate(journal, 0.001)
    workload(journal, runs[0], 10**8)
    with DriveRecord(state / "drives.sqlite") as record:
        for by in (runs[0], runs[0], f"other-{runs[0]}"):
            ended = {"by": by, "write_bytes": 2 * 10**8, "discard_bytes": 0}
            record.note(["JR1"], [("began", {"by": by}), ("ended", ended)])
    (one,) = read(journal, state)["endurance"]
    assert (one["by"], one["written_bytes"]) == ("record", 4 * 10**8)
    with DriveRecord(state / "drives.sqlite") as record:
        record.note(["JR1"], [("ended", {"by": runs[1], "write_bytes": None, "discard_bytes": None})])
    (one,) = read(journal, state)["endurance"]
    assert (one["written_bytes"], one["fraction"]) == (None, None)


def test_a_drive_without_a_rating_has_no_fraction(journal):
    journal.plan(filesystems=("ext4",))
    (one,) = read(journal)["endurance"]
    assert (one["rated_bytes"], one["fraction"], one["written_bytes"]) == (None, None, 0)


def test_a_record_that_cannot_be_read_leaves_the_loads_count(journal, state):
    journal.plan(filesystems=("ext4",))
    rate(journal, 1)
    (state / "drives.sqlite").write_text("no database, for sure")
    assert read(journal, state)["endurance"][0]["by"] == "workload"


def test_events_are_sentences_oldest_first_and_bounded(journal):
    run = journal.plan()[0]
    for number in range(campaign.MOST_EVENTS):
        journal.event("note", T0 + number, run, number=number)
    events = read(journal)["events"]
    assert len(events) == campaign.MOST_EVENTS
    assert events[0]["text"] == 'note: {"number": 0}'
    assert [one["time_ns"] for one in events] == sorted(one["time_ns"] for one in events)


def test_the_log_is_the_end_of_it_without_secrets(journal, state):
    (state / "secrets" / "reader").write_text("a-very-secret-word\n")
    (state / "secrets" / "short").write_text("ok\n")
    lines = [f"line {number}" for number in range(5000)] + ["password=a-very-secret-word", "ok"]
    (state / "log" / "campaign.log").write_text("\n".join(lines))
    log = read(journal, state, has_log=True)["log"]
    assert log["lines"][-2:] == ["password=***", "ok"]
    assert len(log["lines"]) == campaign.LOG_LINES
    assert log["age_seconds"] < 60
    assert log["why"] == ""


def test_a_secret_is_hidden_where_the_end_of_the_log_begins_in_it(journal, state):
    secret = "s3cret-" * 6
    (state / "secrets" / "reader").write_text(secret)
    rest = "x\n" * 90
    path = state / "log" / "campaign.log"
    path.write_text(secret + "y" * (campaign.LOG_BYTES - len(rest) - 10) + "\n" + rest)
    assert "s3cret" not in "\n".join(read(journal, state, has_log=True)["log"]["lines"])


def test_the_log_of_another_campaign_is_not_shown(journal, state):
    (state / "log" / "campaign.log").write_text("another's\n")
    log = read(journal, state)["log"]
    assert (log["lines"], log["why"]) == ([], "the log is of the campaign that was executed last")
    assert read(journal)["log"]["why"] == "there is no log of campaigns"


def test_a_campaign_of_power_cuts_has_runs_and_no_ai(journal):
    journal.plan(filesystems=("ext4",), schedulers=("none",))
    journal.database.execute("UPDATE campaign SET kind = 'power-cut'")
    found = read(journal)
    assert (found["kind"], found["cells"][0]["ai"]) == ("power-cut", {})
