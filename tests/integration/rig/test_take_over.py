# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers and one results folder: each run is executed once, whichever of them dies.

Each controller is a process with the machine-id and the host name of a machine; the journal, its
claim and the executor are real, the test host is not there.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.journal import Journal, TakenOverError
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common import process
from joulerig.rig.common.claim import BEAT_SECONDS, STALE_SECONDS, WATCH_SECONDS
from joulerig.rig.common.errors import UserError
from tests.support.fake_channel import Channel
from tests.support.machines import Machine, can_pose
from tests.support.programs import wait_for

pytestmark = pytest.mark.skipif(not can_pose, reason="needs root: namespaces, and /etc/machine-id")


class Host(Channel):
    """The test host as one controller calls it; `ledger` has what all controllers asked of it."""

    def __init__(self, who: str, ledger: Path, **more: Any) -> None:
        super().__init__(**more)
        self._who, self._ledger = who, ledger
        self.blocks_at = ""

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        before = len(self.trace)
        reply = super().call(module, arguments)
        for step in [*self.trace[before:], *(["forget"] if module == "joulerig_calls" else [])]:
            if step != "kernel?":
                with self._ledger.open("a") as file:
                    file.write(f"{self._who} {step}\n")
            if step == self.blocks_at:
                wait_for(lambda: (self._ledger.parent / "go").exists(), 60, "the test lets it go on")
        return reply


class Controllers:
    """Two machines called localhost, and the campaign of three runs that both can see."""

    def __init__(self, folder: Path, campaign: OpenCampaign) -> None:
        self.old, self.new = Machine(folder, "a", "localhost"), Machine(folder, "b", "localhost")
        self.campaign, self.folder = campaign, campaign.journal.folder
        self.ledger, self._go = folder / "ledger", folder / "go"
        self.ledger.touch()

    def execute(self, who: str, journal: Journal, **more: Any) -> None:
        host = Host(who, self.ledger, **more)
        host.blocks_at = "run 0002" if who == "old" else ""
        opened = OpenCampaign.load(journal, self.campaign.lab)
        Executor(opened, "bench1", host, {}, clock=host.clock, sleep=host.sleep).execute()

    def begin(self) -> int:
        """Let the old controller execute it, until it waits for the second run."""

        def work() -> None:
            journal = Journal(self.folder)
            journal.claim(process.identity(os.getpid()))
            self.execute("old", journal)

        pid = self.old.start(work)
        wait_for(lambda: "old run 0002" in self.ledger.read_text(), 30, "the second run has begun")
        return pid

    def resume(self, take_over: bool = False, meanwhile: Callable[[], object] = lambda: None) -> str:
        """Let the new controller resume it; return why it did not, or nothing."""

        def work() -> None:
            said: list[str] = []
            me = process.identity(os.getpid())
            ticks = iter(range(10_000))

            def sleep(seconds: float) -> None:
                if next(ticks) == 5:
                    meanwhile()

            journal = opening.resume_campaign(
                self.folder.name,
                self.campaign.lab,
                executor=me,
                take_over=take_over,
                say=said.append,
                sleep=sleep,
            )
            self.execute("new", journal, knows={"0002.1"})

        return self.new.do(work)

    def let_go(self) -> str:
        """Let the old controller's call return; return the error that ended it."""
        self._go.touch()
        return self.old.join()

    def asked(self) -> list[str]:
        return self.ledger.read_text().splitlines()

    def heartbeat_was(self, seconds_ago: float) -> None:
        with closing(sqlite3.connect(self.folder / "journal.sqlite", isolation_level=None)) as database:
            beat = time.time_ns() - int(seconds_ago * 1e9)
            database.execute("UPDATE campaign SET heartbeat_ns = ?", (beat,))

    def attempts(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "journal.sqlite")) as database:
            return database.execute(
                "SELECT substr(run, -4), number, status FROM attempt ORDER BY run"
            ).fetchall()


EACH_ONCE = [("0001", 1, "ok"), ("0002", 1, "ok"), ("0003", 1, "ok")]


