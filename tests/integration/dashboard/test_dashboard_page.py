# SPDX-License-Identifier: GPL-3.0-or-later
"""The page as a person sees it: Debian's Chromium, the real server, a real InfluxDB fed live."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import Page, expect

from joulerig.virtuallab.clock.page import LabClock
from tests.support import ROOT
from tests.support.dashboard_journal import QUESTION
from tests.support.dashboard_lab import Lab
from tests.support.dashboard_page import wait_for
from tests.support.dashboard_show import LAB

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
OVER_FOUR_SECONDS = re.compile(r"^([4-9]\.\d s|0:[1-5]\d|[1-9]\d*:\d\d)$")  # of a phase, as the page has it
BEST = "td.ai-cell.best"
# Seconds of the lab and of the page, and frames that came, in an interval of so many milliseconds.
INTERVAL = """(ms) => new Promise((done) => {
  const [frames, lab, at] = [rigStats.frames, rigNow(), performance.now()];
  setTimeout(() => done([rigNow() - lab, (performance.now() - at) / 1000, rigStats.frames - frames]), ms);
})"""
FIRST = 'td.ai-cell[data-filesystem="ext4"][data-scheduler="none"]'


def test_watts_and_rates_are_those_that_were_written(lab: Lab, page: Page):
    lab.feed.loaded.add("nvme-plp")
    page.goto(lab.dashboard.url)
    plp = '.card[data-drive="nvme-plp"]'
    expect(page.locator(f"{plp} .total")).to_have_text("9.00")
    expect(page.locator(f"{plp} .watts")).to_have_text("9.000")
    expect(page.locator('.card[data-drive="hdd-1"] .total')).to_have_text("4.70")
    expect(page.locator('.card[data-drive="hdd-1"] .rail')).to_have_text(["5v", "12v"])
    assert page.locator(".card").count() == 7
    row = page.locator('#drives tr[data-drive="nvme-plp"] td')
    figures = ["9.00", "0", "1000", "1000", "0", "4.10", "–", "200 µs", "700 µs"]
    expect(row).to_have_text(figures)
    expect(page.locator('#drives tr[data-drive="nvdimm"] td').first).to_have_text("–")  # no rail: no watts
    drawn = page.evaluate(
        """() => { const c = document.querySelector('.card[data-drive="nvme-plp"] canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(d.buffer)).size }"""
    )
    assert drawn > 10, "the chart is empty"


@pytest.mark.long
def test_a_card_has_latencies_and_the_drives_power_state(lab: Lab, page: Page):
    lab_file = lab.dashboard.folder / "lab.json"
    lab_file.write_text(json.dumps(LAB))
    lab.dashboard.stop()
    lab.dashboard.settings["lab_file"] = str(lab_file)
    lab.dashboard.start()
    journal = lab.journal()
    run, *_ = journal.plan()
    journal.end(run, time.time_ns() - 3 * HOUR, ops=20000, joules=100.0)
    power = {"drive": {"power_state": 1, "power_states": [{"max_watts": 8.0}, {"max_watts": 4.5}]}}
    settings = journal.folder / "runs" / run / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"drive": {"serial": "JR1"}, "power": power}))
    lab.feed.loaded.add("nvme-plp")
    page.goto(lab.dashboard.url)
    busy, idle = (page.locator(f'.card[data-drive="{drive}"]') for drive in ("nvme-plp", "sata-plp"))
    expect(busy.locator(".latency")).to_have_text(
        "fsync: p50 800 µs · p99 3.10 ms · most 9.40 ms"
        " append: p50 40.0 µs · p99 200 µs · most 1.10 ms"
        " mean of a request: write 200 µs · flush 700 µs"
    )
    expect(idle.locator(".latency")).to_have_text("no requests")
    expect(busy.locator(".health")).to_contain_text("power state 1 (≤ 4.50 W), 3 h ago")
    expect(idle.locator(".health")).to_contain_text("power state not measured")


def test_frames_go_on_and_none_is_lost(lab: Lab, page: Page):
    page.goto(lab.dashboard.url)
    wait_for(page, "window.rigStats?.frames > 2")
    before = page.evaluate("rigStats")
    wait_for(page, f"rigStats.frames >= {before['frames'] + 12}")  # make bench-dashboard has their rate
    after = page.evaluate("rigStats")
    assert after["last_seq"] - before["last_seq"] == after["frames"] - before["frames"]
    assert (after["drops"], after["dropped_by_server"], after["reconnects"]) == (0, 0, 0)


