# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may change something on the dashboard, and what of it is done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from joulerig.rig.campaign import origin
from joulerig.rig.campaign.control import detached
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from joulerig.rig.dashboard import config
from joulerig.rig.dashboard.api.control import Asked, Control, Token
from tests.support.dashboard_journal import WritableJournal

NAME = "demo-20261113-120000"
T0 = 1_794_600_000_000_000_000
SECRET = "a-token-of-this-test"


@pytest.mark.parametrize("header", [f"Bearer {SECRET}", f"bearer  {SECRET} "])
def test_the_token_admits(header):
    assert Token(SECRET).admits(header)


@pytest.mark.parametrize(
    "header",
    ["", SECRET, f"Basic {SECRET}", "Bearer", "Bearer ", f"Bearer {SECRET}x", f"Bearer {SECRET[:-1]}",
     "Bearer ünicode-tökén", f"Bearer {SECRET} {SECRET}", "Bearer " + "x" * 10_000],
)  # fmt: skip
def test_nothing_else_does(header):
    assert not Token(SECRET).admits(header)


def settings(tmp_path: Path, **more: object) -> config.Config:
    influx = {
        "url": "http://127.0.0.1:1",
        "database": "d",
        "username": "u",
        "password_file": str(tmp_path / "p"),
    }
    given = {"listen": "127.0.0.1:0", "results_dir": "r", "influx": influx, "powerd_status_socket": "s"}
    return config.Config.model_validate({**given, **more})


def test_without_a_token_nothing_can_be_changed(tmp_path):
    assert config.control_token(settings(tmp_path), tmp_path / "c.json") is None


def test_the_token_is_the_files_content(tmp_path):
    (tmp_path / "token").write_text(f"{SECRET}\n")
    found = config.control_token(settings(tmp_path, control_token_file=str(tmp_path / "token")), tmp_path)
    assert found == SECRET


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), ("", "has 0 characters"), ("abc", "has 3")]
)
def test_a_token_that_is_none_is_refused_in_one_line(tmp_path, content, why):
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(UserError, match=f"control_token_file: .*token: {why}") as refused:
        config.control_token(
            settings(tmp_path, control_token_file=str(tmp_path / "token")), tmp_path / "c.json"
        )
    assert "\n" not in str(refused.value)
    assert "abc" not in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [{}, {"campaign": "x"}, {"campaign": "x", "action": "wipe"}, {"campaign": "", "action": "stop"},
     {"campaign": "x" * 201, "action": "stop"}, {"campaign": "../x", "action": "stop"},
     {"campaign": "{{ 7*7 }}", "action": "resume"}, {"campaign": "x", "action": "retry", "run": "../x"}, {"campaign": 3, "action": "stop"},
     {"campaign": "x", "action": "stop", "now": True}, [], "stop", None],
)  # fmt: skip
def test_what_is_asked_is_one_of_four_things(body):
    with pytest.raises(ValidationError):
        Asked.model_validate(body)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WritableJournal]:
    written = WritableJournal(tmp_path, NAME, T0, virtual=False)
    written.plan()
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    with closing(Journal(written.folder)) as journal:
        origin.record(journal, Path(__file__))
    yield written
    written.close()


def do(controlled: Control, action: str, run: str | None = None) -> str:
    return controlled.do(Asked.model_validate({"campaign": NAME, "action": action, "run": run}))


def control(written: WritableJournal) -> Control:
    return Control(written.folder.parent, paths.var(), {})


def asked(written: WritableJournal) -> list[dict]:
    rows = written.database.execute("SELECT detail FROM event WHERE event = 'asked' ORDER BY seq")
    return [json.loads(row[0]) for row in rows]


def test_a_campaign_that_is_executed_is_held_and_goes_on(written):
    written.database.execute("UPDATE campaign SET executor = ?", (process.identity(os.getpid()),))
    said = [do(control(written), action) for action in ("pause", "resume", "stop")]
    assert said == ["is paused after what runs now", "goes on", "stops after what runs now"]
    assert [one["to"] for one in asked(written)] == ["pause", "go on", "stop"]
    assert {one["by"] for one in asked(written)} == {"the dashboard"}


def test_a_run_is_named_where_one_is_retried_and_only_there(written):
    with pytest.raises(UserError, match="run: missing; allowed: the id or the number of a run"):
        do(control(written), "retry")
    with pytest.raises(UserError, match="run: only with retry"):
        do(control(written), "stop", "1")
    with pytest.raises(UserError, match="no run 'x'"):
        do(control(written), "retry", "x")
    with pytest.raises(UserError, match="is planned; allowed: failed"):
        do(control(written), "retry", "1")


def test_what_no_process_executes_is_resumed_once(written, monkeypatch):
    started = []

    def start(words, log, environment):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("rig: InfluxDB does not answer\n")
        started.append(subprocess.Popen([sys.executable, "-c", "input(); exit(2)"], stdin=subprocess.PIPE))
        return started[-1]

    monkeypatch.setattr(detached, "start", start)
    controlled = control(written)
    assert controlled.resuming(NAME) is None
    assert do(controlled, "resume") == "is resumed"
    assert asked(written) == [{"to": "resume", "by": "the dashboard"}]
    assert controlled.resuming(NAME) == {"state": "started", "why": ""}
    with pytest.raises(UserError, match="is being resumed already"):
        do(controlled, "resume")
    started[0].communicate(b"\n", timeout=60)
    assert controlled.resuming(NAME) == {"state": "failed", "why": "rig: InfluxDB does not answer"}
    do(controlled, "resume")
    assert len(started) == 2
    started[1].communicate(b"\n", timeout=60)
