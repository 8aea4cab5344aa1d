# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold, end and complete campaigns, for whatever asks for it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.analysis.results.schema import Asked
from joulerig.rig.campaign import control, origin
from joulerig.rig.campaign.control import detached
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from tests.support.dashboard_journal import WritableJournal

NAME = "demo-20261113-120000"
T0 = 1_794_600_000_000_000_000


@pytest.fixture
def written(tmp_path: Path) -> Iterator[WritableJournal]:
    written = WritableJournal(tmp_path, NAME, T0, virtual=False)
    written.plan()
    yield written
    written.close()


@pytest.fixture
def journal(written: WritableJournal) -> Iterator[Journal]:
    journal = Journal(written.folder)
    yield journal
    journal.close()


def executed(written: WritableJournal) -> None:
    written.database.execute("UPDATE campaign SET executor = ?", (process.identity(os.getpid()),))


def events(written: WritableJournal, kind: str) -> list[dict]:
    rows = written.database.execute("SELECT detail FROM event WHERE event = ? ORDER BY seq", (kind,))
    return [json.loads(row[0]) for row in rows]


def test_a_campaign_is_paused_goes_on_and_is_stopped(written, journal):
    executed(written)
    assert control.pause(journal) == "is paused after what runs now"
    assert journal.asked == Asked.PAUSE
    assert control.go_on(journal, "the dashboard") == "goes on"
    assert journal.asked is None
    assert control.stop(journal, "the dashboard") == "stops after what runs now"
    assert journal.asked == Asked.STOP
    assert events(written, "asked") == [
        {"to": "pause"}, {"to": "go on", "by": "the dashboard"}, {"to": "stop", "by": "the dashboard"},
    ]  # fmt: skip


@pytest.mark.parametrize("do", [control.pause, control.go_on, control.stop])
def test_what_no_process_executes_cannot_be_held(written, journal, do):
    with pytest.raises(
        UserError, match=f"is not being executed; 'rig run PLAYBOOK --resume {NAME}' goes on with it"
    ):
        do(journal)
    assert events(written, "asked") == []


def failed(written: WritableJournal) -> str:
    run = f"{NAME}-0001"
    written.insert(
        "attempt", run=run, number=1, started_ns=T0, ended_ns=T0 + 1, status="failed", cause="error"
    )
    written.end(run, T0 + 1, "failed", "exit code 1")
    return run


def test_a_run_is_planned_again_and_the_journal_has_by_what(written, journal):
    run = failed(written)
    assert control.retry(journal, runs=["1"], by="the dashboard") == [run]
    assert journal.run(run)["status"] == "planned"
    assert events(written, "resumed") == [{"was": "failed", "by": "the dashboard"}]


def test_a_run_of_a_campaign_that_is_executed_is_not(written, journal):
    run = failed(written)
    executed(written)
    with pytest.raises(UserError, match="is executed by process"):
        control.retry(journal, runs=[run])
    assert journal.run(run)["status"] == "failed"


def opened_here(journal, tmp_path, monkeypatch, name="mine.yml"):
    """Record that this controller opened the campaign, by a playbook; return that."""
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    playbook = tmp_path / name
    origin.record(journal, playbook)
    return playbook


def test_a_campaign_is_resumed_by_the_command_that_a_person_types(journal, tmp_path, monkeypatch):
    playbook = opened_here(journal, tmp_path, monkeypatch)
    playbook.write_text("---\n")
    assert detached.command(journal, paths.var())[1:] == [
        "-m", "joulerig.rig.cli.main", "run", str(playbook), "--resume", NAME,
    ]  # fmt: skip


def test_a_campaign_whose_playbook_is_gone_says_so(journal, tmp_path, monkeypatch):
    opened_here(journal, tmp_path, monkeypatch, "gone.yml")
    with pytest.raises(
        UserError, match=f"{NAME}: its playbook .*gone.yml is gone; 'rig run PLAYBOOK --resume {NAME}'"
    ):
        detached.command(journal, paths.var())


@pytest.mark.parametrize("difference", ["never opened", "copied", "another of its id"])
def test_a_campaign_that_was_opened_elsewhere_is_resumed_by_no_button(
    written, journal, tmp_path, monkeypatch, difference
):
    """Whichever playbook its folder names: another person may have written that."""
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    evil = written.folder / "evil.yml"
    evil.write_text("---\n")
    if difference != "never opened":
        origin.record(journal, evil)
    written.database.execute("UPDATE campaign SET provenance = ?", (json.dumps({"playbook": str(evil)}),))
    if difference == "another of its id":
        written.database.execute("UPDATE campaign SET created_ns = created_ns + 1")
    if difference == "copied":
        shutil.copytree(written.folder, tmp_path / "elsewhere" / NAME)
        journal = Journal(tmp_path / "elsewhere" / NAME)
    with pytest.raises(UserError, match=f"^{NAME}: this controller did not open it; 'rig run PLAYBOOK"):
        detached.command(journal, paths.var())


def test_what_resumes_it_has_its_own_session_and_environment(tmp_path):
    show = "import os; print(os.getsid(0) == os.getpid(), os.environ['JOULERIG_VAR'])"
    log = tmp_path / "log" / "resumed.log"
    started = detached.start([sys.executable, "-c", show], log, {"JOULERIG_VAR": "/somewhere"})
    assert started.wait(60) == 0
    assert log.read_text() == "True /somewhere\n"