def test_a_campaign_appears_runs_and_fills_its_table(lab: Lab, page: Page):
    page.goto(lab.dashboard.url)
    expect(page.locator("#notices")).to_contain_text("No campaign yet")
    expect(page.locator("#virtual")).to_be_hidden()

    began = time.time_ns()
    journal = lab.journal()
    runs = journal.plan(replicates=2)
    expect(page.locator("#campaign-name")).to_have_text("demo")
    expect(page.locator("#question")).to_have_text(QUESTION)
    expect(page.locator("#virtual")).to_be_visible()
    expect(page.locator("#campaign-state")).to_contain_text("planned")
    expect(page.locator("#notices")).not_to_contain_text("No campaign")
    expect(page.locator("#queue .run")).to_have_count(8)

    journal.begin(runs[0], began)
    for phase, start, end in (("prepare", -6, -4), ("workload", -4, None)):
        lab.feed.phase(runs[0], "nvme-plp", phase, began + start * SECOND, end and began + end * SECOND)
    expect(page.locator(".host .cell")).to_have_text("nvme-plp/ext4/none/randwrite-fsync")
    expect(page.locator(".host .run-id")).to_contain_text(runs[0])
    current = page.locator('.phases [aria-current="step"]')
    expect(current.locator(".phase-name")).to_have_text("workload")
    expect(page.locator(".phases .phase-prepare")).to_contain_text("2.0 s")
    expect(current.locator(".phase-time")).to_have_text(OVER_FOUR_SECONDS)
    expect(page.locator('.card[data-drive="nvme-plp"]')).to_have_class("card busy")
    expect(page.locator(f'[data-run="{runs[0]}"] .status')).to_have_text("running")
    expect(page.locator(BEST)).to_have_count(0)

    journal.end(runs[0], began + 30 * SECOND, ops=20000, joules=100.0)
    expect(page.locator(FIRST)).to_contain_text("200")
    expect(page.locator(FIRST)).to_contain_text("n 1/2")
    expect(page.locator(BEST)).to_have_count(0)
    expect(page.locator("#done")).to_have_text("1")
    expect(page.locator("#eta")).to_have_text(re.compile(r"^3:\d\d$"))  # seven runs of 30 s
    journal.end(runs[1], began, "partial", "meter tap1a fell silent", ops=20000)
    row = page.locator(f'[data-run="{runs[1]}"]')
    expect(row.locator(".status")).to_have_text("partial")
    expect(row.locator(".symbol")).to_have_text("◐")
    expect(row.locator(".reason")).to_have_text("meter tap1a fell silent")
    expect(page.locator('td[data-filesystem="ext4"][data-scheduler="bfq"]')).to_contain_text("◐1")
    page.get_by_role("button", name="MB/J").click()
    expect(page.locator(FIRST)).to_contain_text("0.819")
    journal.end(runs[2], began + 40 * SECOND, ops=10000, joules=100.0)
    expect(page.locator(".ai-block .untested")).to_have_text("one run a cell: nothing can be separated")
    for run, ops in ((runs[4], 20100), (runs[6], 10100)):
        journal.end(run, began + 50 * SECOND, ops=ops, joules=100.0)
    expect(page.locator(FIRST)).to_contain_text("≈")
    expect(page.locator(".ai-block .untested")).to_contain_text("a winner is named from 5 runs")
    expect(page.locator(BEST)).to_have_count(0)
    journal.finish(began + 60 * SECOND)
    expect(page.locator("#campaign-state")).to_contain_text("finished")


@pytest.mark.long
def test_a_drive_on_its_way_into_a_steady_state(lab: Lab, page: Page):
    journal = lab.journal()
    run, *_ = journal.plan()
    began = time.time_ns() - 30 * SECOND
    journal.begin(run, began)
    most = {"at_most_seconds": 400.0, "at_most_rounds": 8}
    journal.event("preconditioning", began, run, precondition="begun", why="never preconditioned", **most)
    for phase, start, end in (("purge", 0, 1), ("passes", 1, 20), ("rounds", 20, None)):
        lab.feed.phase(run, "nvme-plp", phase, began + start * SECOND, end and began + end * SECOND)
    for number in (1, 2):
        end = began + (25 + number) * SECOND
        lab.influxd.write(
            f"precondition,run={run},host=vhost1,drive=nvme-plp number={number}i,at_most=8i,"
            f"ops={60000 // number**2}i,start_ns={end - SECOND}i,end_ns={end}i {end}"
        )
    page.goto(lab.dashboard.url)
    panel = page.locator(".settling")
    expect(panel.locator("p")).to_have_text(
        re.compile(r"^preconditioning · round 3 of at most 8 · at most [56]:\d\d left$")
    )
    expect(panel.locator("tbody tr td:nth-child(2)")).to_have_text(["60.0 k", "15.0 k"])
    expect(page.locator(".phases .phase-name")).to_have_text(["purge", "passes", "rounds"])
    expect(page.locator('.phases [aria-current="step"] .phase-name')).to_have_text("rounds")
    journal.event(
        "preconditioning", time.time_ns(), run, precondition="ended", steady=True, reason="steady at round 7"
    )
    expect(panel).to_be_hidden()
    expect(page.locator(".phases .phase-name").first).to_have_text("prepare")


