# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal: what is in it survives the controller, whatever moment it dies at."""

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from joulerig.analysis.results.journal import CHANGES, VERSION
from joulerig.analysis.results.schema import FINISHED, TABLES, Cause, Status
from joulerig.rig.campaign import journal as journals
from joulerig.rig.campaign.journal import ALLOWED, Journal
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from tests.support.planned_runs import CAMPAIGN, row

PHASE = {
    "phase": "workload", "start_ns": 1, "end_ns": 2, "clock_offset_ns": 0, "clock_error_ns": 0,
    "slowness": 20.0,
}  # fmt: skip
RESULT = {"joules": 1.5, "true_joules": None, "error_percent": None, "mean_watts": 1.0}


@pytest.fixture
def folder(tmp_path):
    rows = [row(1), row(2, "h2"), row(3), row(4, "h2"), row(5)]
    Journal.create(tmp_path / "study-1", CAMPAIGN, rows).close()
    return tmp_path / "study-1"


@pytest.fixture
def journal(folder):
    opened = Journal(folder)
    yield opened
    opened.close()


def status_of(journal, run):
    return next(r["status"] for r in journal.runs() if r["id"] == run)


def events(folder):
    with sqlite3.connect(folder / "journal.sqlite") as db:
        return [(run, event) for run, event in db.execute("SELECT run, event FROM event ORDER BY seq")]


# --- creating and opening


def test_a_created_journal_holds_campaign_and_plan(journal):
    assert journal.campaign["name"] == "study"
    assert journal.campaign["definition"] == {"seed": 1}
    assert [run["ordinal"] for run in journal.runs()] == [1, 2, 3, 4, 5]
    assert journal.counts() == {"planned": 5}


def test_the_journal_is_in_wal_mode_so_that_readers_never_wait(folder):
    with sqlite3.connect(f"file:{folder}/journal.sqlite?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_creating_leaves_the_journal_alone_in_its_folder(folder):
    assert {path.name for path in folder.iterdir()} <= {
        "journal.sqlite",
        "journal.sqlite-wal",
        "journal.sqlite-shm",
    }


def test_a_campaign_that_exists_is_not_overwritten(folder):
    with pytest.raises(UserError, match="already exists"):
        Journal.create(folder, CAMPAIGN, [])
    assert len(Journal(folder).runs()) == 5


def test_a_plan_that_cannot_be_journalled_leaves_nothing(tmp_path):
    with pytest.raises(sqlite3.IntegrityError):
        Journal.create(tmp_path / "study-1", CAMPAIGN, [row(1), row(1)])
    assert list(tmp_path.iterdir()) == []


def test_a_journal_comes_to_its_place_whole(tmp_path, monkeypatch):
    there = []
    move = journals.atomic.move
    monkeypatch.setattr(
        journals.atomic, "move", lambda source, target: there.append(target.exists()) or move(source, target)
    )
    Journal.create(tmp_path / "study-1", CAMPAIGN, [row(1)]).close()
    assert there == [False]


def test_a_campaigns_times_are_its_labs(tmp_path, monkeypatch):
    monkeypatch.setattr(journals.virtual, "clock", lambda *, is_virtual: lambda: 7 if is_virtual else 8)
    for name, is_virtual, time_ns in (("virtual", 1, 7), ("physical", 0, 8)):
        journal = Journal.create(tmp_path / name, {**CAMPAIGN, "virtual": is_virtual}, [row(1)])
        assert journal.take("h1")["started_ns"] == time_ns
        journal.close()


def test_a_folder_whose_name_is_no_campaigns_is_refused(folder):
    with pytest.raises(UserError, match="no campaign's folder has such a name"):
        Journal(folder.rename(folder.with_name("study-1 copy")))


def test_nothing_is_kept_of_a_run_that_is_not_there(journal):
    run = journal.take("h1")["id"]
    with pytest.raises(sqlite3.IntegrityError):
        journal.finish(run, "ok", "", {"phase": [{**PHASE, "run": "study-1-0099"}]})
    assert status_of(journal, run) == "running"


def test_no_journal(tmp_path):
    with pytest.raises(UserError, match=r"not a campaign \(no journal.sqlite\)"):
        Journal(tmp_path)


def test_a_journal_of_another_version_is_refused(folder):
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(
        UserError, match=rf"journal version 99, this program reads {VERSION}: a newer one wrote it"
    ):
        Journal(folder)


def as_of_version_1(folder):
    """Turn a journal into version 1: fewer columns; with a run's energy."""
    with sqlite3.connect(folder / "journal.sqlite") as db:
        for table in ("energy", "result"):
            for name, one in TABLES[table].columns.items():
                if one.since > 1:
                    db.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        db.execute(
            "INSERT INTO energy VALUES ('study-1-0001','idle','tap1','12v','fast',4.5,NULL,9,10,1,0.1)"
        )
        db.execute("PRAGMA user_version = 1")


def columns(folder):
    with sqlite3.connect(folder / "journal.sqlite") as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: list(db.execute(f"PRAGMA table_info({table})")) for table in tables}


