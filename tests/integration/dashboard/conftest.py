# SPDX-License-Identifier: GPL-3.0-or-later
"""The page as a person sees it: Debian's Chromium, the real server, a real InfluxDB fed live."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from joulerig.virtuallab.clock import shared
from joulerig.virtuallab.clock.page import LabClock
from tests.support.dashboard_feed import RAILS, Feed
from tests.support.dashboard_lab import Lab
from tests.support.dashboard_page import launch
from tests.support.dashboard_powerd import Powerd, meter
from tests.support.dashboard_server import Dashboard
from tests.support.influxd import Influxd


@pytest.fixture
def lab(influxd: Influxd, tmp_path: Path) -> Iterator[Lab]:
    dashboard = Dashboard(tmp_path, influxd.url)
    feed = Feed(influxd.write, noise=False)
    powerd = Powerd(dashboard.socket, [meter(name) for name in sorted({rail[2] for rail in RAILS})])
    lab = Lab(influxd, feed, powerd, dashboard)
    feed.backfill(5)
    feed.start()
    try:
        dashboard.start()
        yield lab
        assert "Traceback" not in dashboard.log(), dashboard.log()
    finally:
        dashboard.stop()
        feed.stop()
        powerd.stop()
        for journal in lab.journals:
            journal.close()


@pytest.fixture
def slow_lab(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabClock]:
    """The clock of a virtual lab, which the dashboard goes by."""
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    clock = LabClock.create(shared.page())
    lab.dashboard.stop()
    lab.dashboard.settings["virtual"] = True
    lab.dashboard.start()
    yield clock
    clock.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("websocket", lambda socket: requests.append(socket.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    if folder := os.environ.get("DASHBOARD_SCREENSHOTS"):
        page.screenshot(
            path=Path(folder) / f"{os.environ['PYTEST_CURRENT_TEST'].split('::')[1].split(' ')[0]}.png"
        )
    page.close()
    assert requests
    assert {urlsplit(url).hostname for url in requests} == {"127.0.0.1"}
    assert errors == []
