# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pages say of a campaign while a part of its lab is away, and that they are whole then.

A real campaign, its drive under load each time; Debian's Chromium, headless.
"""

from __future__ import annotations

import itertools
import re
import signal
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from joulerig.analysis.results.schema import Status
from joulerig.rig.common import supervisor
from joulerig.rig.controller import services
from tests.support import programs
from tests.support.dashboard_page import launch, wait_for
from tests.support.kept_campaign import KeptCampaign
from tests.support.kills import controllers, end
from tests.support.lab_driver import FACTORS, Lab, takes_minutes

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(2400), takes_minutes]

DRIVE, TAP, METER = "sata-consumer", "tap-tap1", "tap1b"
ON_TAP = 4  # drives
PATIENCE = 400_000  # ms: of an emulated host among other tests
END_SECONDS = 900
AWAY_SECONDS = 8
SHOWN_SECONDS = 60  # of the traces of power
GAP_SECONDS = 1.0  # a longer stretch without a point is a gap
CURRENT = '#hosts li[aria-current="step"]'


@pytest.fixture(scope="module")
def campaign(lab: Lab) -> Iterator[KeptCampaign]:
    """A campaign of three runs, each with a load of 20 s, which begins."""
    playbook = lab.playbook(
        name="watched",
        drives=[DRIVE],
        factors={**FACTORS, "filesystem": ["ext4", "f2fs", "xfs"]},
        phases={"rest_seconds": 0, "idle_seconds": 1, "workload_seconds": 20, "tail_seconds": 1},
    )
    begun = KeptCampaign(lab, playbook)
    begun.keep_going()
    yield begun
    programs.wait_for(begun.is_left, END_SECONDS, "its end")  # else it would have the host of later tests


@pytest.fixture(scope="module")
def page(lab: Lab) -> Iterator[Page]:
    """The page Live, open all the time."""
    with sync_playwright() as playwright, lab.state():
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(services.dashboard_url())
        yield page
        browser.close()
        assert errors == []


@pytest.fixture(scope="module")
def notices(page: Page):
    return page.locator("#notices")


@pytest.fixture(scope="module")
def total(page: Page):
    """The watts that the page has of the drive."""
    return page.locator(f'.card[data-drive="{DRIVE}"] .total')


def under_load(page: Page, but: str = "") -> str:
    """Wait until a run, other than that of this line, is in its workload; return its line."""
    line = page.locator("#hosts .run-id")
    expect(line).not_to_have_text(but or "?", timeout=PATIENCE)
    expect(page.locator(CURRENT)).to_have_class(re.compile("phase-workload"), timeout=PATIENCE)
    return line.inner_text()


def gaps_of_data(lab: Lab, end: float) -> float:
    """The seconds of gaps in what InfluxDB has of the drives, in the minute up to `end`."""
    first, last = (int(1e9 * at) for at in (end - SHOWN_SECONDS, end))
    with lab.database() as database:
        points = database.query(
            f"SELECT watts FROM power WHERE time >= {first} AND time <= {last} GROUP BY drive, rail"
        )
    missing = 0.0
    for _, of_drive in points.group_by("drive"):
        stretches: list[tuple[int, int]] = []
        for _, rail in of_drive.group_by("rail"):
            times = rail["time"].sort().to_list()
            stretches += [(a, b) for a, b in itertools.pairwise(times) if b - a > GAP_SECONDS * 1e9]
        reached = 0
        for begin, stop in sorted(stretches):  # the rails of a drive, as one
            missing += max(0, stop - max(begin, reached)) / 1e9
            reached = max(reached, stop)
    return missing


def assert_whole(lab: Lab, page: Page, least: float = 0.0) -> None:
    """The traces reach to now, and their gaps are the data's, of at least `least` seconds."""
    wait_for(page, "rigStats.drawn_until > rigNow() - 3", 60)
    seen = []
    for _ in range(20):  # a gap's begin may be just out of what is shown
        shown, until = page.evaluate("[rigStats.gap_seconds, rigStats.drawn_until]")
        seen.append((round(shown, 2), round(gaps_of_data(lab, until), 2)))
        if abs(seen[-1][0] - seen[-1][1]) <= 0.2 * ON_TAP and min(seen[-1]) >= least:
            return
        page.wait_for_timeout(500)
    raise AssertionError(f"seconds of gaps that the page shows, and that the data have: {seen}")


