# SPDX-License-Identifier: GPL-3.0-or-later
"""What pages show while a part of the lab is away, and that they are whole once it is back."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.support.dashboard_feed import HOST, RAILS
from tests.support.dashboard_lab import Lab
from tests.support.dashboard_page import PATIENCE_MS, wait_for
from tests.support.dashboard_powerd import Powerd, meter

SECOND = 1_000_000_000
LONG = "#long .key"


def total(page: Page, drive: str):
    return page.locator(f'.card[data-drive="{drive}"] .total')


def wait_until_whole(page: Page) -> None:
    """The traces of power reach to now, and no drive's has a gap."""
    wait_for(page, "rigStats.drawn_until > rigNow() - 3 && rigStats.gap_seconds === 0", 60)


def test_influxdb_goes_and_comes_back(lab: Lab, page: Page):
    page.goto(lab.dashboard.url)
    expect(total(page, "nvme-plp")).to_have_text("5.00")
    expect(page.locator(LONG)).to_contain_text("line: mean")
    lab.influxd.stop()
    notices = page.locator("#notices")
    expect(notices).to_contain_text(
        re.compile(r"InfluxDB cannot be reached.*No new figures for \d+ s; retrying")
    )
    expect(total(page, "nvme-plp")).to_have_text("–")  # an old value is not now's
    page.locator("#long").get_by_role("button", name="earlier").click()  # a view that does not follow
    expect(page.locator(LONG)).to_contain_text("what is drawn is older")
    before = page.evaluate("rigStats.frames")
    wait_for(page, f"rigStats.frames > {before} + 4")
    lab.feed.loaded.add("nvme-plp")
    lab.influxd.start()
    expect(notices).not_to_contain_text("InfluxDB")
    expect(total(page, "nvme-plp")).to_have_text("9.00")
    wait_until_whole(page)
    expect(page.locator(LONG)).not_to_contain_text("what is drawn is older")
    assert page.evaluate("rigStats.reconnects") == 0, "the page's own connection has nothing to do with it"


@pytest.mark.long
def test_the_page_comes_back_when_the_dashboard_does(lab: Lab, page: Page):
    journal = lab.journal()
    journal.plan()
    page.goto(lab.dashboard.url)
    wait_for(page, "window.rigStats?.frames > 2")
    expect(total(page, "nvme-plp")).to_have_text("5.00")
    lab.dashboard.stop()
    expect(page.locator("#link")).to_contain_text("reconnecting")
    expect(page.locator("#notices")).to_contain_text(re.compile(r"the figures here are \d+ s old"))
    grey = page.locator(".card .unit").first.evaluate("one => getComputedStyle(one).color")
    expect(total(page, "nvme-plp")).to_have_css("color", grey)
    lab.dashboard.start()
    wait_for(page, "rigStats.reconnects === 1")
    frames = page.evaluate("rigStats.frames")
    wait_for(page, f"rigStats.frames > {frames} + 4")
    expect(page.locator("#link")).to_contain_text("live")
    expect(total(page, "nvme-plp")).not_to_have_css("color", grey)
    expect(page.locator("#queue .run")).to_have_count(4)
    wait_until_whole(page)


@pytest.mark.long
def test_the_controller_restarts_with_all_that_runs_on_it(lab: Lab, page: Page):
    lab.journal().plan()
    page.goto(lab.dashboard.url)
    expect(total(page, "nvme-plp")).to_have_text("5.00")
    meters = list(lab.powerd.meters.values())
    lab.dashboard.stop()
    lab.influxd.stop()
    lab.powerd.stop()
    lab.dashboard.socket.unlink()
    expect(page.locator("#notices")).to_contain_text("The dashboard's server does not answer")
    lab.dashboard.start()
    wait_for(page, "rigStats.reconnects >= 1", 30)
    notices = page.locator("#notices")
    expect(notices).to_contain_text("InfluxDB cannot be reached")
    expect(notices).to_contain_text("Meters' state unknown")
    lab.powerd = Powerd(lab.dashboard.socket, meters)
    lab.influxd.start()
    expect(notices).to_have_text("", timeout=2 * PATIENCE_MS)
    expect(total(page, "nvme-plp")).to_have_text("5.00")
    wait_until_whole(page)


@pytest.mark.long
def test_points_that_come_in_batches_are_no_silence(lab: Lab, page: Page):
    lab.feed.batch_seconds = 3.0  # as late as powerd may be
    page.goto(lab.dashboard.url)
    expect(total(page, "sata-plp")).to_have_text("1.40")
    seen = set()
    end = time.monotonic() + 7
    while time.monotonic() < end:
        seen.add(total(page, "sata-plp").inner_text())
        page.wait_for_timeout(200)
    assert seen == {"1.40"}
    expect(page.locator('.card[data-drive="sata-plp"] .trust')).not_to_contain_text("no reading")


