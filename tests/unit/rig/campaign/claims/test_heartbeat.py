# SPDX-License-Identifier: GPL-3.0-or-later
"""The keeper of a heartbeat: it renews it while the executor is awake, and ends one that lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from joulerig.rig.campaign.claims import heartbeat
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process
from joulerig.rig.common.claim import Claim
from tests.support.planned_runs import CAMPAIGN, row
from tests.support.programs import wait_for

HERE = process.identity(os.getpid())
ELSEWHERE = f"oldbox {'f' * 16} 00000000-0000-0000-0000-000000000000 4026531836 17 9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Journal.create(tmp_path / "study-1", CAMPAIGN, [row(1)]).close()
    return tmp_path / "study-1"


@pytest.fixture
def executor() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as one:
        yield one
        one.kill()


def claim(folder: Path, executor: str, heartbeat_ns: int | None) -> None:
    with sqlite3.connect(folder / "journal.sqlite") as db:
        db.execute("UPDATE campaign SET executor = ?, heartbeat_ns = ?", (executor, heartbeat_ns))


def claimed(folder: Path) -> Claim:
    with sqlite3.connect(folder / "journal.sqlite") as db:
        return Claim(*db.execute("SELECT executor, heartbeat_ns FROM campaign").fetchone())


def times(executor: subprocess.Popen[bytes], *seconds: float) -> Callable[[], float]:
    """Return a clock that shows these times in turn; the executor is killed with the last one."""
    left = list(seconds)

    def clock() -> float:
        if len(left) == 1:
            executor.kill()
            executor.wait()
            return left[0]
        return left.pop(0)

    return clock


def test_the_heartbeat_is_renewed_when_it_is_due(folder, executor, monkeypatch):
    beats = []
    monkeypatch.setattr(heartbeat, "_renew", lambda journal, executor: beats.append(executor))
    identity = process.identity(executor.pid)
    claim(folder, identity, 1)
    # It looks at 30, 59, 60 (when the next one is due at 120), 119, 120 and 121.
    clock = times(executor, 0, 30, 59, 60, 60, 119, 120, 120, 121, 122)
    heartbeat.keep(folder, identity, every=60, look=0.0, clock=clock)
    assert beats == [identity] * 2


def test_the_clock_goes_on_while_the_machine_is_suspended(monkeypatch):
    asked = []
    monkeypatch.setattr(time, "clock_gettime", lambda clock: asked.append(clock) or 7.0)
    assert (heartbeat.clock(), asked) == (7.0, [time.CLOCK_BOOTTIME])


def test_the_end_of_the_executor_is_noted(folder, executor):
    identity = process.identity(executor.pid)
    claim(folder, identity, 1)
    heartbeat.keep(folder, identity, look=0.0, clock=times(executor, 0, 1))
    assert claimed(folder) == Claim(identity, None)


def test_a_process_that_has_the_number_of_the_executor_is_not_watched(folder):
    """The executor has ended, and its number went to another process."""
    claim(folder, f"{HERE}0", 1)
    heartbeat.keep(folder, f"{HERE}0", clock=lambda: pytest.fail("it is watched"))
    assert claimed(folder).heartbeat_ns is None


def test_a_process_that_is_not_seen_from_here_has_no_keeper_here(folder):
    claim(folder, ELSEWHERE, 1)
    heartbeat.keep(folder, ELSEWHERE, clock=lambda: pytest.fail("it is watched"))
    assert claimed(folder) == Claim(ELSEWHERE, 1)


def test_an_executor_that_was_taken_over_is_killed(folder, executor):
    claim(folder, HERE, 5)
    heartbeat.keep(folder, process.identity(executor.pid), every=0.0, look=0.0)
    assert executor.wait(20) == -signal.SIGKILL
    assert claimed(folder) == Claim(HERE, 5)


def test_an_executor_that_is_stopped_has_no_heartbeat(folder, executor):
    identity = process.identity(executor.pid)
    claim(folder, identity, 1)
    journal = Journal(folder, identity)
    executor.send_signal(signal.SIGSTOP)
    wait_for(lambda: psutil.Process(executor.pid).status() == psutil.STATUS_STOPPED, 10, "it is stopped")
    heartbeat._renew(journal, identity)
    assert claimed(folder).heartbeat_ns == 1
    executor.send_signal(signal.SIGCONT)
    wait_for(lambda: psutil.Process(executor.pid).status() != psutil.STATUS_STOPPED, 10, "it goes on")
    heartbeat._renew(journal, identity)
    assert claimed(folder).heartbeat_ns > 1
    journal.close()


def test_a_journal_that_cannot_be_used_for_a_moment_ends_no_heartbeat(folder, executor, monkeypatch):
    def locked(*_: object) -> Journal:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(heartbeat, "Journal", locked)
    heartbeat._at_journal(folder, HERE, heartbeat._renew)


def test_the_keeper_has_its_own_session(folder, executor):
    keeper = heartbeat.start(folder, process.identity(executor.pid))
    assert os.getsid(keeper.pid) == keeper.pid
    executor.kill()
    executor.wait()
    assert keeper.wait(60) == 0


def test_the_end_of_a_process_is_waited_for_as_long_as_it_says(executor):
    descriptor = os.pidfd_open(executor.pid)
    begun = time.monotonic()
    assert not process.has_ended(descriptor, 0.1)
    assert time.monotonic() - begun >= 0.1
    executor.kill()
    assert process.has_ended(descriptor, 20)
    os.close(descriptor)
