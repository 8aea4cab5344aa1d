# SPDX-License-Identifier: GPL-3.0-or-later
"""The controls of the Campaign page, with a real token and a real journal."""

from __future__ import annotations

import os
import time

import pytest
from playwright.sync_api import Page, expect

from joulerig.rig.common import process
from tests.support.dashboard_journal import WritableJournal
from tests.support.dashboard_lab import Lab
from tests.support.dashboard_page import wait_for

SECOND = 1_000_000_000
TOKEN = "a-token-of-this-test"


@pytest.fixture
def journal(lab: Lab) -> WritableJournal:
    """Of a campaign that this process executes, before a dashboard that has a token."""
    folder = lab.dashboard.folder
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "var").mkdir(mode=0o700)
    lab.dashboard.stop()
    lab.dashboard.settings |= {"control_token_file": str(folder / "token"), "state_dir": str(folder / "var")}
    lab.dashboard.start()
    journal = lab.journal(virtual=False)
    first, second, *_ = journal.plan()
    now = time.time_ns()
    journal.begin(first, now - 60 * SECOND)
    journal.insert("attempt", run=second, number=1, started_ns=1, ended_ns=2, status="failed", cause="error")
    journal.end(second, now - 30 * SECOND, "failed", "exit code 1")
    journal.database.execute("UPDATE campaign SET executor = ?", (process.identity(os.getpid()),))
    return journal


def asked(journal: WritableJournal) -> str | None:
    return journal.database.execute("SELECT asked FROM campaign").fetchone()[0]


def press(page: Page, name: str) -> None:
    page.locator("#controls").get_by_role("button", name=name, exact=True).click()


def give(page: Page, token: str) -> None:
    field = page.get_by_label("Token")
    expect(field).to_be_focused()
    field.fill(token)
    field.press("Enter")


def expect_answer(page: Page, text: str) -> None:
    expect(page.locator("#control-answer")).to_contain_text(text)


def test_a_campaign_is_paused_goes_on_and_is_stopped(lab: Lab, journal: WritableJournal, page: Page):
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(lab.dashboard.url + "campaign")
    press(page, "Pause after this run")
    give(page, "wrong")
    expect_answer(page, "✕ this needs the dashboard's token")
    assert asked(journal) is None
    press(page, "Pause after this run")
    give(page, TOKEN)
    expect_answer(page, f"✓ {journal.campaign}: is paused after what runs now")
    assert asked(journal) == "pause"
    expect(page.locator("#token-form")).to_be_hidden()
    expect(page.locator("#events")).to_contain_text("by the dashboard")

    page.reload()  # the tab keeps the token
    press(page, "Resume")
    expect_answer(page, "goes on")
    assert asked(journal) is None
    page.once("dialog", lambda dialog: dialog.dismiss())
    press(page, "Stop after this run")
    assert asked(journal) is None
    page.once("dialog", lambda dialog: dialog.accept())
    press(page, "Stop after this run")
    expect_answer(page, "stops after what runs now")
    assert asked(journal) == "stop"

    assert not [address for address in addresses if TOKEN in address]
    assert TOKEN not in page.content()
    assert page.get_by_label("Token").input_value() == ""
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert TOKEN not in lab.dashboard.log()


def test_a_run_is_retried_once_no_process_executes_it(lab: Lab, journal: WritableJournal, page: Page):
    page.goto(lab.dashboard.url + "campaign")
    expect(page.get_by_label("Run to retry")).to_have_text("run 2, failed")
    expect(page.locator("#failures")).to_contain_text("exit code 1")
    press(page, "Retry a run")
    give(page, TOKEN)
    expect_answer(page, "is executed by process")
    journal.database.execute("UPDATE campaign SET executor = NULL")
    press(page, "Retry a run")
    expect_answer(page, "is planned again; resume the campaign to execute it")
    (status,) = journal.database.execute("SELECT status FROM run WHERE ordinal = 2").fetchone()
    assert status == "planned"
    expect(page.locator("#failures")).to_have_text("None.")
    wait_for(page, "document.querySelector('[data-action=retry]').disabled")
