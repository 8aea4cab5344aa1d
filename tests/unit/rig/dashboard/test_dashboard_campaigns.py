# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of campaigns, from journals as campaigns write them."""

from __future__ import annotations

import os

import pytest

from joulerig.rig.common import process
from joulerig.rig.dashboard.api import campaigns
from joulerig.rig.dashboard.api.campaigns import Campaigns
from tests.support.dashboard_journal import NAME, QUESTION, T0, WritableJournal

SECOND = 1_000_000_000


def only(journal: WritableJournal) -> dict:
    found = Campaigns(journal.folder.parent).list()
    assert found["problem"] == ""
    (one,) = found["campaigns"]
    return one


def test_a_campaign_that_is_planned(journal):
    journal.plan()
    one = only(journal)
    assert (one["id"], one["name"], one["question"], one["kind"]) == (NAME, "demo", QUESTION, "measurement")
    assert (one["state"], one["total"], one["counts"]["planned"], one["executed"]) == ("planned", 4, 4, False)
    assert (one["virtual"], one["created_ns"], one["finished_ns"]) == (True, T0, None)


def test_energy_and_bytes_are_unknown_and_not_nothing_where_no_run_has_any(journal):
    journal.plan()
    one = only(journal)
    assert (one["kwh"], one["kwh_missing"], one["written_bytes"]) == (None, 0, None)


def rail(journal, run, joules, phase="workload", rail="12v"):
    journal.insert(
        "energy", run=run, phase=phase, meter="tap1a", rail=rail, drive="nvme-plp", joules=joules,
        samples=10, expected=10, lost=0, gap_seconds=0.0,
    )  # fmt: skip


def test_kwh_are_of_all_rails_and_phases_and_what_is_missing_is_counted(journal):
    run = journal.plan()[0]
    rail(journal, run, 3.6e6)
    rail(journal, run, 1.8e6, phase="idle")
    rail(journal, run, None, rail="5v")
    one = only(journal)
    assert (one["kwh"], one["kwh_missing"]) == (pytest.approx(1.5), 1)


def io(journal, run, source, write_bytes):
    journal.insert("io", run=run, source=source, write_bytes=write_bytes)


def test_bytes_are_counted_once_by_the_block_layer_or_else_by_the_host(journal):
    runs = journal.plan()
    for source in ("iod", "host", "twin"):
        io(journal, runs[0], source, 1000)
    io(journal, runs[1], "host", 500)
    assert only(journal)["written_bytes"] == 1500


def test_the_process_that_executes_it_is_looked_for(journal):
    journal.plan()
    mine = process.identity(os.getpid())
    journal.database.execute("UPDATE campaign SET executor = ?, asked = 'pause'", (mine,))
    one = only(journal)
    assert (one["executed"], one["asked"]) == (True, "pause")
    assert "executor" not in one
    ended = mine.rpartition(" ")[0] + " 1"
    journal.database.execute("UPDATE campaign SET executor = ?", (ended,))
    assert only(journal)["executed"] is False


def test_campaigns_of_the_same_cells_and_phases_are_comparable(journal, results):
    journal.plan()
    again = WritableJournal(results, "demo-2", T0 + SECOND, name="other", question="again?")
    again.plan(replicates=3)
    longer = WritableJournal(results, "demo-3", T0 + 2 * SECOND, definition={"phases": {"idle_seconds": 9}})
    longer.plan()
    wider = WritableJournal(results, "demo-4", T0 + 3 * SECOND)
    wider.plan(filesystems=("ext4", "xfs", "f2fs"))
    found = {one["id"]: one["comparable"] for one in Campaigns(results).list()["campaigns"]}
    assert list(found) == ["demo-4", "demo-3", "demo-2", NAME]
    assert found[NAME] == found["demo-2"]
    assert len(set(found.values())) == 3
    for one in (again, longer, wider):
        one.close()


def test_a_journal_is_read_again_only_when_it_was_written_to(journal, monkeypatch):
    runs = journal.plan()
    read = []
    line = campaigns._line
    monkeypatch.setattr(campaigns, "_line", lambda path: read.append(path) or line(path))
    listed = Campaigns(journal.folder.parent)
    journal.age()
    assert listed.list()["campaigns"][0]["counts"]["running"] == 0
    listed.list()
    assert len(read) == 1
    journal.begin(runs[0], T0)
    assert listed.list()["campaigns"][0]["counts"]["running"] == 1
    assert len(read) == 2


def test_a_journal_that_cannot_be_read_is_named_and_hides_no_other(journal, results):
    (results / "broken").mkdir()
    (results / "broken" / "journal.sqlite").write_text("no database, for sure")
    found = Campaigns(results).list()
    assert [one["id"] for one in found["campaigns"]] == [NAME]
    assert "broken/journal.sqlite" in found["problem"]


def test_a_journal_of_version_1_is_listed(journal):
    journal.plan()
    journal.database.execute("PRAGMA user_version = 1")
    assert only(journal)["kind"] == "measurement"


def test_without_results_there_is_no_campaign(tmp_path):
    assert Campaigns(tmp_path / "none").list() == {"campaigns": [], "problem": ""}


def test_a_report_is_listed_once_it_is_there(journal):
    assert only(journal)["reports"] == []
    (journal.folder / "report").mkdir()
    (journal.folder / "report" / "report.html").write_text("<p>report</p>")
    assert [one["path"] for one in only(journal)["reports"]] == ["report/report.html"]
