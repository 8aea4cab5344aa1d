# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig retry`: which runs are attempted again, and what stays of the earlier attempts."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.analysis.results.schema import Cause
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.policies.retry import choose
from joulerig.rig.cli import run as command
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from tests.support.planned_runs import CAMPAIGN, row

ENDS = [
    ("ok", "", None),
    ("failed", "fio: no space", None),
    ("refused", "fast: mounted", None),
    ("not-run", "another run is in progress", Cause.BUSY),
    ("not-run", "no such scheduler", None),
    ("lost", "host gone", None),
]


def ids(*numbers: int) -> list[str]:
    return [f"study-1-{number:04d}" for number in numbers]


def make(folder: Path, **changes: Any) -> Journal:
    """Make a campaign whose runs ended as `ENDS`, and two more: raced out, and excluded."""
    rows = [row(number) for number in range(1, 8)] + [row(8, status="excluded")]
    journal = Journal.create(folder, {**CAMPAIGN, **changes}, rows)
    for status, reason, cause in ENDS:
        taken = journal.take("h1")
        assert taken is not None
        journal.finish(taken["id"], status, reason, {}, cause)
    journal.race_out({ids(7)[0]: "raced out at look 2"}, [])
    journal.conclude()
    return journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = make(tmp_path / "results" / "study-1")
    yield made
    made.close()


def test_runs_are_chosen_by_their_status(journal: Journal) -> None:
    assert choose(journal, "failed,refused") == ids(2, 3)
    assert choose(journal, "not-run") == ids(4, 5), "the run that a race left out never began"


def test_runs_are_chosen_by_the_cause_of_their_last_attempt(journal: Journal) -> None:
    assert choose(journal, "not-run,failed", "busy") == ids(4)


def test_named_runs_may_have_any_status_that_can_be_attempted_again(journal: Journal) -> None:
    assert choose(journal, runs=["study-1-0005", "2", "6"]) == ids(5, 2, 6)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "rig retry: needs --status or runs; allowed: --status failed,refused,not-run,lost,partial"),
        (
            {"status": "failed,ok"},
            "rig retry: --status 'ok' is unknown; allowed: failed, refused, not-run, lost, partial",
        ),
        (
            {"status": "failed", "cause": "bad"},
            "rig retry: --cause 'bad' is unknown; allowed: completed, error, refused, unable, busy,"
            " interrupted, booted, host-gone, controller, clock, unrecorded",
        ),
        ({"runs": ["99"]}, "study-1: no run '99'; allowed: an id or a number, to study-1-0008"),
        ({"runs": ["1"]}, "study-1-0001: is ok; allowed: failed, refused, not-run, lost, partial"),
        ({"status": "failed", "runs": ["3"]}, "study-1-0003: is refused; allowed: failed"),
        ({"runs": ["7"]}, "study-1-0007: never began (raced out at look 2); allowed: runs that did"),
        (
            {"runs": ["2"], "cause": "busy"},
            "study-1-0002: ended for another cause (error); allowed: busy",
        ),
    ],
)
def test_what_cannot_be_attempted_again_is_refused(
    journal: Journal, arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UserError) as refused:
        choose(journal, **arguments)
    assert str(refused.value) == complaint


def test_in_a_race_a_run_that_a_look_counted_stays(tmp_path: Path) -> None:
    racing = make(tmp_path / "study-1", provenance=json.dumps({"race": {}}))
    assert choose(racing, "refused,lost") == ids(3, 6)
    with pytest.raises(UserError, match="study-1-0002: the looks of its race count it as failed"):
        choose(racing, "failed")
    racing.close()


def test_a_retried_run_is_planned_with_its_earlier_attempt_and_both_states_in_the_journal(
    journal: Journal,
) -> None:
    opening.retry(journal, ids(2))
    assert journal.run(ids(2)[0])["status"] == "planned"
    assert journal.campaign["finished_ns"] is None
    taken = journal.take("h1")
    assert taken is not None
    assert (taken["id"], taken["attempt"], taken["begun"]) == (ids(2)[0], 2, False)
    with sqlite3.connect(journal.folder / "journal.sqlite") as db:
        attempts = db.execute("SELECT number, status, cause FROM attempt WHERE run = ?", ids(2)).fetchall()
        events = db.execute("SELECT detail FROM event WHERE run = ? AND event = 'resumed'", ids(2)).fetchall()
    assert attempts == [(1, "failed", "error"), (2, "running", None)]
    assert [json.loads(detail) for (detail,) in events] == [{"was": "failed", "by": "rig retry"}]


def test_the_attempt_of_a_host_that_was_gone_goes_on(journal: Journal) -> None:
    opening.retry(journal, ids(6))
    taken = journal.take("h1")
    assert taken is not None
    assert (taken["attempt"], taken["begun"]) == (1, True)


def test_a_power_cut_is_made_again_from_nothing(tmp_path: Path) -> None:
    cuts = make(tmp_path / "study-1", kind="power-cut")
    left = cuts.folder / "runs" / ids(6)[0]
    left.mkdir(parents=True)
    opening.retry(cuts, ids(6))
    assert not left.exists()
    taken = cuts.take("h1")
    assert taken is not None
    assert (taken["attempt"], taken["begun"]) == (2, False)
    cuts.close()


def test_a_campaign_that_is_executed_is_left_alone(journal: Journal) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        journal.claim(process.identity(other.pid))
        with pytest.raises(UserError, match=f"is executed by process {other.pid}"):
            opening.retry(journal, ids(2))
        other.kill()
    assert journal.run(ids(2)[0])["status"] == "failed"


def test_the_command_says_how_many_and_how_to_execute_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path))
    make(tmp_path / "study-1", provenance=json.dumps({"playbook": "x; rm -rf /"})).close()
    command.retry("study-1", status="failed,refused")
    assert capsys.readouterr().out == (
        "study-1: 2 runs planned again; to execute what is planned:\n  rig run PLAYBOOK --resume study-1\n"
    )
    command.retry("study-1", status="failed")
    assert capsys.readouterr().out == "study-1: no run is like that; nothing was changed\n"