@pytest.fixture(scope="module")
def without_influxdb(lab: Lab, campaign: KeptCampaign, page: Page, notices, total) -> str:
    """InfluxDB stops under load, and comes back; the line of the run."""
    line = under_load(page)
    expect(total).not_to_have_text("–", timeout=PATIENCE)
    supervisor.halt("influxd")
    expect(notices).to_contain_text(
        re.compile(rf"InfluxDB cannot be reached.*No new figures for ([{AWAY_SECONDS}-9]|\d\d) s; retrying"),
        timeout=PATIENCE,
    )
    expect(total).to_have_text("–", timeout=PATIENCE)
    supervisor.restart("influxd")
    expect(notices).not_to_contain_text("InfluxDB", timeout=PATIENCE)
    expect(total).not_to_have_text("–", timeout=PATIENCE)
    return line


def test_influxdb_stops_and_comes_back(lab: Lab, page: Page, without_influxdb):
    assert_whole(lab, page)
    assert page.evaluate("rigStats.gap_seconds") == 0, "what was measured meanwhile has come"


@pytest.fixture(scope="module")
def without_meter(lab: Lab, campaign: KeptCampaign, page: Page, notices, total, without_influxdb) -> str:
    """The tap falls silent under the next run's load, and is heard again; the line of that run."""
    line = under_load(page, but=without_influxdb)
    supervisor.halt(TAP)
    try:
        expect(notices).to_contain_text(
            re.compile(rf"Meter {METER} is (silent|failed).*The energy of .*{DRIVE} 5v.* is not measured"),
            timeout=PATIENCE,
        )
        expect(total).to_have_text("–", timeout=PATIENCE)
        time.sleep(AWAY_SECONDS)
    finally:
        supervisor.restart(TAP)
    expect(notices).not_to_contain_text(METER, timeout=PATIENCE)
    expect(total).not_to_have_text("–", timeout=PATIENCE)
    return line


def test_a_meter_falls_silent_and_is_heard_again(lab: Lab, page: Page, without_meter):
    assert_whole(lab, page, least=ON_TAP * AWAY_SECONDS)


@pytest.fixture(scope="module")
def after_restart(lab: Lab, page: Page, notices, total, without_meter) -> None:
    """All that runs on the controller ends under load, and its services are started again."""
    under_load(page, but=without_meter)
    end(signal.SIGKILL, controllers(lab))
    for name in reversed(services.PROCESSES):
        supervisor.halt(name)
    expect(page.locator("#link")).to_contain_text("reconnecting", timeout=PATIENCE)
    expect(notices).to_contain_text(
        re.compile(r"The dashboard's server does not answer; the figures here are \d+ s old"),
        timeout=PATIENCE,
    )
    done = lab.rig("up")
    assert done.returncode == 0, done.stderr
    expect(page.locator("#link")).to_contain_text("live", timeout=PATIENCE)
    expect(notices).not_to_contain_text("does not answer", timeout=PATIENCE)
    expect(total).not_to_have_text("–", timeout=PATIENCE)


def test_the_controller_restarts(lab: Lab, campaign: KeptCampaign, page: Page, after_restart):
    assert_whole(lab, page)
    done = page.locator("#done")
    before = done.inner_text()
    campaign.keep_going()  # rig run --resume
    expect(done).not_to_have_text(before, timeout=2 * PATIENCE)
    expect(page.locator("#notices")).to_have_text("", timeout=PATIENCE)


def test_the_pages_show_how_the_campaign_ended(lab: Lab, campaign: KeptCampaign, page: Page, after_restart):
    campaign.complete()
    assert campaign.counts() == {Status.OK: 3}
    assert all(run["truth_within"] for run in lab.results_of(campaign.id)["runs"])
    page.goto(services.dashboard_url() + "campaign")
    expect(page.locator("#done")).to_have_text("3", timeout=PATIENCE)
    expect(page.locator("#failures")).to_contain_text("None.", timeout=PATIENCE)
    expect(page.locator("#events")).to_contain_text(METER, timeout=PATIENCE)  # why a run was partial
