# SPDX-License-Identifier: GPL-3.0-or-later
"""Journals of every earlier version: read with the same numbers, and upgraded."""

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.results import journal
from joulerig.analysis.results.schema import TABLES, Attempt
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process
from tests.support import ROOT

VERSIONS = (1, 2, 3, 4, 5)
FACTORS = {"drive": "fast", "filesystem": "ext4", "scheduler": "none", "workload": "seqwrite"}
ENERGY = {"joules": 4.5, "true_joules": 4.4, "samples": 9, "expected": 10, "lost": 1, "gap_seconds": 0.1}
RESULT = {
    "joules": 4.5, "true_joules": 4.4, "error_percent": 2.27, "mean_watts": 2.25, "ai_ops_per_joule": 1.5,
    "ai_mb_per_joule": 0.25, "joules_low": 4.0, "joules_high": 5.0, "device_bound_fraction": 0.75,
    "cpu_joules": 30.0, "corrected_joules": 4.6, "sampled_joules": 0.3,
}  # fmt: skip
PERFORMANCE = {
    "seconds": 2.0, "ops": 8, "read_bytes": 0, "write_bytes": 4096, "syncs": 8, "ops_per_second": 4.0,
    "mb_per_second": 0.002, "latency_p50_seconds": 0.1, "latency_p99_seconds": 0.2,
}  # fmt: skip
SINCE = {
    "joules_low": 2,
    "joules_high": 2,
    "device_bound_fraction": 3,
    "cpu_joules": 5,
    "corrected_joules": 11,
    "sampled_joules": 14,
}


def columns(path: Path) -> dict[str, list[tuple]]:
    with closing(sqlite3.connect(path)) as database:
        return {table: database.execute(f"PRAGMA table_info({table})").fetchall() for table in TABLES}


def indexes(path: Path) -> set[tuple]:
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index'")
        return {row for row in found if row[2]}


def insert(database: sqlite3.Connection, table: str, **row) -> None:
    marks = ", ".join("?" for _ in row)
    database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


@contextmanager
def former(folder: Path, version: int) -> Iterator[sqlite3.Connection]:
    """Make a journal of an earlier version, with its campaign; it is kept after the block."""
    with closing(sqlite3.connect(folder / journal.FILE)) as database, database:
        database.executescript((ROOT / "tests/fixtures/journals" / f"version_{version}.sql").read_text())
        insert(
            database, "campaign", id="study-1", name="study", question="Which?", created_ns=1,
            definition="{}", lab="{}", virtual=1, provenance="{}",
        )  # fmt: skip
        yield database


@pytest.fixture(params=VERSIONS)
def old(request, tmp_path):
    """A campaign of an earlier version: an ok run, an excluded one, and a refused one."""
    version, folder = request.param, tmp_path / "study-1"
    folder.mkdir()
    with former(folder, version) as database:
        ends = (("ok", ""), ("not-run", "excluded: known to hang"), ("not-run", "refused: fast: mounted"))
        for ordinal, (status, reason) in enumerate(ends, start=1):
            insert(
                database, "run", id=f"study-1-000{ordinal}", ordinal=ordinal, block=1, replicate=1, host="h1",
                **FACTORS, cell="fast/ext4/none/seqwrite", factors=json.dumps(FACTORS),
                status=status, reason=reason,
            )  # fmt: skip
        run = {"run": "study-1-0001"}
        clock = {"clock_offset_ns": 0, "clock_error_ns": 0}
        for number, phase in enumerate(("prepare", "precondition", "idle", "workload", "tail")):
            insert(database, "phase", **run, phase=phase, start_ns=number, end_ns=number + 1, **clock)
            insert(database, "energy", **run, phase=phase, meter="tap1", rail="12v", drive="fast", **ENERGY)
        insert(database, "performance", **run, **PERFORMANCE)
        known = {name: value for name, value in RESULT.items() if SINCE.get(name, 1) <= version}
        insert(database, "result", **run, **known)
        counted = {"reads": 1, "writes": 2, "flushes": 3}
        insert(database, "io", **run, source="host", **counted)
        note = {"precondition": "begun", "why": "never", "at_most_seconds": 1.0, "at_most_rounds": 8}
        for event, detail in (
            ("status", {"from": "running", "to": "ok"}),
            ("note", note),
            ("note", {"a": "b"}),
        ):
            insert(database, "event", time_ns=1, **run, event=event, detail=json.dumps(detail))
    return version, folder