def test_a_journal_of_the_version_before_is_upgraded_once(folder, monkeypatch):
    changes = []
    monkeypatch.setitem(CHANGES, VERSION, lambda db: changes.append(1))
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute(f"PRAGMA user_version = {VERSION - 1}")
    for _ in range(2):
        Journal(folder).close()
    assert changes == [1]


def test_a_journal_that_another_process_just_upgraded_is_left_alone(folder, monkeypatch):
    """It is upgraded between the look at its version and the transaction."""
    changes = []
    monkeypatch.setitem(CHANGES, VERSION, lambda db: changes.append(1))
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute(f"PRAGMA user_version = {VERSION - 1}")
    transaction = journals.transaction

    def after_the_other(db):
        with sqlite3.connect(folder / "journal.sqlite") as other:
            other.execute(f"PRAGMA user_version = {VERSION}")
        return transaction(db)

    monkeypatch.setattr(journals, "transaction", after_the_other)
    Journal(folder).close()
    assert changes == []


def test_a_journal_of_version_1_is_upgraded_and_keeps_its_rows(folder):
    fresh = columns(folder)
    as_of_version_1(folder)
    assert columns(folder) != fresh
    journal = Journal(folder)
    assert columns(folder) == fresh
    [energy] = journal.rows("energy", "study-1-0001")
    assert (energy["joules"], energy["expected"], energy["joules_low"], energy["surplus"]) == (
        4.5,
        10,
        None,
        None,
    )
    assert len(journal.runs()) == 5
    journal.close()


def as_of_version_2(folder):
    """Turn a journal into version 2: a rail's energy without the drive in its key; one row."""
    with sqlite3.connect(folder / "journal.sqlite") as db:
        [(text,)] = db.execute("SELECT sql FROM sqlite_master WHERE name = 'energy'")
        db.execute("DROP TABLE energy")
        db.execute(text.replace("meter, rail, drive)", "meter, rail)"))
        columns = (
            "run, phase, meter, rail, drive, joules, samples, expected, lost, gap_seconds, worst_gap_seconds"
        )
        db.execute(
            f"INSERT INTO energy ({columns}) VALUES"
            " ('study-1-0001','idle','tap1','12v','hdd-1',4.5,9,10,1,0.1,0.2)"
        )
        db.execute("ALTER TABLE result DROP COLUMN device_bound_fraction")
        db.execute("ALTER TABLE result DROP COLUMN cpu_joules")
        db.execute("PRAGMA user_version = 2")


def test_a_journal_of_version_2_takes_two_drives_of_one_meter_with_a_rail_of_one_name(folder):
    fresh = columns(folder)
    as_of_version_2(folder)
    assert columns(folder) != fresh
    with closing(Journal(folder)) as journal:
        assert columns(folder) == fresh
        [energy] = journal.rows("energy", "study-1-0001")
        assert (energy["drive"], energy["joules"], energy["worst_gap_seconds"]) == ("hdd-1", 4.5, 0.2)
        run = journal.take("h1")
        journal.finish(run["id"], "ok", "", {"energy": [{**energy, "drive": "hdd-2", "run": "study-1-0001"}]})
        assert {row["drive"] for row in journal.rows("energy", "study-1-0001")} == {"hdd-1", "hdd-2"}


