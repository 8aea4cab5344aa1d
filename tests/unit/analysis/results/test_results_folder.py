# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a results folder: whole, while it grows, and when it is not one."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from joulerig.analysis import results
from joulerig.analysis.results.campaign import RAIL_AMOUNTS, LoadAmounts, ResultsError
from joulerig.analysis.results.journal import VERSION
from joulerig.analysis.results.schema import TABLES
from tests.support import ROOT, simulated_campaign
from tests.support.simulated_campaign import Outcome

REPOSITORY = ROOT


def one_line(error: pytest.ExceptionInfo[ResultsError], *parts: str) -> None:
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_a_campaign_comes_back_as_it_was_written(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", replicates=2)
    campaign = results.load(folder)
    assert (campaign.name, campaign.virtual, len(campaign.runs)) == ("demo", True, 36)
    assert [run.ordinal for run in campaign.runs] == list(range(1, 37))
    run = campaign.runs[0]
    assert list(run.phases) == ["prepare", "setup", "idle", "workload", "tail"]
    assert run.phases["workload"].seconds == 10.0
    assert run.cell == f"{run.drive}/{run.filesystem}/{run.scheduler}/{run.workload}"
    assert run.result.ai_ops_per_joule == run.performance.ops / run.result.ai_joules
    assert {rail.phase for rail in run.energy} == set(run.phases)
    assert run.io["iod"].write_bytes == run.io["twin"].write_bytes
    assert run.settings["scheduler"]["in_effect"] == run.scheduler
    assert all(len(runs) == 2 for runs in campaign.cells().values())


def test_the_journals_tables_come_as_frames_too(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c"))
    assert campaign.tables["run"].height == 18
    assert campaign.tables["energy"].height == 18 * 5
    assert campaign.tables["event"]["event"].to_list() == ["created"]


def test_parts_that_a_run_did_not_come_to_are_none(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", outcome=lambda _: Outcome("failed", "mkfs: exit code 1")
    )
    run = results.load(folder).runs[0]
    assert (run.performance, run.result, run.energy, run.io) == (None, None, (), {})
    assert list(run.phases) == ["prepare"]
    assert run.reason == "mkfs: exit code 1"


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Outcome(), True),
        (Outcome("partial", "meter", joules=False), False),
        (Outcome("partial", "late"), False),
    ],
)
def test_a_run_counts_where_it_is_ok_and_has_joules(tmp_path, outcome, counts):
    folder = simulated_campaign.build(tmp_path / "c", outcome=lambda _: outcome)
    assert {run.counts for run in results.load(folder).runs} == {counts}