@pytest.mark.long
def test_time_left_is_at_most_so_long_while_rounds_are_open_ended(lab: Lab, page: Page):
    journal = lab.journal()
    first, second, *_ = journal.plan(filesystems=("ext4",))
    now = time.time_ns()
    journal.begin(first, now - 60 * SECOND)
    journal.end(first, now - 30 * SECOND)
    journal.begin(second, now)
    most = {"at_most_seconds": 600.0, "at_most_rounds": 8}
    journal.event("preconditioning", now, second, precondition="begun", why="its content is old", **most)
    page.goto(lab.dashboard.url)
    expect(page.locator("#eta")).to_have_text(re.compile(r"^≤ (10|9):\d\d$"))


@pytest.mark.long
def test_slow_motion_is_shown_and_time_goes_as_slowly(lab: Lab, slow_lab: LabClock, page: Page):
    lab.journal()
    page.goto(lab.dashboard.url)
    expect(page.locator("#notices")).not_to_contain_text("Slow motion")
    slow_lab.set_slowness(20.0)
    expect(page.locator("#notices")).to_contain_text("Slow motion: a second of the virtual lab lasts 20 s")
    intervals = (page.evaluate(INTERVAL, 50) for _ in range(1000))
    went, took = next((went, took) for went, took, frames in intervals if frames == 0)
    assert went == pytest.approx(took / 20, rel=0.05)
    # A frame that came late, on a busy machine, sets the clock of the page wrong by as much.
    intervals = (page.evaluate(INTERVAL, 2000) for _ in range(10))
    assert any(went < took / 4 for went, took, frames in intervals if frames)


@pytest.mark.long
def test_a_chosen_campaign_stays_and_the_newest_is_named(lab: Lab, page: Page):
    now = time.time_ns()
    lab.journal("first-20261101-000000", now - 1000 * SECOND, name="first", virtual=False).plan()
    page.goto(lab.dashboard.url + "?campaign=first-20261101-000000")
    expect(page.locator("#campaign-name")).to_have_text("first")
    expect(page.locator("#virtual")).to_be_hidden()
    lab.journal("second-20261102-000000", now, name="second").plan()
    expect(page.locator("#notices")).to_contain_text("not the newest campaign (second-20261102-000000)")
    expect(page.locator("#campaign-name")).to_have_text("first")
    page.goto(lab.dashboard.url)
    expect(page.locator("#campaign-name")).to_have_text("second")
    page.goto(lab.dashboard.url + "?campaign=../../etc")
    expect(page.locator("#notices")).to_contain_text("There is no campaign ../../etc")


def looks(page: Page) -> dict[str, str]:
    """The swatch of each drive in the table of I/O."""
    script = "rows => Object.fromEntries(rows.map(r => [r.dataset.drive, r.querySelector('i').className]))"
    return page.locator("#drives tbody tr").evaluate_all(script)


@pytest.mark.long
def test_a_drive_keeps_its_look_and_no_two_share_one(lab: Lab, page: Page):
    page.goto(lab.dashboard.url)
    expect(page.locator("#drives tbody tr")).to_have_count(8)
    before = looks(page)
    assert len(set(before.values())) == 8
    lab.journal().plan(drives=("sata-plp", "hdd-3"))  # drives of the campaign come first
    expect(page.locator("#drives tbody tr").first).to_have_attribute("data-drive", "hdd-3")
    assert looks(page) == before


@pytest.mark.parametrize(
    ("width", "height"),
    [
        (390, 844),
        pytest.param(1280, 800, marks=pytest.mark.long),
        pytest.param(1920, 1080, marks=pytest.mark.long),
    ],
)
def test_nothing_runs_over_the_side(lab: Lab, page: Page, width: int, height: int):
    journal = lab.journal()
    journal.plan(drives=("nvme-consumer", "nvme-plp"), filesystems=("ext4", "f2fs", "xfs"), replicates=3)
    page.set_viewport_size({"width": width, "height": height})
    page.goto(lab.dashboard.url)
    expect(page.locator("#queue .run")).to_have_count(36)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width < 1000:
        return  # one column, which is longer than a screen
    for selector in (".card", "#ai", "#queue", "#hosts"):
        box = page.locator(selector).first.bounding_box()
        assert box
        assert box["y"] < height, f"{selector} is below the first screen"