def test_a_journal_of_version_4_learns_of_processors(folder):
    fresh = columns(folder)
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute("ALTER TABLE result DROP COLUMN cpu_joules")
        db.execute("PRAGMA user_version = 4")
    assert columns(folder) != fresh
    Journal(folder).close()
    assert columns(folder) == fresh


def as_of_version_3(folder):
    """Turn a journal into version 3: a workload with known bytes and no figure of merit."""
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute("DROP TABLE performance")
        db.execute(
            "CREATE TABLE performance (run TEXT PRIMARY KEY REFERENCES run(id), seconds REAL NOT NULL,"
            " ops INTEGER NOT NULL, read_bytes INTEGER NOT NULL, write_bytes INTEGER NOT NULL,"
            " syncs INTEGER NOT NULL, ops_per_second REAL NOT NULL, mb_per_second REAL NOT NULL,"
            " latency_p50_seconds REAL, latency_p99_seconds REAL)"
        )
        db.execute(
            "INSERT INTO performance VALUES ('study-1-0002', 2.0, 8, 0, 4096, 8, 4.0, 0.002, 0.1, NULL)"
        )
        db.execute("ALTER TABLE result DROP COLUMN cpu_joules")
        db.execute("PRAGMA user_version = 3")


def test_a_journal_of_version_3_keeps_its_performance_and_takes_a_programs(folder):
    fresh = columns(folder)
    as_of_version_3(folder)
    assert columns(folder) != fresh
    with closing(Journal(folder)) as journal:
        assert columns(folder) == fresh
        [done] = journal.rows("performance", "study-1-0002")
        assert (done["ops"], done["write_bytes"], done["latency_p50_seconds"]) == (8, 4096, 0.1)
        assert (done["unit"], done["figure"]) == ("operation", None)
        run = journal.take("h1")
        merit = {"unit": "pass", "figure_name": "seconds a pass", "figure": 3.5, "figure_better": "lower"}
        journal.finish(
            run["id"], "ok", "", {"performance": [{"seconds": 2.0, "ops": 1, "ops_per_second": 0.5, **merit}]}
        )
        [kept] = journal.rows("performance", run["id"])
        assert (kept["read_bytes"], kept["figure"]) == (None, 3.5)


def test_an_upgrade_that_breaks_off_leaves_the_old_journal(folder, monkeypatch):
    as_of_version_1(folder)
    before = columns(folder)
    monkeypatch.setitem(CHANGES, 6, lambda db: db.execute("ALTER TABLE nowhere ADD COLUMN joules REAL"))
    with pytest.raises(UserError, match="no such table: nowhere"):
        Journal(folder)
    assert columns(folder) == before
    monkeypatch.undo()
    Journal(folder).close()


def test_two_that_open_an_old_journal_at_once_upgrade_it_once(folder):
    as_of_version_1(folder)
    # Not by fork: other tests leave threads in this process, whose locks a child would never see
    # opened.
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    with context.Pool(4, initializer=_meet_at, initargs=(barrier,)) as pool:
        assert pool.map(_opens, [folder] * 4, chunksize=1) == [5] * 4


def _meet_at(barrier):
    _opens.barrier = barrier


def _opens(folder):
    _opens.barrier.wait(60)
    with closing(Journal(folder)) as journal:
        return len(journal.runs())


def test_a_file_that_is_not_a_journal_is_refused_on_one_line(tmp_path):
    (tmp_path / "journal.sqlite").write_text(
        "this is not a database at all, but long enough to look like one" * 9
    )
    with pytest.raises(UserError) as caught:
        Journal(tmp_path)
    assert "journal.sqlite: cannot be read" in str(caught.value)


# --- taking runs


def test_take_gives_the_runs_of_a_host_in_order(journal):
    assert [journal.take("h1")["ordinal"] for _ in range(3)] == [1, 3, 5]
    assert journal.take("h1") is None
    assert journal.take("h2")["ordinal"] == 2


