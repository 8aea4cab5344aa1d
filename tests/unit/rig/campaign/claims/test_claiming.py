# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign is claimed by one process, and taken over from a silent one alone."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.rig.campaign import journal as journals
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process
from joulerig.rig.common.claim import BEAT_SECONDS, STALE_SECONDS, WATCH_SECONDS, Claim, Standing
from joulerig.rig.common.errors import UserError
from tests.support.planned_runs import CAMPAIGN, row

HERE = process.identity(os.getpid())
BOOT = "00000000-0000-0000-0000-000000000000"
ELSEWHERE, THIRD = (f"{name} {'f' * 16} {BOOT} 4026531836 17 9" for name in ("oldbox", "otherbox"))
LONG_AGO = 10**18


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    found = Journal.create(tmp_path / "study-1", CAMPAIGN, [row(1)])
    yield found
    found.close()


def put(journal: Journal, executor: str | None, heartbeat_ns: int | None) -> None:
    with sqlite3.connect(journal.folder / "journal.sqlite") as db:
        db.execute("UPDATE campaign SET executor = ?, heartbeat_ns = ?", (executor, heartbeat_ns))


def taken_over(journal: Journal) -> list[dict[str, str]]:
    rows = journal._db.execute("SELECT detail FROM event WHERE event = 'taken-over'")
    return [json.loads(detail) for (detail,) in rows]


def test_a_claim_is_that_of_a_living_process_that_is_asked_nothing(journal):
    put(journal, ELSEWHERE, None)
    journal.ask("stop")
    begun = time.time_ns()
    journal.claim(HERE)
    assert journal.claimed.executor == journal.executor == HERE
    assert begun <= journal.claimed.heartbeat_ns <= time.time_ns()
    assert (journal.asked, taken_over(journal)) == (None, [])
    journal.claim(HERE)  # its own claim is in no process's way


def test_a_claim_renews_a_heartbeat_of_long_ago(journal):
    put(journal, ELSEWHERE, LONG_AGO)
    journal.claim(HERE, over=journal.claimed)
    assert journal.claimed.heartbeat_ns > LONG_AGO
    assert taken_over(journal) == [{"from": ELSEWHERE, "by": HERE}]


def test_a_journal_is_used_in_the_name_of_its_last_claim(journal):
    put(journal, ELSEWHERE, None)
    other = Journal(journal.folder, executor=ELSEWHERE)
    other.claim(HERE)
    other.note(None, {})
    other.close()


def test_a_campaign_that_a_process_executes_is_claimed_by_no_other(journal):
    with subprocess.Popen(["sleep", "60"]) as living:
        journal.claim(process.identity(living.pid))
        with pytest.raises(UserError, match=f"is executed by process {living.pid} of"):
            Journal(journal.folder).claim(HERE)
        assert journal.claimed.executor == process.identity(living.pid)
        living.kill()
    journal.claim(HERE)


@pytest.mark.parametrize("executor", [THIRD, ELSEWHERE])
def test_a_silent_claim_that_changed_meanwhile_is_not_taken_over(journal, executor):
    put(journal, ELSEWHERE, LONG_AGO)
    before = journal.claimed
    meanwhile = (executor, time.time_ns())
    put(journal, *meanwhile)
    with pytest.raises(UserError, match="is executed by process 17"):
        journal.claim(HERE, over=before)
    assert journal.claimed == Claim(*meanwhile)


def test_a_claim_that_comes_just_before_another_one_stands(journal, monkeypatch):
    transaction = journals.transaction

    def after_the_other(db):
        put(journal, THIRD, time.time_ns())
        return transaction(db)

    monkeypatch.setattr(journals, "transaction", after_the_other)
    with pytest.raises(UserError, match="is executed by process 17 of otherbox"):
        journal.claim(HERE)
    assert journal.claimed.executor == THIRD


def test_a_process_that_is_silent_executes_nothing_as_far_as_is_known(journal):
    put(journal, ELSEWHERE, LONG_AGO)
    assert (journal.claimed.standing, journal.executor) == (Standing.SILENT, None)


# --- listening


def test_a_silent_process_is_listened_for_longer_than_its_heartbeat_takes(journal):
    put(journal, ELSEWHERE, LONG_AGO)
    slept, said = [], []
    assert journal.listen(said.append, slept.append) == journal.claimed
    assert sum(slept) == WATCH_SECONDS > BEAT_SECONDS
    assert said == ["process 17 of oldbox is silent; listening for its heartbeat for 75 s"]


def test_a_heartbeat_that_comes_meanwhile_counts_whatever_its_time_is(journal):
    put(journal, ELSEWHERE, LONG_AGO)
    with pytest.raises(UserError, match="whose heartbeat came meanwhile"):
        journal.listen(lambda text: None, lambda seconds: put(journal, ELSEWHERE, LONG_AGO + 1))


def test_a_campaign_that_no_process_executes_is_not_listened_for(journal):
    put(journal, ELSEWHERE, None)
    assert journal.listen(lambda text: pytest.fail("it listens")) is None


# --- the heartbeat


def test_the_heartbeat_is_that_of_the_process_that_has_the_campaign(journal):
    put(journal, ELSEWHERE, 5)
    journal.beat(THIRD)
    journal.has_ended(THIRD)
    assert journal.claimed == Claim(ELSEWHERE, 5)
    journal.beat(ELSEWHERE)
    assert journal.claimed.heartbeat_ns > 5
    journal.has_ended(ELSEWHERE)
    assert journal.claimed == Claim(ELSEWHERE, None)


def test_the_way_on_names_when_a_claim_may_be_taken_over():
    at = time.time_ns() - 10**9
    later = time.strftime("%H:%M", time.gmtime(at / 1e9 + STALE_SECONDS))
    assert f" {later}" in Claim(ELSEWHERE, at).obstacle("rig run x").rpartition("takes it over from ")[2]
