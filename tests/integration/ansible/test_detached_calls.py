# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that outlive the connection by which they were asked for, as real processes.

The archive is made as Ansible makes one, with a module whose work a test can hold up. This machine
has no systemd: `make test`'s virtual lab has the units.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.detached import calls, child, code, unit
from ansible.module_utils.joulerig.tools import Failed
from tests.support import ROOT
from tests.support.programs import wait_for

UTILS = ROOT / "ansible/module_utils/joulerig"
MODULE = """
import contextlib, os, pathlib, subprocess, sys, time
from ansible.module_utils.joulerig import host_lock, leftovers
from ansible.module_utils.joulerig.tools import Busy, Failed, Refused

def work():
    return sys.modules[__name__]

def empty():
    return {"changed": False, "status": "ok", "reason": ""}

def execute(p, result):
    with contextlib.ExitStack() as undo:
        if lane := host_lock.lane_of(p):
            undo.enter_context(host_lock.HostLock(lane=lane))
        work_on(p, result, lane)

def work_on(p, result, lane):
    pathlib.Path(p["began"]).open("a").write("began\\n")
    if p.get("refuse"):
        raise Refused("not this drive")
    if p.get("busy"):
        raise Busy("another run")
    if p.get("crash"):
        raise RuntimeError("a mistake")
    result["changed"] = True
    left = leftovers.Leftovers(lane=lane)
    if p.get("setting"):
        left.note_file(p["setting"], "before")
        pathlib.Path(p["setting"]).write_text("during")
    if p.get("child"):
        process = subprocess.Popen(["sleep", "300"])
        pathlib.Path(p["child"]).write_text(str(process.pid))
    try:
        try:
            while not os.path.exists(p["until"]):
                time.sleep(0.02)
        except KeyboardInterrupt:
            if p.get("load"):
                raise Failed("fio: interrupted") from None
            raise
        if os.path.exists(p["until"] + ".fail"):
            raise Failed("no space")
    finally:
        if p.get("setting"):
            pathlib.Path(p["setting"]).write_text("before")
    left.clear()
    result["work"] = 7
"""