@pytest.fixture
def controllers(state, bench, mapping, services_up, open_campaign):
    factors = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randread"]}
    asked = {**mapping, "drives": ["bare"], "factors": factors, "replicates": 3, "order": "as-written"}
    found = Controllers(state, open_campaign(asked, bench))
    yield found
    if found.old.pid:
        try:
            os.kill(found.old.pid, signal.SIGKILL)
            os.waitpid(found.old.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def test_a_living_controller_of_the_same_name_is_not_taken_over(controllers):
    pid = controllers.begin()
    for take_over in (False, True):
        refusal = controllers.resume(take_over)
        assert re.search(
            rf"is executed by process {pid} of localhost, heard of \d seconds? ago; wait for its end, or end it"
            rf" by 'rig stop'; if it is dead, 'rig run playbooks/study.yml --resume {controllers.folder.name}"
            r" --take-over' takes it over from \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC on$",
            refusal,
        )
    assert controllers.let_go() == ""
    assert controllers.asked() == ["old run 0001", "old run 0002", "old run 0003", "old forget"]
    assert controllers.attempts() == EACH_ONCE


def test_a_killed_controller_is_taken_over_once_its_heartbeat_is_stale_and_not_before(controllers):
    pid = controllers.begin()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    controllers.heartbeat_was(STALE_SECONDS - 20)
    assert "takes it over from" in controllers.resume(take_over=True)
    controllers.heartbeat_was(STALE_SECONDS + 1)
    refusal = controllers.resume()
    assert re.search(
        rf"process {pid} of localhost, which executed it, was last heard of at .* UTC; if it is dead,"
        rf" 'rig run playbooks/study.yml --resume {controllers.folder.name} --take-over' takes it over$",
        refusal,
    )
    assert controllers.resume(take_over=True) == ""
    assert controllers.asked() == [
        "old run 0001", "old run 0002", "new collect 0002.1", "new run 0003", "new forget",
    ]  # fmt: skip
    assert controllers.attempts() == EACH_ONCE


def test_a_controller_that_wakes_up_after_it_was_taken_over_does_nothing_more(controllers):
    pid = controllers.begin()
    os.kill(pid, signal.SIGSTOP)
    controllers.heartbeat_was(STALE_SECONDS + 1)
    assert controllers.resume(take_over=True) == ""
    files = {path: path.stat().st_mtime_ns for path in controllers.folder.glob("runs/*/*")}
    before = controllers.asked()
    os.kill(pid, signal.SIGCONT)
    ended = controllers.let_go()
    assert re.search(r"process \d+ of localhost has taken it over; this one does nothing more$", ended)
    assert controllers.asked() == before
    assert {path: path.stat().st_mtime_ns for path in controllers.folder.glob("runs/*/*")} == files
    assert controllers.attempts() == EACH_ONCE


@pytest.mark.parametrize("seconds_ago", [86400, -86400])
def test_a_heartbeat_that_comes_shows_a_living_controller_whose_clock_is_wrong(controllers, seconds_ago):
    pid = controllers.begin()
    controllers.heartbeat_was(seconds_ago)
    refusal = controllers.resume(True, lambda: controllers.heartbeat_was(seconds_ago - BEAT_SECONDS))
    assert re.search(rf"is executed by process {pid} of localhost, whose heartbeat came meanwhile", refusal)
    assert controllers.let_go() == ""
    assert controllers.attempts() == EACH_ONCE


def test_a_heartbeat_ahead_of_the_clock_is_no_dead_end(controllers):
    pid = controllers.begin()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    controllers.heartbeat_was(-5 * 365 * 86400)
    assert "ahead of this machine's clock" in controllers.resume()
    assert controllers.resume(take_over=True) == ""
    assert controllers.attempts() == EACH_ONCE


def test_a_campaign_that_ended_is_resumed_on_another_machine_at_once(controllers):
    pid = controllers.begin()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with closing(Journal(controllers.folder)) as journal:
        journal.has_ended(str(journal.claimed.executor))  # as the process that keeps the heartbeat notes
    assert controllers.resume() == ""
    assert controllers.attempts() == EACH_ONCE


def test_a_change_of_host_name_changes_nothing(controllers, tmp_path):
    pid = controllers.begin()
    renamed = Machine(tmp_path, "a", "dhcp-17")

    def resume() -> None:
        opening.resume_campaign(
            controllers.folder.name, controllers.campaign.lab, executor=process.identity(os.getpid())
        )

    assert re.search(rf"is executed by process {pid} of localhost; wait for its end", renamed.do(resume))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert renamed.do(resume) == ""


def test_listening_lasts_longer_than_a_heartbeat(controllers):
    assert BEAT_SECONDS < WATCH_SECONDS < STALE_SECONDS


# --- the process that renews the heartbeat


@pytest.fixture
def executor():
    with subprocess.Popen(["sleep", "600"]) as found:
        yield found
        found.kill()


def keeper(folder: Path, executor: str) -> subprocess.Popen[bytes]:
    """The process that renews the heartbeat, many times a second."""
    program = f"""
from pathlib import Path
from joulerig.rig.campaign.claims import heartbeat
heartbeat.keep(Path({str(folder)!r}), {executor!r}, every=0.1, look=0.02)
"""
    return subprocess.Popen([sys.executable, "-c", program])


def beats(journal: Journal, seconds: float = 1.0) -> bool:
    before = journal.claimed.heartbeat_ns
    end = time.monotonic() + seconds
    while journal.claimed.heartbeat_ns == before and time.monotonic() < end:
        time.sleep(0.02)  # between looks, to a deadline
    return journal.claimed.heartbeat_ns != before


def test_a_heartbeat_lasts_as_long_as_its_executor_is_awake(controllers, executor):
    journal, who = controllers.campaign.journal, process.identity(executor.pid)
    Journal(controllers.folder).claim(who)
    with keeper(controllers.folder, who) as keeps:
        assert beats(journal, 30)
        executor.send_signal(signal.SIGSTOP)
        wait_for(lambda: process.is_stopped(executor.pid), 10, "it is stopped")
        beats(journal)  # one that was under way
        assert not beats(journal)
        executor.send_signal(signal.SIGCONT)
        assert beats(journal, 30)
        executor.kill()
        executor.wait()
        assert keeps.wait(30) == 0
    assert journal.claimed.heartbeat_ns is None
    assert journal.claimed.executor == who


def test_an_executor_that_was_taken_over_is_killed_also_where_it_is_stopped(controllers, executor):
    who = process.identity(executor.pid)
    Journal(controllers.folder).claim(who)
    executor.send_signal(signal.SIGSTOP)
    with keeper(controllers.folder, who) as keeps:
        controllers.campaign.journal.claim(
            "localhost bbbbbbbbbbbbbbbb 00000000-0000-0000-0000-000000000000 1 2 3",
            over=controllers.campaign.journal.claimed,
        )
        assert executor.wait(30) == -signal.SIGKILL
        keeps.wait(30)


def test_the_keeper_outlives_the_group_of_its_parent(controllers, executor):
    who = process.identity(executor.pid)
    Journal(controllers.folder).claim(who)
    program = f"""
import os
from pathlib import Path
from joulerig.rig.campaign.claims import heartbeat
print(heartbeat.start(Path({str(controllers.folder)!r}), {who!r}).pid, flush=True)
os.killpg(0, 9)
"""
    parent = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, start_new_session=True
    )
    keeper_identity = process.identity(int(parent.stdout))
    assert process.is_alive(keeper_identity)
    executor.kill()
    executor.wait()
    wait_for(lambda: not process.is_alive(keeper_identity), 30, "it ends with the executor")
    assert controllers.campaign.journal.claimed.heartbeat_ns is None


