# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page gets of a campaign, from journals as a campaign writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.analysis import results
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.results.schema import FINISHED
from joulerig.analysis.statistics.ranking import ONE_RUN
from joulerig.rig.dashboard.campaign import ai_table, state
from joulerig.rig.dashboard.campaign.journal import Journal, Journals
from tests.support.dashboard_journal import NAME, QUESTION, T0, WritableJournal

SECOND = 1_000_000_000


def state_message(journal: WritableJournal, now_ns: int = T0) -> dict:
    reader = Journal(journal.folder / "journal.sqlite")
    try:
        content = reader.read()
        assert content
        return state.campaign(content, now_ns)
    finally:
        reader.close()


def cell(message: dict, filesystem: str, scheduler: str) -> dict:
    return message["table"][0]["cells"][filesystem][scheduler]


def test_a_campaign_that_is_only_planned(journal: WritableJournal):
    journal.plan()
    message = state_message(journal)
    assert (message["name"], message["question"], message["virtual"]) == ("demo", QUESTION, True)
    assert (message["state"], message["done"], message["total"]) == ("planned", 0, 4)
    assert message["eta_ns"] is None
    assert message["hosts"] == [{"host": "vhost1", "done": 0, "total": 4, "run": None}]


def test_a_running_campaign_names_each_hosts_run(journal: WritableJournal):
    runs = journal.plan(hosts=("vhost1", "vhost2"), filesystems=("ext4",), schedulers=("none",))
    journal.begin(runs[0], T0 + SECOND)
    message = state_message(journal)
    assert message["state"] == "running"
    first, second = message["hosts"]
    assert first["run"]["id"] == runs[0]
    assert first["run"]["cell"] == "nvme-plp/ext4/none/randwrite-fsync"
    assert second["run"] is None


def test_every_status_is_counted_and_its_reason_reported(journal: WritableJournal):
    runs = journal.plan(replicates=2)
    for run, status in zip(runs, FINISHED, strict=False):
        journal.end(run, T0, status, "" if status == "ok" else f"because {status}")
    message = state_message(journal)
    assert (message["done"], message["total"], message["state"]) == (7, 8, "between runs")
    assert message["counts"] == {
        "running": 0,
        "planned": 1,
        "ok": 1,
        "partial": 1,
        "failed": 1,
        "lost": 1,
        "refused": 1,
        "not-run": 1,
        "excluded": 1,
    }
    assert [run["reason"] for run in message["runs"][1:3]] == ["because partial", "because failed"]