def test_take_gives_the_runs_of_one_drive_in_order(tmp_path):
    rows = [row(1), {**row(2), "drive": "slow"}, row(3), {**row(4), "drive": "slow"}]
    with closing(Journal.create(tmp_path / "study-1", CAMPAIGN, rows)) as journal:
        assert journal.drives("h1") == ["fast", "slow"]
        assert [journal.take("h1", "slow")["ordinal"] for _ in range(2)] == [2, 4]
        assert journal.take("h1", "slow") is None
        assert journal.upcoming("h1", "fast")["ordinal"] == 1
        assert [run["ordinal"] for run in journal.running()] == [2, 4]


def test_of_a_drive_an_attempt_whose_end_is_not_known_comes_first(tmp_path):
    rows = [row(1), {**row(2), "drive": "slow"}, row(3), {**row(4), "drive": "slow"}]
    with closing(Journal.create(tmp_path / "study-1", CAMPAIGN, rows)) as journal:
        begun = [journal.take("h1", drive)["id"] for drive in ("fast", "slow")]
        assert journal.give_back(goes_on=True) == begun
        assert [journal.upcoming("h1", drive)["begun"] for drive in ("fast", "slow")] == [True, True]
        assert journal.take("h1", "slow")["id"] == begun[1]
        assert journal.upcoming("h1", "slow")["begun"] is False
        assert journal.goes_on("h1")


def test_a_taken_run_is_running(journal):
    taken = journal.take("h1")
    assert taken["status"] == "running"
    assert taken["started_ns"] > 0
    assert status_of(journal, taken["id"]) == "running"


def test_what_is_not_planned_is_not_taken(tmp_path):
    journal = Journal.create(tmp_path / "study-1", CAMPAIGN, [row(1, status="not-run"), row(2)])
    assert journal.take("h1")["ordinal"] == 2


def _take_all(folder, start, taken):
    journal = Journal(folder)
    start.wait()
    while (run := journal.take("h1")) is not None:
        taken.put(run["ordinal"])
    journal.close()


def test_two_processes_never_take_the_same_run(tmp_path):
    Journal.create(tmp_path / "study-1", CAMPAIGN, [row(n) for n in range(1, 41)]).close()
    context = multiprocessing.get_context("spawn")
    start, taken = context.Event(), context.Queue()
    workers = [context.Process(target=_take_all, args=(tmp_path / "study-1", start, taken)) for _ in range(2)]
    for worker in workers:
        worker.start()
    start.set()
    ordinals = sorted(taken.get(timeout=30) for _ in range(40))
    for worker in workers:
        worker.join(30)
    assert ordinals == list(range(1, 41))
    assert taken.empty()


# --- a status only worsens


@pytest.mark.parametrize("after", [one for one in FINISHED if one != Status.EXCLUDED])
def test_a_running_run_can_end_in_any_way(journal, after):
    run = journal.take("h1")["id"]
    journal.finish(run, after, "why", {})
    assert status_of(journal, run) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("failed", "ok"),
        ("failed", "partial"),
        ("partial", "ok"),
        ("lost", "ok"),
        ("not-run", "ok"),
        ("ok", "lost"),
    ],
)
def test_a_status_never_gets_better(journal, before, after):
    run = journal.take("h1")["id"]
    journal.finish(run, before, "why", {})
    with pytest.raises(ValueError, match="a status only worsens"):
        journal.finish(run, after, "", {})
    assert status_of(journal, run) == before


@pytest.mark.parametrize(("before", "after"), [("ok", "partial"), ("ok", "failed"), ("partial", "failed")])
def test_a_status_may_worsen(journal, before, after):
    run = journal.take("h1")["id"]
    journal.finish(run, before, "", {})
    journal.finish(run, after, "why", {})
    assert status_of(journal, run) == after


@pytest.mark.parametrize("status", ["planned", "running", "excluded"])
def test_a_running_run_ends_in_no_other_way(journal, status):
    run = journal.take("h1")["id"]
    with pytest.raises(ValueError, match=f"running cannot become {status}"):
        journal.finish(run, status, "", {}, Cause.ERROR)


def test_the_rules_name_every_status():
    assert set(ALLOWED) == set(Status)


def test_a_run_that_was_not_taken_cannot_end(journal):
    with pytest.raises(ValueError, match="planned cannot become ok"):
        journal.finish("study-1-0001", "ok", "", {})


# --- finishing is one transaction


