# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig stop --now` says what it did: to hosts, and to the process; and what it could not do."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from joulerig.analysis.results.schema import Asked
from joulerig.rig.campaign import playbook
from joulerig.rig.campaign.control import ending
from joulerig.rig.campaign.hosts import Stopped
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.launch import handed
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from tests.support.planned_runs import CAMPAIGN, row
from tests.support.programs import wait_for

ELSEWHERE = f"oldbox {'f' * 16} 00000000-0000-0000-0000-000000000000 4026531836 17 9"
RESUME = "'rig run PLAYBOOK --resume study-1"


@pytest.fixture
def journal(state):
    return Journal.create(paths.results() / "study-1", CAMPAIGN, [row(1, "bench1"), row(2, "bench1")])


@pytest.fixture
def replies(monkeypatch):
    """The replies of test hosts by name, and the requests that they got."""
    found: dict[str, Any] = {"bench1": Stopped(stopped=[])}

    def ask(shipped: str, inventory: Path, *, asked: handed.Handed, model: type, **more: Any) -> Any:
        assert (shipped, model) == ("stop.yml", Stopped)
        assert all(one == {"stop": "study-1"} for one in asked.values())
        return {host: found[host] for host in asked}

    monkeypatch.setattr(playbook, "replies", ask)
    return found


@pytest.fixture
def executor(journal):
    """executor(PROGRAM) is a process that executes the campaign."""
    started = []

    def start(program: str = "exec sleep 600") -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sh", "-c", program]))
        Journal(journal.folder).claim(process.identity(started[-1].pid))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def end(lab: Any, journal: Journal, sleep: Callable[[float], None] = lambda seconds: None) -> list[str]:
    said = []
    try:
        for line in ending.end(lab, journal, sleep):
            said.append(line)
    except UserError as error:
        said.append(f"error: {error}")
    return said


def test_runs_on_hosts_are_ended_and_the_process_that_collects_them_ends(bench, journal, replies, executor):
    journal.take("bench1")
    replies["bench1"] = Stopped(stopped=["study-1-0001.1"])
    one = executor()
    name = f"process {one.pid} of "

    def sleep(seconds: float) -> None:
        assert journal.asked == Asked.STOP
        one.kill()  # as it does when it has collected what was ended
        one.wait()

    said = end(bench, journal, sleep)
    assert said[0].startswith(name)
    assert said[0].endswith("is asked to end it")
    assert said[1:2] == ["bench1: ended study-1-0001.1"]
    assert said[2].endswith("has ended")
    assert len(said) == 3


def sleep_until_signalled(one: subprocess.Popen[bytes]) -> Callable[[float], None]:
    """Pass the time in which a process may end without a signal, and wait for its end by one."""
    looks = iter(range(10_000))
    without = ending.GRACE_SECONDS / ending.LOOK_SECONDS

    def sleep(seconds: float) -> None:
        if next(looks) >= without:
            one.wait(30)

    return sleep


def test_a_process_that_does_not_end_gets_a_signal(bench, journal, replies, executor):
    one = executor()
    said = end(bench, journal, sleep_until_signalled(one))
    assert "got SIGTERM, and has ended" in said[-1]
    assert one.wait(10) == -signal.SIGTERM


def test_a_process_that_is_stopped_ends_too(bench, journal, replies, executor):
    one = executor()
    one.send_signal(signal.SIGSTOP)
    assert "got SIGTERM, and has ended" in end(bench, journal, sleep_until_signalled(one))[-1]


def test_a_process_that_goes_on_is_an_error_that_says_what_ends_it(
    bench, journal, replies, executor, tmp_path
):
    one = executor(f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 600 & wait; done")
    wait_for((tmp_path / "ready").exists, 30, "it ignores the signal")
    [*_, last] = end(bench, journal)
    assert last.startswith("error: study-1: process")
    assert last.endswith(f"got SIGTERM, and goes on; 'kill -KILL {one.pid}' ends it")
    assert one.poll() is None


def test_a_host_that_could_not_be_asked_is_an_error(bench, journal, replies, executor):
    journal.take("bench1")
    replies["bench1"] = "ssh: no route to host"
    assert end(bench, journal) == [
        f"no process executes it; {RESUME}' goes on with it",
        "error: study-1: bench1 may go on with what it executes: ssh: no route to host",
    ]


def test_where_no_process_executes_it_its_hosts_are_still_asked(bench, journal, replies):
    journal.take("bench1")
    assert end(bench, journal) == [
        "bench1: was executing nothing of it",
        f"no process executes it; {RESUME}' goes on with it",
    ]
    assert journal.asked is None


def test_no_host_is_asked_that_can_be_in_nothing(bench, journal, replies):
    assert end(bench, journal) == [f"no process executes it; {RESUME}' goes on with it"]


def test_a_process_elsewhere_is_asked_and_gets_no_signal(bench, journal, replies):
    Journal(journal.folder).claim(ELSEWHERE)
    assert end(bench, journal) == [
        "process 17 of oldbox is asked to end it",
        "no signal was sent: process 17 of oldbox can't be seen from here",
    ]
    assert journal.asked == Asked.STOP


def test_of_a_silent_process_it_says_how_to_take_over(bench, journal, replies):
    Journal(journal.folder).claim(ELSEWHERE)
    journal._db.execute("UPDATE campaign SET heartbeat_ns = 5")
    assert end(bench, journal) == [
        "no process was ended: process 17 of oldbox, which executed it, was last heard of at"
        f" 1970-01-01 00:00:00 UTC; if it is dead, {RESUME} --take-over' takes it over"
    ]