def test_time_left_is_shown_as_a_time_of_day(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4",))
    journal.begin(runs[0], T0)
    journal.end(runs[0], T0 + 30 * SECOND)
    assert state_message(journal, T0 + 31 * SECOND)["eta_ns"] == T0 + 61 * SECOND


def test_a_finished_campaign(journal: WritableJournal):
    for run in journal.plan():
        journal.end(run, T0)
    journal.finish(T0 + SECOND)
    message = state_message(journal)
    assert (message["state"], message["finished_ns"]) == ("finished", T0 + SECOND)


def test_a_cell_is_all_its_work_over_all_its_joules(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4",), schedulers=("none",), replicates=2)
    journal.end(runs[0], T0, ops=1000, joules=10.0)
    journal.end(runs[1], T0, ops=3000, joules=20.0)
    figure = cell(state_message(journal), "ext4", "none")["ops"]
    assert figure["mean"] == pytest.approx(4000 / 30)
    assert (figure["low"], figure["high"], figure["n"]) == (100.0, 150.0, 2)


def test_a_cell_has_the_interval_of_its_energy_where_all_its_runs_do(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4", "xfs"), schedulers=("none",), replicates=2)
    for run in runs:
        bounds = {"joules_low": 9.5, "joules_high": 10.5} if run != runs[3] else {}
        journal.end(run, T0, ops=1000, joules=10.0, **bounds)
    table = state_message(journal)
    figure = cell(table, "ext4", "none")["ops"]
    assert figure["energy_low"] == pytest.approx(2000 / 21)
    assert figure["energy_high"] == pytest.approx(2000 / 19)
    assert "energy_low" not in cell(table, "xfs", "none")["ops"]


def test_a_journal_of_version_1_is_shown_without_intervals(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4",), schedulers=("none",))
    journal.end(runs[0], T0, ops=1000, joules=10.0)
    for column in ("joules_low", "joules_high"):
        journal.database.execute(f"ALTER TABLE result DROP COLUMN {column}")
    journal.database.execute("PRAGMA user_version = 1")
    figure = cell(state_message(journal), "ext4", "none")["ops"]
    assert figure["mean"] == 100.0
    assert "energy_low" not in figure


def test_marks_are_those_of_the_reports_own_ranking(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4", "f2fs", "xfs"), schedulers=("none",), replicates=3)
    ops = (500, 1000, 970, 520, 940, 980, 510, 960, 990)
    for run, count in zip(runs, ops, strict=True):
        journal.end(run, T0, ops=count, joules=10.0)
    message = state_message(journal)
    marks = {name: cell(message, name, "none")["ops"]["mark"] for name in ("ext4", "f2fs", "xfs")}
    assert marks == {"ext4": "", "f2fs": "open", "xfs": "open"}
    campaign = results.load(journal.folder)
    (one,) = comparison.compare_cells(campaign)
    assert {name.split("/")[1] for name in one.ranking.contenders} == {"f2fs", "xfs"}
    assert cell(message, "xfs", "none")["ops"]["share"] == 1
    assert cell(message, "ext4", "none")["ops"]["share"] == pytest.approx(1530 / 2940)
    assert message["table"][0]["untested"] == ""


def test_one_run_a_cell_marks_nothing_and_says_so(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4", "f2fs"), schedulers=("none",), replicates=2)
    for run, count in zip(runs[:2], (500, 1000), strict=True):
        journal.end(run, T0, ops=count, joules=10.0)
    message = state_message(journal)
    for metric in ("ops", "mb"):
        assert {cell(message, name, "none")[metric]["mark"] for name in ("ext4", "f2fs")} == {""}
    assert message["table"][0]["untested"] == ONE_RUN


def test_a_cell_that_is_better_than_every_other_is_the_best(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4", "f2fs"), schedulers=("none",), replicates=5)
    ops = (500, 1000, 520, 1010, 510, 990, 500, 1010, 490, 1000)
    for run, count in zip(runs, ops, strict=True):
        journal.end(run, T0, ops=count, joules=10.0)
    message = state_message(journal)
    for metric in ("ops", "mb"):
        assert cell(message, "f2fs", "none")[metric]["mark"] == "best"
        assert cell(message, "ext4", "none")[metric]["mark"] == ""


def test_a_partial_run_without_joules_is_flagged_and_gives_no_figure(journal: WritableJournal):
    runs = journal.plan()
    journal.end(runs[0], T0, "partial", "meter tap1a fell silent", ops=1000, joules=None)
    shown = cell(state_message(journal), "ext4", "none")
    assert shown["partial"] == 1
    assert "ops" not in shown


def test_a_partial_run_counts_for_nothing_among_complete_ones(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4",), schedulers=("none",), replicates=2)
    journal.end(runs[0], T0, "partial", "a gap", ops=9000, joules=10.0)
    assert cell(state_message(journal), "ext4", "none")["ops"]["n"] == 0
    assert cell(state_message(journal), "ext4", "none")["ops"]["mark"] == ""
    journal.end(runs[1], T0, ops=1000, joules=10.0)
    figure = cell(state_message(journal), "ext4", "none")["ops"]
    assert (figure["mean"], figure["n"], figure["mark"]) == (100.0, 1, "")


def test_a_further_factor_has_its_own_block(journal: WritableJournal):
    journal.plan(kernel="6.1")
    block = state_message(journal)["table"][0]
    assert block["factors"] == {"kernel": "6.1"}
    assert (block["filesystems"], block["schedulers"]) == (["ext4", "xfs"], ["bfq", "none"])


def test_members_of_arrays_are_named_so_that_their_rails_show_the_runs_phases(journal: WritableJournal):
    journal.plan()
    assert state_message(journal)["arrays"] == {"vhost1": {"hdd-array": ["hdd-1", "hdd-2", "hdd-3"]}}


def test_a_reader_sees_that_the_journal_changed_and_never_keeps_the_writer_out(journal: WritableJournal):
    runs = journal.plan()
    reader = Journal(journal.folder / "journal.sqlite")
    assert reader.changed()
    assert not reader.changed()
    reader.read()
    journal.begin(runs[0], T0)
    assert reader.changed()
    reader.close()


def test_cells_are_compared_again_only_when_a_run_has_ended(journal: WritableJournal, monkeypatch):
    compared = []
    compare = ai_table.standing
    monkeypatch.setattr(ai_table, "standing", lambda read: compared.append(read) or compare(read))
    runs = journal.plan()
    reader = Journal(journal.folder / "journal.sqlite")
    before = reader.read()
    journal.begin(runs[0], T0)
    after = reader.read()
    assert len(compared) == 1
    assert after["standing"] == before["standing"]
    journal.end(runs[0], T0 + SECOND, ops=100, joules=4.0)
    reader.read()
    assert len(compared) == 2
    reader.close()


def test_a_journal_whose_writer_is_gone_can_be_read(journal: WritableJournal):
    journal.plan()
    journal.close()
    assert state_message(journal)["total"] == 4


def test_campaigns_are_listed_newest_first_whatever_their_names(results: Path, journal: WritableJournal):
    later = WritableJournal(results, "a-20261114-120000", T0 + SECOND)
    (results / "bench").mkdir()
    assert Journals(results).list() == ["a-20261114-120000", NAME]
    later.close()


def test_a_file_that_is_not_a_journal_is_named_and_the_others_are_listed(
    results: Path, journal: WritableJournal
):
    (results / "broken").mkdir()
    (results / "broken" / "journal.sqlite").write_text(
        "not a database, but long enough to be taken for one" * 20
    )
    journals = Journals(results)
    assert journals.list() == [NAME]
    assert "broken/journal.sqlite" in journals.problem


def test_ok_runs_without_joules_show_their_rate(journal: WritableJournal):
    runs = journal.plan(filesystems=("ext4",), schedulers=("none",), replicates=2)
    journal.end(runs[0], T0, ops=1000)
    journal.end(runs[1], T0, ops=3000)
    message = state_message(journal)
    found = cell(message, "ext4", "none")
    assert "ops" not in found
    assert (found["unmetered"]["n"], found["unmetered"]["ops"]) == (2, 200.0)
    assert [run["ops_per_second"] for run in message["runs"]] == [100.0, 300.0]


@pytest.mark.parametrize("joules", [None, 50.0])
def test_of_a_load_whose_bytes_are_not_known_only_operations_are_shown(journal: WritableJournal, joules):
    [run] = journal.plan(filesystems=("ext4",), schedulers=("none",))
    journal.end(run, T0, ops=1000, joules=joules)
    journal.database.execute(
        "UPDATE performance SET read_bytes = NULL, write_bytes = NULL, mb_per_second = NULL"
    )
    found = cell(state_message(journal), "ext4", "none")
    assert (found if joules else found["unmetered"])["ops"]
    assert "mb" not in (found if joules else found["unmetered"])


def test_a_partial_run_without_joules_is_not_taken_for_one_on_a_drive_without_rails(journal: WritableJournal):
    [run] = journal.plan(filesystems=("ext4",), schedulers=("none",))
    journal.end(run, T0, "partial", "meter tap1 is silent", 1000)
    assert "unmetered" not in cell(state_message(journal), "ext4", "none")


# --- drives side by side


@pytest.fixture
def lanes(tmp_path: Path) -> Iterator[WritableJournal]:
    journal = WritableJournal(tmp_path, NAME, T0, definition={"side_by_side": True})
    yield journal
    journal.close()


def test_each_drive_of_a_host_is_shown_with_the_run_that_it_is_in(lanes: WritableJournal):
    runs = lanes.plan(drives=("hdd-1", "nvme-plp"), filesystems=("ext4",), schedulers=("none", "bfq"))
    lanes.begin(runs[0], T0 + SECOND)
    lanes.begin(runs[2], T0 + 2 * SECOND)
    first, second = state_message(lanes)["hosts"]
    assert (first["host"], first["run"]["id"], first["total"]) == ("vhost1 hdd-1", runs[0], 2)
    assert (second["host"], second["run"]["id"], second["total"]) == ("vhost1 nvme-plp", runs[2], 2)


def test_what_is_left_is_that_of_the_slowest_drive_and_of_the_runs_that_are_alone(lanes: WritableJournal):
    runs = lanes.plan(drives=("hdd-1", "nvme-plp"), filesystems=("ext4",), replicates=2)
    lanes.begin(runs[0], T0)
    lanes.end(runs[0], T0 + 100 * SECOND, ops=10, joules=1.0)
    left = state_message(lanes, T0 + 100 * SECOND)["eta_ns"] - T0 - 100 * SECOND
    assert left == 4 * 100 * SECOND
    lanes.database.execute(
        "UPDATE run SET factors = json_set(factors, '$.control', 'alone') WHERE id = ?", (runs[3],)
    )
    left = state_message(lanes, T0 + 100 * SECOND)["eta_ns"] - T0 - 100 * SECOND
    assert left == (3 + 1) * 100 * SECOND


def test_the_table_of_ai_has_no_control_runs(lanes: WritableJournal):
    lanes.plan(filesystems=("ext4",), schedulers=("none",), control="alone")
    assert state_message(lanes)["table"] == []