def test_finish_stores_the_results_of_a_run(journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "ok", "", {"phase": [PHASE], "result": [RESULT]})
    assert journal.rows("phase", run) == [{"run": run, **PHASE}]
    assert journal.rows("result", run)[0]["joules"] == 1.5


def test_a_row_that_does_not_fit_leaves_no_trace_of_the_whole(journal):
    run = journal.take("h1")["id"]
    with pytest.raises(sqlite3.Error):
        journal.finish(run, "ok", "", {"result": [RESULT], "phase": [PHASE, PHASE]})
    assert status_of(journal, run) == "running"
    assert journal.rows("result", run) == []
    assert journal.rows("phase", run) == []


def test_a_refused_status_keeps_no_rows(journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "failed", "why", {})
    with pytest.raises(ValueError, match="only worsens"):
        journal.finish(run, "ok", "", {"phase": [PHASE]})
    assert journal.rows("phase", run) == []


# --- the disk equals the memory


def test_the_disk_has_each_event_as_it_happens(folder, journal):
    def on_disk():
        other = Journal(folder)
        try:
            return [(r["id"], r["status"], r["reason"]) for r in other.runs()], other.counts()
        finally:
            other.close()

    def in_memory():
        return [(r["id"], r["status"], r["reason"]) for r in journal.runs()], journal.counts()

    steps = [
        lambda: journal.take("h1"),
        lambda: journal.finish("study-1-0001", "ok", "", {"phase": [PHASE]}),
        lambda: journal.take("h2"),
        lambda: journal.finish("study-1-0002", "lost", "host gone", {}),
        lambda: journal.take("h1"),
        lambda: journal.give_back(),
        lambda: journal.note(None, {"what": "a note"}),
        lambda: journal.conclude(),
    ]
    seen = []
    for step in steps:
        step()
        assert on_disk() == in_memory()
        seen.append(on_disk()[1])
    assert seen[0] == {"planned": 4, "running": 1}
    assert seen[-1] == {"ok": 1, "planned": 4}


def test_events_are_kept_in_order(folder, journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "ok", "", {})
    journal.note(run, {"what": "odd"})
    journal.conclude()
    assert events(folder) == [
        (None, "created"),
        (run, "status"),
        (run, "status"),
        (run, "note"),
        (None, "finished"),
    ]


def test_status_events_say_from_what_to_what_and_why(folder, journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "partial", "meter tap1 is silent", {})
    with sqlite3.connect(folder / "journal.sqlite") as db:
        details = [
            json.loads(d)
            for (d,) in db.execute("SELECT detail FROM event WHERE event = 'status' ORDER BY seq")
        ]
    assert details[1] == {"from": "running", "to": "partial", "reason": "meter tap1 is silent"}


# --- resuming


def test_what_was_interrupted_or_lost_is_planned_again(journal):
    first = journal.take("h1")["id"]
    journal.finish(first, "ok", "", {})
    lost = journal.take("h1")["id"]
    journal.finish(lost, "lost", "host gone", {"phase": [PHASE]})
    running = journal.take("h2")["id"]
    assert sorted(journal.give_back()) == sorted([lost, running])
    assert status_of(journal, first) == "ok"
    assert status_of(journal, lost) == status_of(journal, running) == "planned"
    assert journal.rows("phase", lost) == []
    assert journal.take("h1")["id"] == lost


def test_failed_and_not_run_are_not_changed(journal):
    for status in ("failed", "not-run"):
        journal.finish(journal.take("h1")["id"], status, "why", {})
    assert journal.give_back() == []
    assert journal.counts() == {"failed": 1, "not-run": 1, "planned": 3}


def test_a_resumed_campaign_is_not_finished(journal):
    journal.finish(journal.take("h1")["id"], "lost", "host gone", {})
    journal.conclude()
    assert journal.campaign["finished_ns"] is not None
    journal.give_back()
    assert journal.campaign["finished_ns"] is None


def test_runs_are_not_taken_from_a_controller_that_is_at_work(folder, journal):
    run = journal.take("h1")["id"]
    with subprocess.Popen(["sleep", "60"]) as other:
        Journal(folder).claim(process.identity(other.pid))
        with pytest.raises(UserError, match=f"is executed by process {other.pid} of "):
            journal.give_back(executor=process.identity(os.getpid()))
        assert status_of(journal, run) == "running"
        other.kill()
    assert journal.give_back() == [run]