class Host:
    """A test host whose state is in a folder, and the module's files on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.began, self.until = folder / "began", folder / "until"
        self.archive = folder / "payload.zip"
        with zipfile.ZipFile(self.archive, "w") as archive:
            for package in ("ansible", "ansible/module_utils", "ansible/legacy"):
                archive.writestr(f"{package}/__init__.py", "")
            for path in UTILS.rglob("*.py"):
                moved = re.sub(r'"/(run|var/lib)/', rf'"{folder}/\1/', path.read_text())
                if path.name == "paths.py":
                    moved = moved.replace('SYS = "/sys"', f'SYS = "{folder}"')
                archive.writestr(f"ansible/module_utils/joulerig/{path.relative_to(UTILS)}", moved)
            archive.writestr("ansible/legacy/stand_in.py", MODULE)

    def attend(
        self, name: str = "c-0001.1", *, begin: bool = True, output: int = 1, **more: Any
    ) -> dict[str, Any]:
        parameters = {"began": str(self.began), "until": str(self.until), **more}
        return calls.attend(name, "ansible.legacy.stand_in", parameters, begin=begin, output=output)

    def begin(self, **more: Any) -> threading.Thread:
        """Attend a call from a connection that goes on meanwhile."""
        before = self.begun
        thread = threading.Thread(target=self.attend, kwargs=more, daemon=True)
        thread.start()
        wait_for(lambda: self.begun > before, 20, "the call began")
        return thread

    @property
    def begun(self) -> int:
        """Return how many calls have begun their work."""
        return len(self.began.read_text().splitlines()) if self.began.exists() else 0

    def state(self, name: str = "c-0001.1") -> dict[str, Any]:
        return calls.Call(name).state or {}


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path)
    monkeypatch.setattr(paths, "STATE", str(tmp_path / "var/lib/joulerig"))
    monkeypatch.setattr(paths, "CODE", str(tmp_path / "run/joulerig/code"))
    monkeypatch.setattr(code, "archive", lambda: str(made.archive))
    monkeypatch.setattr(unit, "SYSTEMD", str(tmp_path / "no-systemd"))
    yield made
    for known in calls.listed():
        calls.stop(known["name"])


def test_a_call_is_answered_with_its_outcome(host):
    host.until.touch()
    assert host.attend() == {"changed": True, "status": "ok", "reason": "", "work": 7}


def test_a_call_outlives_the_connection_and_its_outcome_waits(host):
    reader, writer = os.pipe()
    waits = subprocess.Popen([sys.executable, "-c", ATTEND.format(host=host)], stdout=writer)
    os.close(writer)
    wait_for(host.began.exists, 20, "the call began")
    os.close(reader)  # the connection is gone
    assert waits.wait(20) == 0
    assert calls.listed() == [{"name": "c-0001.1", "runs": True}]
    host.until.touch()
    wait_for(lambda: calls.Call("c-0001.1").outcome, 20, "the outcome is there")
    assert host.attend()["work"] == 7
    assert host.began.read_text() == "began\n", "it is not done twice"


ATTEND = """
import sys
sys.path.insert(0, "{host.archive}")
from ansible.module_utils.joulerig.detached import calls
calls.attend("c-0001.1", "ansible.legacy.stand_in", dict(began="{host.began}", until="{host.until}"))
"""


def test_two_connections_attend_one_call(host):
    first, answers = host.begin(), []
    second = threading.Thread(target=lambda: answers.append(host.attend()))
    second.start()
    time.sleep(0.3)  # for the second to find the call; either order must do
    host.until.touch()
    first.join(20)
    second.join(20)
    assert [one["work"] for one in answers] == [7]
    assert host.began.read_text() == "began\n"


def test_a_call_that_is_not_to_begin_and_is_not_known_is_absent(host):
    assert host.attend(begin=False)["status"] == "absent"
    assert not host.began.exists()


def test_a_refusal_before_any_change_is_kept_as_one(host):
    assert host.attend(refuse=True) == {"changed": False, "status": "refused", "reason": "not this drive"}


def test_a_host_in_use_says_so_in_the_cause(host):
    found = host.attend(busy=True)
    assert (found["status"], found["cause"]) == ("not-run", "busy")


def test_an_error_after_a_change_is_a_failure(host):
    host.until.touch()
    Path(f"{host.until}.fail").touch()
    assert host.attend() == {"changed": True, "status": "failed", "reason": "no space"}


def test_a_mistake_of_the_program_is_named(host):
    found = host.attend(crash=True)
    assert found["status"] == "failed"
    assert found["reason"] == "its process ended with 1: RuntimeError: a mistake"


def test_a_call_that_is_stopped_ends_in_good_order(host):
    setting = host.folder / "scheduler"
    setting.write_text("before")
    thread = host.begin(setting=str(setting))
    calls.stop("c-0001.1")
    thread.join(20)
    assert setting.read_text() == "before"
    found = host.attend()
    assert (found["status"], found["reason"], found["cause"]) == ("failed", "interrupted", "interrupted")


def test_a_load_that_is_interrupted_by_a_stop_has_that_cause(host):
    thread = host.begin(load=True)
    calls.stop("c-0001.1")
    thread.join(20)
    found = host.attend()
    assert (found["reason"], found["cause"]) == ("fio: interrupted", "interrupted")


def test_what_a_killed_process_leaves_is_put_back_without_a_controller(host):
    setting = host.folder / "scheduler"
    setting.write_text("before")
    thread = host.begin(setting=str(setting))
    wait_for(lambda: setting.read_text() == "during", 20, "the setting is changed")
    os.kill(host.state()["pid"], signal.SIGKILL)
    thread.join(20)
    assert setting.read_text() == "before"
    found = host.attend()
    assert found["status"] == "failed"
    assert found["reason"] == "its process ended with KILL"
    assert found["taken_down"] == [f"{setting} put back"]


def lane(drive: str, campaign: str = "study 7", **more: Any) -> dict[str, Any]:
    return {"lanes_of": campaign, "drive": drive, "alone": False, **more}


def test_calls_of_several_lanes_are_in_progress_at_once_and_each_has_its_outcome(host):
    threads = [host.begin(name=f"c-000{number}.1", **lane(f"nvme-{number}")) for number in (1, 2)]
    assert [one["runs"] for one in calls.listed()] == [True, True]
    host.until.touch()
    for thread in threads:
        thread.join(20)
    assert [host.attend(f"c-000{number}.1")["work"] for number in (1, 2)] == [7, 7]


def test_a_call_of_another_campaign_finds_the_host_busy_while_a_lane_has_it(host):
    host.begin(**lane("nvme-1"))
    found = host.attend("d-0001.1", **lane("nvme-2", "another 8"))
    assert (found["status"], found["cause"]) == ("not-run", "busy")


def test_a_lane_whose_process_is_killed_leaves_the_other_whole(host):
    settings = {number: host.folder / f"scheduler-{number}" for number in (1, 2)}
    for number, setting in settings.items():
        setting.write_text("before")
        host.begin(name=f"c-000{number}.1", setting=str(setting), **lane(f"nvme-{number}"))
        wait_for(lambda setting=setting: setting.read_text() == "during", 20, "the setting is changed")
    os.kill(host.state("c-0001.1")["pid"], signal.SIGKILL)
    found = host.attend("c-0001.1")
    assert (found["status"], found["taken_down"]) == ("failed", [f"{settings[1]} put back"])
    assert settings[2].read_text() == "during"
    assert [one["runs"] for one in calls.listed()] == [False, True]
    host.until.touch()
    assert host.attend("c-0002.1")["work"] == 7
    assert settings[2].read_text() == "before"


def test_a_call_of_an_earlier_boot_is_lost(host, monkeypatch):
    thread = host.begin()
    os.kill(host.state()["keeper"]["pid"], signal.SIGKILL)
    os.kill(host.state()["pid"], signal.SIGKILL)
    thread.join(130)
    monkeypatch.setattr(unit, "boot_id", lambda: "another")
    found = host.attend()
    assert found == {"status": "lost", "reason": "the host booted while it ran", "cause": "booted"}


def test_a_process_and_its_keeper_both_killed_is_a_failure(host):
    thread = host.begin()
    state = host.state()
    os.kill(state["keeper"]["pid"], signal.SIGKILL)
    os.kill(state["pid"], signal.SIGKILL)
    thread.join(20)
    assert host.attend()["reason"].startswith("its process ended without an outcome")


def test_another_process_with_its_number_is_not_taken_for_it(host):
    state = {**unit.identity(os.getpid()), "started": 1}
    assert not unit.is_alive(state)
    assert unit.is_alive(unit.identity(os.getpid()))


def test_a_collected_call_is_forgotten_and_one_that_runs_is_not(host):
    host.begin()
    calls.collected(["c-0001.1"])
    assert calls.listed() == [{"name": "c-0001.1", "runs": True}]
    host.until.touch()
    wait_for(lambda: calls.Call("c-0001.1").outcome, 20, "the outcome is there")
    calls.collected(["c-0001.1", "c-0000.9"])
    assert calls.listed() == []


def test_a_campaign_that_is_over_leaves_no_call_but_what_runs(host):
    host.until.touch()
    ended = ("c-0001.1", "c-0001.2.precondition-0", "c-2-0001.1", "other-0001.1")
    for name in ended:
        host.attend(name)
    host.until.unlink()
    running = threading.Thread(target=host.attend, args=["c-0003.1"], daemon=True)
    running.start()
    wait_for(lambda: calls.Call("c-0003.1").state, 20, "the call began")
    calls.forget("c")
    assert [one["name"] for one in calls.listed()] == ["c-0003.1", "c-2-0001.1", "other-0001.1"]


def test_an_outcome_that_is_never_collected_is_removed_in_time(host):
    host.until.touch()
    host.attend()
    long_ago = time.time() - calls.KEPT_SECONDS - 1
    os.utime(calls.Call("c-0001.1").folder / calls.OUTCOME, (long_ago, long_ago))
    host.attend("c-0002.1")
    assert [one["name"] for one in calls.listed()] == ["c-0002.1"]


def test_the_code_is_removed_with_the_end_of_the_call(host):
    host.until.touch()
    host.attend()
    folder = calls.Call("c-0001.1").folder
    wait_for(lambda: not (folder / calls.CODE).exists(), 20, "the code is gone")


def test_a_call_that_is_removed_while_it_begins_is_not_waited_for(host, monkeypatch):
    started = host.folder / "started"
    program = f"import time; open({str(started)!r}, 'w'); time.sleep(300)"
    monkeypatch.setattr(calls, "_program", lambda folder: program)
    found = []

    def attend():
        with pytest.raises(Failed) as raised:
            host.attend()
        found.append(str(raised.value))

    thread = threading.Thread(target=attend, daemon=True)
    thread.start()
    wait_for(started.exists, 60, "its process has started")
    calls.collected(["c-0001.1"])
    thread.join(calls.BEGIN_SECONDS / 2)
    assert found == ["call c-0001.1: was removed while it began"]


def test_a_call_that_is_removed_in_the_middle_of_its_end_stays_removed(host, monkeypatch):
    host.until.touch()
    host.attend()
    folder = calls.Call("c-0001.1").folder
    wait_for(lambda: not (folder / calls.CODE).exists(), 20, "its process is done with it")
    unlink = os.unlink

    def outcome_first(path, **more):
        if Path(path).name == calls.REQUEST:
            if (folder / calls.OUTCOME).exists():
                unlink(folder / calls.OUTCOME)
            child.put_back(folder)  # its process, which looks for an outcome now
        with contextlib.suppress(FileNotFoundError):
            unlink(path, **more)

    monkeypatch.setattr(os, "unlink", outcome_first)
    calls.collected(["c-0001.1"])
    assert calls.listed() == []
    assert list(folder.parent.glob("*/")) == []


def test_a_removal_that_was_cut_short_is_done_by_the_next_call(host, monkeypatch):
    host.until.touch()
    host.attend()
    with monkeypatch.context() as cut:
        cut.setattr(shutil, "rmtree", lambda *_, **__: None)
        calls.collected(["c-0001.1"])
    assert calls.listed() == []
    host.attend("c-0002.1")
    assert [path.name for path in calls.Call("c-0002.1").folder.parent.glob("*/")] == ["c-0002.1"]


def test_a_call_that_cannot_begin_leaves_nothing(host, monkeypatch):
    monkeypatch.setattr(calls, "BEGIN_SECONDS", 2.0)
    monkeypatch.setattr(calls, "_program", lambda folder: "raise SystemExit('no such interpreter')")
    with pytest.raises(Failed, match=r"^call c-0001\.1: did not begin in 2 s: no such interpreter$"):
        host.attend()
    assert calls.listed() == []


@pytest.mark.parametrize("name", ["../etc", "", ".hidden", "a/b", "x" * 300])
def test_a_name_is_no_path(host, name):
    with pytest.raises(Failed, match="not a name"):
        host.attend(name)


def test_code_that_was_not_sent_by_ansible_cannot_be_detached(monkeypatch):
    with pytest.raises(Failed, match="the archive in which Ansible sends a module"):
        code.archive()


def test_the_unit_has_what_a_load_needs_and_puts_back_what_is_left(host, monkeypatch, tmp_path):
    """systemd's own way, by the command line that it gets."""
    programs, asked = tmp_path / "bin", tmp_path / "asked"
    programs.mkdir()
    (programs / "systemd-run").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{asked}\n')
    (programs / "systemd-run").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "no-systemd").mkdir()
    unit.start("c-0001.1", tmp_path, ["/usr/bin/python3", "-c", 'print("50 %", "$HOME")'], "test -e /a")
    words = asked.read_text().splitlines()
    assert words[-4:] == ["/usr/bin/python3", "-c", 'print("50 %", "$HOME")', "run"]
    properties = {word.removeprefix("--property=") for word in words if word.startswith("--property=")}
    assert {"KillMode=mixed", "OOMPolicy=continue", "TasksMax=infinity"} <= properties
    [stopped] = [one for one in properties if one.startswith("ExecStopPost=")]
    assert stopped == (
        r'ExecStopPost="/bin/sh" "-c" "test -e /a || exec \"$$0\" \"$$@\""'
        r' "/usr/bin/python3" "-c" "print(\"50 %%\", \"$$HOME\")" "after"'
    )