@pytest.mark.long
def test_a_silent_meter_is_named_and_its_rails_show_no_value(lab: Lab, page: Page):
    page.goto(lab.dashboard.url)
    expect(total(page, "sata-plp")).to_have_text("1.40")
    wait_until_whole(page)
    lab.feed.silent.add("tap1b")
    silent_since = time.monotonic()
    rails = [{"drive": drive, "rail": rail} for drive, rail, by, *_ in RAILS if by == "tap1b"]
    lab.powerd.meters["tap1b"] = meter(
        "tap1b", "silent", "no frame for 5 s", lost=5000, gap_seconds=5.0, rails=rails
    )
    expect(page.locator('#meters tr[data-meter="tap1a"]')).to_contain_text("● balanced")
    notices = page.locator("#notices")
    expect(notices).to_contain_text(
        "Meter tap1b is silent: no frame for 5 s."
        " The energy of sata-plp 5v, sata-consumer 5v is not measured, so runs there are partial."
    )
    expect(page.locator('#meters tr[data-meter="tap1b"]')).to_contain_text("5.00 %")
    expect(page.locator('#meters tr[data-meter="tap1b"]')).to_contain_text("▲ -5000 unaccounted for")
    expect(page.locator('.card[data-drive="sata-plp"] .trust')).to_contain_text(
        re.compile(r"silent for \d+ s: no frame for 5 s")
    )
    expect(total(page, "sata-plp")).to_have_text("–")
    expect(total(page, "nvme-plp")).to_have_text("5.00")

    lab.feed.silent.clear()
    silent_seconds = time.monotonic() - silent_since
    lab.powerd.meters["tap1b"] = meter("tap1b")
    expect(notices).not_to_contain_text("tap1b")
    expect(total(page, "sata-plp")).to_have_text("1.40")
    gaps = wait_for(page, "rigStats.gap_seconds", 30)
    assert gaps == pytest.approx(2 * silent_seconds, abs=2), "of the two drives at this meter, and no other"

    lab.powerd.stop()
    expect(notices).to_contain_text("the power daemon does not answer")


@pytest.mark.long
def test_a_silent_agent_is_named_and_its_drives_show_no_rate(lab: Lab, page: Page):
    page.goto(lab.dashboard.url)
    writes = page.locator('#drives tr[data-drive="nvme-plp"] td').nth(2)
    expect(writes).to_have_text("0")
    lab.feed.silent.add(HOST)
    expect(page.locator("#notices")).to_contain_text(
        f"No I/O figures of host {HOST} for 10 s: no agent there reports", timeout=2 * PATIENCE_MS
    )
    expect(writes).to_have_text("–")
    expect(page.locator('.card[data-drive="nvme-plp"] .latency')).to_have_text("requests: no figures now")
    expect(total(page, "nvme-plp")).to_have_text("5.00")
    lab.feed.silent.clear()
    expect(page.locator("#notices")).not_to_contain_text(HOST)
    expect(writes).to_have_text("0")


@pytest.mark.long
@pytest.mark.parametrize("path", ["", "campaign"])
def test_a_page_asleep_for_an_hour_recovers(lab: Lab, page: Page, path: str):
    """Its clock goes on an hour at once, as of a laptop that is opened again."""
    journal = lab.journal()
    run, *_ = journal.plan()
    journal.begin(run, time.time_ns() - 60 * SECOND)
    page.clock.install()
    page.goto(lab.dashboard.url + path)
    wait_for(page, "window.rigStats?.frames > 4")
    expect(page.locator("#done")).to_have_text("0")
    journal.end(run, time.time_ns(), ops=20000, joules=100.0)
    page.clock.fast_forward("01:00:00")
    wait_for(page, "rigStats.reconnects === 1", 30)
    expect(page.locator("#link")).to_contain_text("live")
    expect(page.locator("#done")).to_have_text("1")
    expect(page.locator("#notices")).not_to_contain_text("does not answer")
    if path == "campaign":
        expect(page.locator(".plan")).to_contain_text("200 ops/J")
    else:
        wait_until_whole(page)
        expect(total(page, "nvme-plp")).to_have_text("5.00")
    assert page.evaluate("rigNow()") == pytest.approx(time.time(), abs=5), "the lab's time, not the page's"


@pytest.mark.long
def test_a_page_that_the_browser_freezes_recovers(lab: Lab, page: Page):
    page.goto(lab.dashboard.url)
    expect(total(page, "nvme-plp")).to_have_text("5.00")
    session = page.context.new_cdp_session(page)
    session.send("Page.setWebLifecycleState", {"state": "frozen"})
    lab.feed.loaded.add("nvme-plp")
    time.sleep(20)  # longer than the page waits for its server
    session.send("Page.setWebLifecycleState", {"state": "active"})
    expect(total(page, "nvme-plp")).to_have_text("9.00")
    wait_until_whole(page)
    expect(page.locator("#link")).to_contain_text("live")


@pytest.mark.long
def test_a_connection_that_dies_in_silence_is_replaced(lab: Lab, page: Page):
    """As through a router that forgets it: nothing comes any more, and nothing closes it."""
    held: list[bool] = []

    def between(route) -> None:
        server = route.connect_to_server()
        mine = len(held)
        held.append(False)
        route.on_message(server.send)
        server.on_message(lambda message: held[mine] or route.send(message))
        route.on_close(lambda code, reason: None)

    page.route_web_socket(re.compile("/live"), between)
    page.goto(lab.dashboard.url)
    expect(total(page, "nvme-plp")).to_have_text("5.00")
    held[0] = True
    expect(page.locator("#link")).to_contain_text("reconnecting")
    expect(page.locator("#notices")).to_contain_text(re.compile(r"the figures here are \d+ s old"))
    wait_for(page, "rigStats.reconnects === 1", 40)
    expect(page.locator("#notices")).not_to_contain_text("does not answer")
    wait_until_whole(page)
