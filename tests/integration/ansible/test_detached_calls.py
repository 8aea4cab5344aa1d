# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that outlive the connection by which they were asked for, as real processes.

The archive is made as Ansible makes one, with a module whose work a test can hold up. This machine
has no systemd: `make test`'s virtual lab has the units.
"""

from __future__ import annotations

import json
import os
import re
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
from ansible.module_utils.joulerig.detached import calls, unit
from ansible.module_utils.joulerig.tools import Failed
from tests.support import ROOT
from tests.support.programs import wait_for

UTILS = ROOT / "ansible/module_utils/joulerig"
MODULE = """
import os, pathlib, subprocess, time
from ansible.module_utils.joulerig import leftovers
from ansible.module_utils.joulerig.tools import Busy, Failed, Refused

def empty():
    return {"changed": False, "status": "ok", "reason": ""}

def execute(p, result):
    pathlib.Path(p["began"]).open("a").write("began\\n")
    if p.get("refuse"):
        raise Refused("not this drive")
    if p.get("busy"):
        raise Busy("another run")
    if p.get("crash"):
        raise RuntimeError("a mistake")
    result["changed"] = True
    left = leftovers.Leftovers()
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
                archive.writestr(f"ansible/module_utils/joulerig/{path.relative_to(UTILS)}", moved)
            archive.writestr("ansible/legacy/stand_in.py", MODULE)

    def attend(
        self, name: str = "c-0001.1", *, begin: bool = True, output: int = 1, **more: Any
    ) -> dict[str, Any]:
        parameters = {"began": str(self.began), "until": str(self.until), **more}
        return calls.attend(name, "ansible.legacy.stand_in", parameters, begin=begin, output=output)

    def begin(self, **more: Any) -> threading.Thread:
        """Attend a call from a connection that goes on meanwhile."""
        thread = threading.Thread(target=self.attend, kwargs=more, daemon=True)
        thread.start()
        wait_for(self.began.exists, 20, "the call began")
        return thread

    def state(self, name: str = "c-0001.1") -> dict[str, Any]:
        return calls.Call(name).state or {}


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path)
    monkeypatch.setattr(paths, "STATE", str(tmp_path / "var/lib/joulerig"))
    monkeypatch.setattr(calls, "code", lambda: str(made.archive))
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
        calls.code()


def test_the_unit_has_what_a_load_needs_and_puts_back_what_is_left(host, monkeypatch, tmp_path):
    """systemd's own way, by the command line that it gets."""
    programs, asked = tmp_path / "bin", tmp_path / "asked"
    programs.mkdir()
    (programs / "systemd-run").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{asked}\n')
    (programs / "systemd-run").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "no-systemd").mkdir()
    unit.start("c-0001.1", tmp_path, ["/usr/bin/python3", "-c", 'print("50 %", "$HOME")'])
    words = asked.read_text().splitlines()
    assert words[-4:] == ["/usr/bin/python3", "-c", 'print("50 %", "$HOME")', "run"]
    properties = {word.removeprefix("--property=") for word in words if word.startswith("--property=")}
    assert {"KillMode=mixed", "OOMPolicy=continue", "TasksMax=infinity"} <= properties
    [after] = [one for one in properties if one.startswith("ExecStopPost=")]
    assert after == r'ExecStopPost="/usr/bin/python3" "-c" "print(\"50 %%\", \"$$HOME\")" "after"'


def test_every_module_that_can_be_detached_gives_what_is_done_of_nothing():
    import joulerig_precondition
    import joulerig_run

    for module in (joulerig_run, joulerig_precondition):
        assert module.empty() is not module.empty()
        assert module.empty()["status"] == "ok"
        assert not module.empty()["changed"]
        assert json.dumps(module.empty())