@pytest.mark.parametrize("ended", [True, False])
def test_only_a_call_without_an_outcome_is_put_back(host, monkeypatch, ended):
    """As systemd has it done once the process is gone."""
    started = []
    monkeypatch.setattr(unit, "start", lambda *given: started.append(given))
    monkeypatch.setattr(calls, "BEGIN_SECONDS", 0.0)
    monkeypatch.setattr(calls, "remove", lambda folder: None)
    monkeypatch.setattr(unit, "end", lambda *_: None)
    with pytest.raises(Failed, match="did not begin"):
        host.attend()
    [(_, folder, command, done)] = started
    if ended:
        calls.write(folder / calls.OUTCOME, {"status": "ok"})
    assert subprocess.run(unit.put_back_command(command, done), cwd="/").returncode == 0
    assert not (folder / calls.CODE).exists()
    outcome = calls.read(folder / calls.OUTCOME)
    assert outcome is not None
    assert outcome["status"] == ("ok" if ended else "failed")


def test_every_module_that_can_be_detached_gives_what_is_done_of_nothing():
    import joulerig_precondition
    import joulerig_run

    for work in (joulerig_run.work(), joulerig_precondition.work()):
        assert work.empty() is not work.empty()
        assert work.empty()["status"] == "ok"
        assert not work.empty()["changed"]
        assert json.dumps(work.empty())