def test_a_journal_that_was_taken_over_is_not_written_in_the_former_name(controllers, executor):
    who = process.identity(executor.pid)
    mine = Journal(controllers.folder)
    mine.claim(who)
    other = Journal(controllers.folder)
    other.claim("localhost bbbbbbbbbbbbbbbb 00000000-0000-0000-0000-000000000000 1 2 3", over=other.claimed)
    before = other.campaign, other.counts()
    writes: list[Callable[[], object]] = [
        lambda: mine.take("bench1"), lambda: mine.begin_host("bench1", who), lambda: mine.set_aside("bench1", "x"),
        lambda: mine.note(None, {}), lambda: mine.conclude(), lambda: mine.give_back(executor=who),
        lambda: mine.retry([]), lambda: mine.race_out({}, []), lambda: mine.ask(None), lambda: mine.asked,
        lambda: mine.take_block("bench1"), lambda: mine.plan_again("x", "y"),
        lambda: mine.finish("x", "ok", "", {}), lambda: mine.settle("x", "ok", "", {}),
        lambda: mine.take_over("bench1", lambda run: True, lambda host, drive: ""),
    ]  # fmt: skip
    for write in writes:
        with pytest.raises(TakenOverError, match="process 2 of localhost has taken it over"):
            write()
    assert (other.campaign, other.counts()) == before
    with pytest.raises(UserError, match="is executed by process 2 of localhost"):
        mine.claim(who)