HERE, ELSEWHERE = process.identity(os.getpid()), f"oldbox {'f' * 16} {'0-' * 4}0 4026531836 17 9"
WRITES = {
    "take": lambda journal: journal.take("h1"),
    "take_block": lambda journal: journal.take_block("h1"),
    "finish": lambda journal: journal.finish("study-1-0001", "ok", "", {}),
    "settle": lambda journal: journal.settle("study-1-0001", "ok", "", {}),
    "note": lambda journal: journal.note(None, {}),
    "ask": lambda journal: journal.ask("stop"),
    "race_out": lambda journal: journal.race_out({}, []),
    "plan_again": lambda journal: journal.plan_again("study-1-0001", "retry"),
    "conclude": lambda journal: journal.conclude(),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_process_whose_campaign_was_taken_over_writes_nothing_more(folder, write):
    journal = Journal(folder, executor=ELSEWHERE)
    Journal(folder).claim(HERE)
    before = list(journal._db.iterdump())
    with pytest.raises(journals.TakenOverError, match="has taken it over; this one does nothing more"):
        WRITES[write](journal)
    assert list(journal._db.iterdump()) == before
    journal.close()


def test_a_campaign_that_is_taken_over_just_before_a_write_is_not_written(folder, monkeypatch):
    journal = Journal(folder)
    journal.claim(HERE)
    transaction = journals.transaction

    def after_the_other(db):
        monkeypatch.setattr(journals, "transaction", transaction)
        with sqlite3.connect(folder / "journal.sqlite") as other:
            other.execute("UPDATE campaign SET executor = ?", (ELSEWHERE,))
        return transaction(db)

    monkeypatch.setattr(journals, "transaction", after_the_other)
    with pytest.raises(journals.TakenOverError):
        journal.take("h1")
    journal.close()


KILLED = """
import sys
from pathlib import Path
from joulerig.rig.campaign.journal import Journal
journal = Journal(Path(sys.argv[1]))
print("ready", flush=True)
while (run := journal.take("h1")) is not None:
    journal.finish(run["id"], "ok", "", {"phase": [
        {"phase": str(n), "start_ns": n, "end_ns": n, "clock_offset_ns": 0, "clock_error_ns": 0} for n in range(20)]})
"""


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 10, 30])
def test_a_controller_killed_at_any_point_leaves_a_plan_that_goes_on(tmp_path, milliseconds):
    folder = tmp_path / "study-1"
    Journal.create(folder, CAMPAIGN, [row(n) for n in range(1, 401)]).close()
    controller = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)
    assert controller.stdout.readline() == b"ready\n"
    time.sleep(milliseconds / 1e3)
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    controller.stdout.close()

    journal = Journal(folder)
    before = journal.runs()
    assert [run["ordinal"] for run in before] == list(range(1, 401))
    done = [run["id"] for run in before if run["status"] == "ok"]
    assert [run["status"] for run in before[: len(done)]] == ["ok"] * len(done)
    assert sum(run["status"] == "running" for run in before) <= 1
    for run in before:
        assert len(journal.rows("phase", run["id"])) == (20 if run["status"] == "ok" else 0)
    journal.give_back()
    assert journal.counts().get("planned", 0) == 400 - len(done)
    if len(done) < 400:
        assert journal.take("h1")["ordinal"] == len(done) + 1


# --- finding campaigns


def make(results, name, created_ns):
    Journal.create(results / name, {**CAMPAIGN, "id": name, "created_ns": created_ns}, []).close()
    return results / name


def test_latest_goes_by_creation_not_by_name(tmp_path):
    newest = make(tmp_path, "aaa", 200)
    make(tmp_path, "zzz", 100)
    assert journals.latest(tmp_path) == newest
    assert journals.find(tmp_path, None) == newest