def test_joules_of_zero_do_not_count(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    edit(folder, "UPDATE result SET joules = 0, corrected_joules = 0")
    assert {run.counts for run in results.load(folder).runs} == {False}


def test_reading_changes_nothing_in_the_folder(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    before = (folder / "journal.sqlite").read_bytes()
    results.load(folder)
    assert (folder / "journal.sqlite").read_bytes() == before


def test_a_campaign_that_is_being_written_is_read_as_of_its_last_transaction(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    writer = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    writer.execute("UPDATE run SET status = 'failed', reason = 'committed' WHERE ordinal = 1")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE run SET status = 'lost', reason = 'not committed' WHERE ordinal = 2")
    first, second = results.load(folder).runs[:2]
    writer.close()
    assert (first.status, second.status) == ("failed", "ok")


def test_what_is_read_later_is_of_the_instant_of_the_first_reading(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    whole, campaign = results.load(folder), results.load(folder)
    parts = ("phases", "energy", "io", "attempts")
    before = [[getattr(run, part) for part in parts] for run in whole.runs]
    events = whole.tables["event"]
    with sqlite3.connect(folder / "journal.sqlite") as database:
        for table in ("phase", "energy", "io", "attempt", "event"):
            database.execute(f"DELETE FROM {table}")
    assert [[getattr(run, part) for part in parts] for run in campaign.runs] == before
    assert campaign.tables["event"].equals(events)
    emptied = results.load(folder)
    assert (emptied.runs[0].io, emptied.tables["event"].height) == ({}, 0)


def test_a_campaign_that_was_read_keeps_no_lock(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    campaign = results.load(folder)
    with sqlite3.connect(folder / "journal.sqlite", timeout=0) as database:
        assert database.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    assert campaign.runs[0].io


def test_amounts_of_a_load_are_those_of_the_runs_parts(tmp_path):
    """As they are read at once, and as they follow from a run that was made from another one."""
    folder = simulated_campaign.build(
        tmp_path / "c",
        outcome=lambda row: Outcome("failed", "mkfs") if row["ordinal"] == 1 else Outcome(),
    )
    for run in results.load(folder).runs:
        copied = dataclasses.replace(run, reason="copied")
        assert dataclasses.replace(copied, reason=run.reason) == run
        assert (copied.load_amounts, copied.rail_amounts) == (run.load_amounts, run.rail_amounts)
        if run.ordinal == 1:
            assert run.load_amounts == LoadAmounts(None, None, None, None, False, None, 0)
            assert run.rail_amounts == ()
            continue
        performance, phase = run.performance, run.phases["workload"]
        assert run.load_amounts == (
            performance.ops, performance.seconds, performance.bytes_moved, run.result.ai_joules, True,
            phase.seconds, phase.start_ns,
        )  # fmt: skip
        (rail,) = (rail for rail in run.energy if rail.phase == "workload")
        assert run.rail_amounts == (tuple(getattr(rail, name) for name in RAIL_AMOUNTS),)


def test_a_run_with_another_result_has_other_amounts(tmp_path):
    run = results.load(simulated_campaign.build(tmp_path / "c")).runs[0]
    result = dataclasses.replace(run.result, joules=7.0, corrected_joules=None)
    other = dataclasses.replace(run, result=result, energy=(), phases={})
    assert (other.load_amounts.joules, other.load_amounts.corrected) == (7.0, False)
    assert (other.load_amounts.phase_seconds, other.rail_amounts) == (None, ())
    assert not dataclasses.replace(other, result=None).counts


def test_a_table_that_cannot_be_read_later_is_reported_on_one_line(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c", drives=("nvme-plp",))
    journal = folder / "journal.sqlite"
    with sqlite3.connect(journal) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'io'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    database.close()
    with journal.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    run = results.load(folder).runs[0]
    with pytest.raises(ResultsError) as error:
        run.io  # noqa: B018
    one_line(error, "journal.sqlite: cannot be read as a journal: ")


def test_a_path_with_characters_that_mean_something_in_a_uri(tmp_path):
    folder = simulated_campaign.build(tmp_path / "what? 100% #1 größe")
    assert len(results.load(folder).runs) == 18


def test_an_archive_that_cannot_be_written_is_read():
    # Permissions do not hold root back, so an ordinary user reads, in a child; not below tmp_path,
    # as pytest's folders are closed to others.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = simulated_campaign.build(Path(name) / "c")
        edit(folder, "PRAGMA wal_checkpoint(TRUNCATE)")
        for leftover in folder.glob("journal.sqlite-*"):
            leftover.unlink()
        (folder / "journal.sqlite").chmod(0o444)
        folder.chmod(0o555)
        code = (
            "import os, sys\n"
            "from joulerig.analysis import results\n"
            "os.geteuid() == 0 and os.setresuid(65534, 65534, 65534)\n"
            "assert not os.access(sys.argv[1], os.W_OK)\n"
            "print(len(results.load(sys.argv[1]).runs))\n"
        )
        command = [sys.executable, "-c", code, folder]
        child = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
        folder.chmod(0o755)
    assert (child.stdout.strip(), child.stderr) == ("18", "")


def edit(folder: Path, *statements: str) -> None:
    database = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    for statement in statements:
        database.execute(statement).fetchall()
    database.close()


def test_no_folder(tmp_path):
    with pytest.raises(ResultsError) as error:
        results.load(tmp_path / "none")
    one_line(error, str(tmp_path / "none"), "no such folder")


def test_a_folder_without_a_journal(tmp_path):
    with pytest.raises(ResultsError) as error:
        results.load(tmp_path)
    one_line(error, str(tmp_path), "no journal.sqlite in it")
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_not_sqlite(tmp_path):
    (tmp_path / "journal.sqlite").write_bytes(b"not a database, but long enough to look at " * 40)
    with pytest.raises(ResultsError) as error:
        results.load(tmp_path)
    one_line(error, str(tmp_path / "journal.sqlite"), "file is not a database")


def test_a_foreign_database(tmp_path):
    database = sqlite3.connect(tmp_path / "journal.sqlite")
    database.execute("CREATE TABLE music (title TEXT)")
    database.close()
    with pytest.raises(ResultsError) as error:
        results.load(tmp_path)
    one_line(error, "not a journal of a campaign", "'campaign'")


def test_a_journal_of_a_newer_version(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    edit(folder, "PRAGMA user_version = 99")
    with pytest.raises(ResultsError) as error:
        results.load(folder)
    one_line(error, "journal version 99", f"reads {VERSION}", "newer")


def test_a_journal_without_a_campaign(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    edit(folder, "DELETE FROM campaign")
    with pytest.raises(ResultsError) as error:
        results.load(folder)
    one_line(error, "holds no campaign")


def test_a_column_that_is_not_the_json_it_should_be(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    edit(folder, "UPDATE campaign SET lab = '{'")
    with pytest.raises(ResultsError) as error:
        results.load(folder)
    one_line(error, "journal.sqlite", "JSON")


def test_damaged_settings_are_named(tmp_path):
    run = results.load(simulated_campaign.build(tmp_path / "c")).runs[3]
    (run.folder / "settings.json").write_text("{")
    with pytest.raises(ResultsError) as error:
        _ = run.settings
    one_line(error, str(run.folder / "settings.json"), "JSON")


def test_a_run_without_settings_has_none(tmp_path):
    run = results.load(simulated_campaign.build(tmp_path / "c")).runs[3]
    (run.folder / "settings.json").unlink()
    assert run.settings == {}


def test_the_factors_of_a_run_come_as_a_mapping(tmp_path):
    run = results.load(simulated_campaign.build(tmp_path / "c")).runs[0]
    assert run.factors == json.loads(json.dumps(run.factors))
    assert run.factors["filesystem"] == run.filesystem


def test_a_journal_of_version_1_is_read_unchanged_and_has_no_bounds(tmp_path):
    folder = simulated_campaign.build(tmp_path / "c")
    with sqlite3.connect(folder / "journal.sqlite") as database:
        for table in ("energy", "result"):
            for name, one in TABLES[table].columns.items():
                if one.since > 1:
                    database.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        database.execute("PRAGMA user_version = 1")
    campaign = results.load(folder)
    run = campaign.runs[0]
    assert run.result.joules > 0
    assert (run.result.joules_low, run.result.truth_within) == (None, None)
    assert (run.energy[0].joules_high, run.energy[0].unaccounted) == (None, None)
    with sqlite3.connect(folder / "journal.sqlite") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)  # reading changes nothing


def test_low_high_and_ledger_of_a_rail_are_read(tmp_path):
    run = results.load(simulated_campaign.build(tmp_path / "c")).runs[0]
    rail = next(rail for rail in run.energy if rail.phase == "workload")
    assert rail.joules_low < rail.joules < rail.joules_high
    assert rail.unaccounted == 0
    assert rail.budget.meter is None
    assert rail.budget.shares()["alignment"] > 0.5
    assert run.result.truth_within in (True, False)


def test_the_revision_that_ran_is_found_as_the_engine_records_it(tmp_path):
    campaign = results.load(simulated_campaign.build(tmp_path / "c"))
    recorded = {"controller": {"revision": "6f1c2d3e4a5b-dirty", "python": "3.11.2"}}
    assert dataclasses.replace(campaign, provenance=recorded).revision == "6f1c2d3e4a5b-dirty"
    assert dataclasses.replace(campaign, provenance={"controller": {"revision": None}}).revision is None
