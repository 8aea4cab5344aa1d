# SPDX-License-Identifier: GPL-3.0-or-later
"""Controls of the real server: what the token lets a page do, and what is refused without harm."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from joulerig.rig.campaign import origin
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process
from tests.support import ROOT
from tests.support.dashboard_journal import WritableJournal
from tests.support.dashboard_server import Dashboard
from tests.support.programs import free_port, wait_for

NAME = "demo-20261126-120000"
TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    tmp_path = tmp_path_factory.mktemp("control")
    dashboard = Dashboard(tmp_path, f"http://127.0.0.1:{free_port()}")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "var").mkdir(mode=0o700)
    dashboard.settings |= {"control_token_file": str(tmp_path / "token"), "state_dir": str(tmp_path / "var")}
    dashboard.start()
    yield dashboard
    dashboard.stop()


@pytest.fixture
def journal(dashboard: Dashboard) -> Iterator[WritableJournal]:
    journal = WritableJournal(dashboard.results, NAME, time.time_ns(), virtual=False)
    journal.plan()
    journal.database.execute("UPDATE campaign SET executor = ?", (process.identity(os.getpid()),))
    yield journal
    journal.close()
    shutil.rmtree(journal.folder)


def post(dashboard: Dashboard, body: object, **headers: str) -> httpx.Response:
    given = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    address = f"{dashboard.url}api/control"
    return httpx.post(address, content=content, headers=given, trust_env=False, timeout=60)


def ask(dashboard: Dashboard, action: str, **more: str) -> httpx.Response:
    return post(dashboard, {"campaign": NAME, "action": action, **more})


def state(journal: WritableJournal) -> tuple[object, list[str]]:
    (asked,) = journal.database.execute("SELECT asked FROM campaign").fetchone()
    rows = journal.database.execute("SELECT detail FROM event WHERE event = 'asked' ORDER BY seq")
    return asked, [row[0] for row in rows]


def test_a_campaign_is_paused_goes_on_and_is_stopped(dashboard: Dashboard, journal: WritableJournal):
    answer = ask(dashboard, "pause")
    assert (answer.status_code, answer.json()["text"]) == (200, "is paused after what runs now")
    assert state(journal)[0] == "pause"
    campaigns = httpx.get(f"{dashboard.url}api/campaigns", trust_env=False, timeout=60).json()
    assert campaigns["control"] is True
    assert ask(dashboard, "resume").json()["text"] == "goes on"
    assert state(journal)[0] is None
    assert ask(dashboard, "stop").json()["text"] == "stops after what runs now"
    assert state(journal)[0] == "stop"
    assert [json.loads(one) for one in state(journal)[1]] == [
        {"to": to, "by": "the dashboard"} for to in ("pause", "go on", "stop")
    ]


@pytest.mark.long
def test_a_run_is_retried_once_no_process_executes_it(dashboard: Dashboard, journal: WritableJournal):
    run = f"{NAME}-0002"
    journal.insert("attempt", run=run, number=1, started_ns=1, ended_ns=2, status="failed", cause="error")
    journal.end(run, time.time_ns(), "failed", "exit code 1")
    answer = ask(dashboard, "retry", run=run)
    assert answer.status_code == 409
    assert "is executed by process" in answer.text
    journal.database.execute("UPDATE campaign SET executor = NULL")
    assert ask(dashboard, "retry", run=run).status_code == 200
    (status,) = journal.database.execute("SELECT status FROM run WHERE id = ?", (run,)).fetchone()
    assert status == "planned"


REFUSED = [
    ({}, {"authorization": ""}, 401, "this needs the dashboard's token"),
    ({}, {"authorization": "Bearer wrong"}, 401, "this needs the dashboard's token"),
    ({}, {"authorization": TOKEN}, 401, "this needs the dashboard's token"),
    ({}, {"origin": "http://evil.example"}, 403, "another site's page may not read this lab"),
    ({}, {"sec_fetch_site": "cross-site"}, 403, "another site's page may not change this lab"),
    ({}, {"host": "evil.example"}, 421, "is not this dashboard's"),
    ({}, {"content_type": "text/plain"}, 415, "allowed: application/json"),
    ({"campaign": "x" * 5000}, {}, 413, "more than 4096 bytes"),
    ({"campaign": "x" * 300}, {}, 400, "request: campaign:"),
    ({"campaign": ".."}, {}, 400, "request: campaign: '..'"),
    ({"campaign": "none"}, {}, 404, "campaign 'none': there is none of this id"),
    ({"action": "wipe"}, {}, 400, "request: action: 'wipe'; allowed: 'pause', 'resume', 'stop' or 'retry'"),
    ({"token": TOKEN}, {}, 400, "request: "),
    ({"action": "retry"}, {}, 409, "run: missing"),
]


@pytest.mark.parametrize(("change", "headers", "status", "why"), REFUSED)
def test_what_is_refused_says_so_in_one_line_and_changes_nothing(
    dashboard: Dashboard, journal: WritableJournal, change: dict, headers: dict, status: int, why: str
):
    before = list(journal.database.iterdump())
    answer = post(dashboard, {"campaign": NAME, "action": "pause", **change}, **headers)
    assert (answer.status_code, answer.text.count("\n")) == (status, 1)
    assert why in answer.text
    assert TOKEN not in answer.text
    assert len(answer.text) < 400
    assert list(journal.database.iterdump()) == before


@pytest.mark.parametrize("body", ["", "{", "[" * 4000, b"\xff\xfe", "3"])
def test_a_body_that_is_no_request_is_refused_in_one_line(dashboard: Dashboard, body: str | bytes):
    answer = post(dashboard, body)
    assert (answer.status_code, answer.text.count("\n")) == (400, 1)


def test_a_token_in_the_address_is_refused_and_in_no_log(dashboard: Dashboard, journal: WritableJournal):
    address = f"{dashboard.url}api/control?token={TOKEN}"
    answer = httpx.post(address, json={"campaign": NAME, "action": "pause"}, trust_env=False, timeout=60)
    assert (answer.status_code, answer.text) == (400, "parameter 'token': allowed: none\n")
    assert state(journal) == (None, [])
    assert TOKEN not in dashboard.log()


def test_the_token_is_in_no_reply(dashboard: Dashboard, journal: WritableJournal):
    for target in ("", "api/campaigns", f"api/campaign?campaign={NAME}", "api/rig", "metrics", "healthz"):
        answer = httpx.get(dashboard.url + target, trust_env=False, timeout=60)
        assert answer.status_code == 200
        assert TOKEN not in answer.text


def test_without_a_token_there_are_no_controls(tmp_path: Path):
    dashboard = Dashboard(tmp_path, f"http://127.0.0.1:{free_port()}")
    dashboard.start()
    try:
        answer = ask(dashboard, "pause")
        campaigns = httpx.get(f"{dashboard.url}api/campaigns", trust_env=False, timeout=60).json()
    finally:
        dashboard.stop()
    assert answer.status_code == 405
    assert answer.text == "POST: nothing can be changed here; allowed: GET, HEAD\n"
    assert campaigns["control"] is False


@pytest.mark.long
def test_a_resumption_that_fails_says_why_and_leaves_the_runs_planned(
    dashboard: Dashboard, journal: WritableJournal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JOULERIG_VAR", dashboard.settings["state_dir"])
    with closing(Journal(journal.folder)) as opened:
        origin.record(opened, ROOT / "playbooks/demo.yml")
    journal.database.execute("UPDATE campaign SET executor = NULL")
    assert ask(dashboard, "resume").json()["text"] == "is resumed"
    target = f"{dashboard.url}api/campaign?campaign={NAME}"

    def resuming() -> dict:
        return httpx.get(target, trust_env=False, timeout=60).json()["resuming"]

    # `rig run` looks for the services first; of this state folder none is up.
    wait_for(lambda: resuming()["state"] == "failed", 120, "the resumption has failed")
    assert "'rig up' starts it" in resuming()["why"]
    with sqlite3.connect(journal.folder / "journal.sqlite") as database:
        assert dict(database.execute("SELECT status, count(*) FROM run GROUP BY status")) == {"planned": 4}