def test_latest_passes_over_a_campaign_of_another_version(tmp_path):
    readable = make(tmp_path, "old", 100)
    with sqlite3.connect(make(tmp_path, "newer", 200) / "journal.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    assert journals.latest(tmp_path) == readable


def test_latest_says_why_where_none_can_be_read(tmp_path):
    with sqlite3.connect(make(tmp_path, "newer", 200) / "journal.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="journal version 99"):
        journals.latest(tmp_path)


def test_no_campaign_yet(tmp_path):
    with pytest.raises(UserError, match="no campaign yet; 'rig run"):
        journals.latest(tmp_path)


def test_find_by_id(tmp_path):
    wanted = make(tmp_path, "one", 1)
    make(tmp_path, "two", 2)
    assert journals.find(tmp_path, "one") == wanted


def test_find_by_folder(tmp_path):
    wanted = make(tmp_path / "elsewhere", "one", 1)
    assert journals.find(tmp_path, str(wanted)) == wanted


def test_a_campaign_of_the_results_goes_before_a_folder_of_that_name(tmp_path, monkeypatch):
    wanted = make(tmp_path / "results", "one", 1)
    make(tmp_path, "one", 2)
    monkeypatch.chdir(tmp_path)
    assert journals.find(tmp_path / "results", "one") == wanted


def test_each_attempt_at_a_run_has_its_own_call(journal):
    names = []
    for _ in range(2):
        taken = journal.take("h1")
        names.append(journals.call_name(taken))
        journal.finish(taken["id"], "failed", "why", {})
        journal.retry([taken["id"]])
    assert names == ["study-1-0001.1", "study-1-0001.2"]


def test_find_an_unknown_one_names_those_that_there_are(tmp_path):
    make(tmp_path, "one", 1)
    with pytest.raises(UserError, match=r"no campaign 'six'; the newest: one"):
        journals.find(tmp_path, "six")


# --- large journals


def steps(journal, work):
    """Return how many hundreds of steps SQLite's machine takes for `work`."""
    count = 0

    def step():
        nonlocal count
        count += 1

    journal._db.set_progress_handler(step, 100)
    work()
    journal._db.set_progress_handler(None, 100)
    return count


def large(folder, ended=2999, runs=3000):
    """A journal of which so many runs have ended, each after an attempt."""
    rows = [row(ordinal, status="ok" if ordinal <= ended else "planned") for ordinal in range(1, runs + 1)]
    journal = Journal.create(folder, CAMPAIGN, rows)
    journal._db.execute(
        "INSERT INTO attempt (run, number, started_ns, ended_ns, status, reason)"
        " SELECT id, 1, 1, 2, status, '' FROM run WHERE status = 'ok'"
    )
    return journal


@pytest.mark.parametrize("ended", [0, 1500, 2999])
def test_a_hosts_next_run_is_found_without_looking_at_the_others(tmp_path, ended):
    journal = large(tmp_path / "study-1", ended)
    assert steps(journal, lambda: journal.take("h1")) < 10
    journal.close()


def test_an_earlier_journal_gets_the_index_when_its_campaign_is_executed(tmp_path):
    large(tmp_path / "study-1").close()
    with closing(sqlite3.connect(tmp_path / "study-1" / "journal.sqlite")) as database:
        for index in ("run_by_host", "open_attempt"):
            database.execute(f"DROP INDEX {index}")
    journal = Journal(tmp_path / "study-1")
    assert steps(journal, lambda: journal.next_block("h1")) > 10
    journal.claim(process.identity(os.getpid()))
    assert steps(journal, lambda: journal.take("h1")) < 10
    journal.close()


def test_a_run_is_read_by_its_id_and_runs_are_counted(journal):
    assert journal.run("study-1-0004") == journal.runs()[3]
    assert journal.size() == 5


def test_a_journal_that_comes_onto_a_shared_file_system_works_without_shared_memory(tmp_path, monkeypatch):
    folder = tmp_path / "study-1"
    Journal.create(folder, CAMPAIGN, [row(1)]).close()
    monkeypatch.setattr(journals.sqlite, "journal_mode", lambda folder: "DELETE")
    journal = Journal(folder)
    with closing(sqlite3.connect(folder / "journal.sqlite")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM run").fetchone()
        journal._db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(UserError, match="another process reads it"):
            journal.claim(process.identity(os.getpid()))
    journal.claim(process.identity(os.getpid()))
    assert journal._db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert [one["id"] for one in [journal.take("h1")]] == ["study-1-0001"]
    journal.close()