MODULES = {"joulerig_run": "runs.one_run", "joulerig_precondition": "preconditioning.steps"}


def loaded(program: str) -> set[str]:
    """Return the modules that Python has loaded after a program."""
    whole = f"import sys; import tests.support.fake_host; {program}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", whole], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", MODULES)
def test_the_work_of_a_call_starts_without_what_only_ansible_needs(module):
    """Ansible's part of a module takes longer to load than all of ours."""
    found = loaded(f"import {module}; {module}.work()")
    assert f"ansible.module_utils.joulerig.{MODULES[module]}" in found
    assert "ansible.module_utils.basic" not in found


@pytest.mark.parametrize("module", MODULES)
def test_what_waits_for_a_call_starts_without_the_work(module):
    found = loaded(f"import {module}")
    assert "ansible.module_utils.joulerig.detached.calls" in found
    assert (
        not {f"ansible.module_utils.joulerig.{one}" for one in (MODULES[module], "drives.wipe_lease")} & found
    )


def test_ansible_sends_the_work_with_the_module():
    """It looks for imports in the source, wherever they stand."""
    from ansible.executor.module_common import ModuleDepFinder

    for module, work in MODULES.items():
        source = (ROOT / f"ansible/modules/{module}.py").read_text()
        finder = ModuleDepFinder(f"ansible.modules.{module}", ast.parse(source))
        assert ("ansible", "module_utils", "joulerig", *work.split(".")) in finder.submodules
