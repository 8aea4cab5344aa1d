# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold, end and complete campaigns, for whatever asks for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.analysis.results.schema import Asked
from joulerig.rig.campaign import control
from joulerig.rig.campaign.control import detached
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process
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
    with pytest.raises(UserError, match="is not being executed; 'rig run --resume' goes on with it"):
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


def test_a_campaign_is_resumed_by_the_command_that_a_person_types(written, journal, tmp_path):
    playbook = tmp_path / "mine.yml"
    playbook.write_text("---\n")
    written.database.execute("UPDATE campaign SET provenance = ?", (json.dumps({"playbook": str(playbook)}),))
    assert detached.command(journal)[1:] == [
        "-m", "joulerig.rig.cli.main", "run", str(playbook), "--resume", NAME,
    ]  # fmt: skip


@pytest.mark.parametrize("provenance", [{}, {"playbook": "playbooks/gone.yml"}])
def test_a_campaign_whose_playbook_is_gone_says_so(written, journal, provenance):
    written.database.execute("UPDATE campaign SET provenance = ?", (json.dumps(provenance),))
    with pytest.raises(
        UserError, match=f"{NAME}: its playbook .* is gone; 'rig run PLAYBOOK --resume {NAME}'"
    ):
        detached.command(journal)


def test_what_resumes_it_has_its_own_session_and_environment(tmp_path):
    show = "import os; print(os.getsid(0) == os.getpid(), os.environ['JOULERIG_VAR'])"
    log = tmp_path / "log" / "resumed.log"
    started = detached.start([sys.executable, "-c", show], log, {"JOULERIG_VAR": "/somewhere"})
    assert started.wait(60) == 0
    assert log.read_text() == "True /somewhere\n"