def test_a_campaigns_page_has_its_plan_its_failures_and_its_trace(lab: Lab, page: Page):
    journal = lab.journal()
    runs = journal.plan(replicates=2)
    began = time.time_ns() - 60 * SECOND
    journal.begin(runs[0], began)
    journal.end(runs[0], began + 30 * SECOND, ops=20000, joules=100.0)
    journal.end(runs[1], began + 31 * SECOND, "failed", "fio: exit code 1")
    page.goto(lab.dashboard.url)
    page.get_by_role("link", name="Campaign").click()
    expect(page.get_by_role("link", name="Campaign")).to_have_attribute("aria-current", "page")
    cell = page.locator(".plan tbody tr").filter(has=page.get_by_role("rowheader", name="ext4"))
    expect(cell.locator("td").last).to_contain_text("200 ops/J")
    expect(cell.locator("td").last).to_contain_text("n 1: too few for an interval")
    expect(cell.locator("td").last.get_by_role("img")).to_have_text(["✓", "○"])
    expect(page.locator("#failures tbody tr")).to_contain_text("fio: exit code 1")
    expect(page.locator("#controls button[data-action=pause]")).to_be_disabled()
    expect(page.locator("#control-answer")).to_contain_text("Read only")

    trace = page.get_by_role("application")
    expect(trace.locator("canvas")).to_be_visible()
    expect(page.locator("#long .key")).to_contain_text("line: mean, band: minimum to maximum")
    width = page.locator("#long .key").inner_text().split(",")[0]
    trace.focus()
    page.keyboard.press("+")
    expect(page.locator("#long .key")).not_to_contain_text(width)


@pytest.mark.long
def test_the_history_leads_to_a_campaign(lab: Lab, page: Page):
    lab.journal("first-20261101-000000", time.time_ns() - 1000 * SECOND, name="first").plan()
    lab.journal("second-20261102-000000", time.time_ns(), name="second").plan()
    page.goto(lab.dashboard.url + "history")
    rows = page.locator("#history tbody tr")
    expect(rows).to_have_count(2)
    for box in page.locator("#history input").all():
        box.check()
    expect(page.locator("#compare code")).to_contain_text("rig compare")
    page.get_by_role("link", name="first", exact=True).click()
    expect(page.locator("#campaign-name")).to_have_text("first")
    assert page.url.endswith("campaign?campaign=first-20261101-000000")


@pytest.mark.long
def test_volts_and_amps_at_full_rate_are_there_on_demand(lab: Lab, page: Page):
    rail = {"meter": "tap1a", "rail": "12v", "sample_rate_hz": 1000.0, "start_ns": 0}
    lab.powerd.samples = {"rails": [{**rail, "complete": True, "volts": [12.0] * 2000, "amps": [0.5] * 2000}]}
    page.goto(lab.dashboard.url)
    page.get_by_role("button", name="volts and amps of nvme-plp at full rate").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("12v: 2000 samples at 1000 Hz by tap1a")
    expect(dialog.locator("canvas")).to_have_count(2)
    lab.powerd.samples = "meter tap1a is polled: its readings are the points"
    page.wait_for_timeout(500)  # the server keeps a reply for 0.2 s
    dialog.get_by_role("button", name="Again").click()
    expect(dialog).to_contain_text("✕ the power daemon: meter tap1a is polled")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


PAGES = {"live": "", "campaign": "campaign", "rig": "rig", "history": "history"}
CONTENT = {  # what is there once a page has been filled
    "live": ".card canvas",
    "campaign": ".plan td .value",
    "rig": "#rig-meters td",
    "history": "#history td",
}
AXE = ROOT / "rig/dashboard/node_modules/axe-core/axe.min.js"


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1600])
def test_axe_finds_nothing_serious_on_any_page(lab: Lab, page: Page, width: int, scheme: str):
    journal = lab.journal()
    runs = journal.plan(replicates=2)
    journal.begin(runs[0], time.time_ns() - 60 * SECOND)
    journal.end(runs[0], time.time_ns() - 30 * SECOND, ops=20000, joules=100.0)
    journal.end(runs[1], time.time_ns() - 20 * SECOND, "partial", "meter tap1a fell silent", ops=20000)
    journal.begin(runs[2], time.time_ns())
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.add_init_script(path=AXE)
    found = {}
    for name, path in PAGES.items():
        page.goto(lab.dashboard.url + path)
        expect(page.locator(CONTENT[name]).first).to_be_visible()
        violations = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        found[name] = [
            (one["id"], node["target"], node.get("failureSummary"))
            for one in violations
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
    assert found == {name: [] for name in PAGES}