def test_an_old_journal_is_read_with_the_same_numbers(old):
    version, folder = old
    run = results.load(folder).runs[0]
    assert vars(run.result) == {
        name: value if SINCE.get(name, 1) <= version else None for name, value in RESULT.items()
    }
    none = dict.fromkeys(("figure_name", "figure_unit", "figure", "figure_better"))
    assert vars(run.performance) == {**PERFORMANCE, "unit": "operation", **none}
    assert {name: vars(run.energy[3])[name] for name in ENERGY} == ENERGY
    assert (run.io["host"].writes, run.io["host"].fua_writes) == (2, None)


def test_an_old_journal_is_read_in_the_words_of_now(old):
    _, folder = old
    campaign = results.load(folder)
    assert [(run.status, run.reason) for run in campaign.runs] == [
        ("ok", ""),
        ("excluded", "known to hang"),
        ("not-run", "refused: fast: mounted"),
    ]
    run = campaign.runs[0]
    assert (
        list(run.phases)
        == [rail.phase for rail in run.energy]
        == ["prepare", "setup", "idle", "workload", "tail"]
    )
    assert campaign.tables["event"]["event"].to_list() == ["status", "preconditioning", "note"]


def test_reading_leaves_an_old_journal_unchanged(old):
    version, folder = old
    before = (folder / journal.FILE).read_bytes()
    results.load(folder)
    assert (folder / journal.FILE).read_bytes() == before
    with closing(sqlite3.connect(folder / journal.FILE)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (version,)


def test_opened_for_writing_an_old_journal_is_what_a_new_one_is_and_reads_the_same(old, tmp_path):
    _, folder = old
    before = results.load(folder)
    Journal(folder).close()
    with closing(sqlite3.connect(tmp_path / "new.sqlite")) as database:
        journal.create_tables(database)
    assert columns(folder / journal.FILE) == columns(tmp_path / "new.sqlite")
    assert indexes(folder / journal.FILE) == indexes(tmp_path / "new.sqlite") != set()
    after = results.load(folder)
    assert after.runs == before.runs
    assert all(after.tables[name].equals(table) for name, table in before.tables.items())
    with closing(sqlite3.connect(folder / journal.FILE)) as database:
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_upgraded_journal_goes_on_counting_its_events(old):
    _, folder = old
    with closing(Journal(folder)) as opened:
        opened.note(None, {"c": "d"})
    with closing(sqlite3.connect(folder / journal.FILE)) as database:
        assert database.execute("SELECT seq FROM event ORDER BY seq").fetchall() == [(1,), (2,), (3,), (4,)]


def test_a_campaign_of_version_6_is_one_of_measurements(tmp_path):
    with former(tmp_path, 6):
        pass
    assert results.load(tmp_path).kind == "measurement"
    Journal(tmp_path).close()
    assert "kind" in {column[1] for column in columns(tmp_path / journal.FILE)["campaign"]}


def test_a_run_of_version_7_that_began_has_an_attempt_and_one_that_was_cut_off_an_open_one(tmp_path):
    with former(tmp_path, 7) as database:
        ends = (("ok", 10, 20), ("running", 30, None), ("planned", None, None))
        for ordinal, (status, started, ended) in enumerate(ends, start=1):
            insert(
                database, "run", id=f"study-1-000{ordinal}", ordinal=ordinal, block=1, replicate=1, host="h1",
                **FACTORS, cell="fast/ext4/none/seqwrite", factors=json.dumps(FACTORS), status=status,
                reason="", started_ns=started, ended_ns=ended,
            )  # fmt: skip
    done, cut_off, planned = (run.attempts for run in results.load(tmp_path).runs)
    assert done == (Attempt(1, 10, 20, "ok", None, ""),)
    assert cut_off == (Attempt(1, 30, None, "running", None, ""),)
    assert planned == ()
    with closing(Journal(tmp_path)) as opened:
        assert opened.give_back(goes_on=True) == ["study-1-0002"]
        taken = opened.take("h1")
    assert (taken["id"], taken["attempt"], taken["begun"]) == ("study-1-0002", 1, True)


def test_a_journal_of_version_8_takes_the_kinds_of_event_that_came_since(tmp_path):
    with former(tmp_path, 8):
        pass
    with closing(Journal(tmp_path)) as opened:
        opened.set_aside("h1", "gone")
        assert opened.hosts_set_aside() == {"h1": "gone"}


def test_a_journal_of_version_9_says_nothing_of_samples_over_range_and_its_ledger_balances(tmp_path):
    with former(tmp_path, 9) as database:
        insert(
            database, "run", id="study-1-0001", ordinal=1, block=1, replicate=1, host="h1", **FACTORS,
            cell="fast/ext4/none/seqwrite", factors=json.dumps(FACTORS), status="ok", reason="",
        )  # fmt: skip
        insert(
            database, "energy", run="study-1-0001", phase="workload", meter="tap1", rail="12v", drive="fast",
            duplicate=0, repeated=0, **ENERGY,
        )  # fmt: skip
    rail = results.load(tmp_path).runs[0].energy[0]
    assert (rail.over_range, rail.unaccounted) == (None, 0)
    Journal(tmp_path).close()
    assert "over_range" in {column[1] for column in columns(tmp_path / journal.FILE)["energy"]}


def test_the_ai_of_a_journal_of_version_10_is_of_the_joules_as_measured(tmp_path):
    with former(tmp_path, 10) as database:
        insert(
            database, "run", id="study-1-0001", ordinal=1, block=1, replicate=1, host="h1", **FACTORS,
            cell="fast/ext4/none/seqwrite", factors=json.dumps(FACTORS), status="ok", reason="",
        )  # fmt: skip
        gaps = {"gap_low_joules": 0.1, "gap_high_joules": 0.3}
        insert(
            database, "energy", run="study-1-0001", phase="workload", meter="tap1", rail="12v", drive="fast",
            **ENERGY, **gaps,
        )  # fmt: skip
        known = {name: value for name, value in RESULT.items() if SINCE.get(name, 1) <= 10}
        insert(database, "result", run="study-1-0001", **known)
    Journal(tmp_path).close()
    (run,) = results.load(tmp_path).runs
    assert (run.result.corrected_joules, run.result.ai_joules) == (None, 4.5)
    assert CellRuns([run]).rails.gap_correction.tolist() == [0.0]
    assert run.energy[0].corrected_joules == 4.7


def test_the_phases_of_a_journal_of_version_11_were_not_slowed_down(tmp_path):
    with former(tmp_path, 11) as database:
        insert(
            database, "run", id="study-1-0001", ordinal=1, block=1, replicate=1, host="h1", **FACTORS,
            cell="fast/ext4/none/seqwrite", factors=json.dumps(FACTORS), status="ok", reason="",
        )  # fmt: skip
        insert(
            database, "phase", run="study-1-0001", phase="workload", start_ns=1, end_ns=2,
            clock_offset_ns=0, clock_error_ns=0,
        )  # fmt: skip
    assert results.load(tmp_path).runs[0].phases["workload"].slowness == 1.0


def test_the_ai_of_a_journal_of_version_13_is_corrected_by_half_of_what_is_known_of_v_times_i(tmp_path):
    with former(tmp_path, 13) as database:
        for run in ("study-1-0001", "study-1-0002"):
            insert(
                database, "run", id=run, ordinal=int(run[-1]), block=1, replicate=1, host="h1", **FACTORS,
                cell="fast/ext4/none/seqwrite", factors=json.dumps(FACTORS), status="ok", reason="",
            )  # fmt: skip
            known = {name: value for name, value in RESULT.items() if SINCE.get(name, 1) <= 13}
            insert(database, "result", run=run, **known)
        for phase in ("idle", "workload"):
            insert(
                database, "energy", run="study-1-0001", phase=phase, meter="tap1", rail="12v", drive="fast",
                **ENERGY, gap_low_joules=0.0, gap_high_joules=0.2, product_joules=0.46,
            )  # fmt: skip
    first, other = results.load(tmp_path).runs
    assert (other.result.corrected_joules, other.result.ai_ops_per_joule) == (4.6, 1.5)
    (rail,) = (rail for rail in first.energy if rail.phase == "workload")
    assert first.result.corrected_joules == pytest.approx(rail.corrected_joules) == pytest.approx(4.37)
    assert first.result.mean_watts == pytest.approx(2.25 * 0.95)
    assert first.result.ai_ops_per_joule == pytest.approx(1.5 / 0.95)
    assert first.result.ai_mb_per_joule == pytest.approx(0.25 / 0.95)
    assert (first.result.joules, first.result.joules_low) == (4.5, 4.0)


def test_a_campaign_of_version_12_is_claimed_whatever_process_executed_it(tmp_path):
    with former(tmp_path, 12) as database:
        database.execute("UPDATE campaign SET executor = 'oldbox boot-1 4711 9'")
    with closing(Journal(tmp_path)) as opened:
        opened.claim(process.identity(os.getpid()))
        assert opened.executor == process.identity(os.getpid())


def test_a_new_name_comes_with_a_version():
    """The constraints of a journal that is there know the names of its version alone."""
    made = "\n".join(map(journal.create_table, TABLES.values()))
    names = re.findall(r"CHECK \(\w+ IN \((.*?)\)\)", made)
    assert (journal.NAMES_SINCE, hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]) == (
        13,
        "f1564a3fa63d",
    ), (
        "a closed list of names changed: raise journal.NAMES_SINCE to one more than the version of the last"
        " release, keep the tables of that version in tests/fixtures/journals, and put both here"
    )
