# SPDX-License-Identifier: GPL-3.0-or-later
"""A dashboard with a made-up lab and campaign behind it: to look at, to photograph, to measure.

python tests/support/dashboard_show.py                       until Ctrl-C
python tests/support/dashboard_show.py --screenshots FOLDER  pictures of all pages, light and dark
python tests/support/dashboard_show.py --cpu SECONDS         processor time with one page open
    --influx-cache 2m                        ... with another cache-snapshot-memory-size
python tests/support/dashboard_show.py --readme URL          docs/images, of a dashboard that runs
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from itertools import product
from pathlib import Path

from tests.support import ROOT
from tests.support.dashboard_feed import DRIVES, HOST, RAILS, Feed
from tests.support.dashboard_journal import WritableJournal
from tests.support.dashboard_page import launch, wait_for
from tests.support.dashboard_powerd import Powerd, meter
from tests.support.dashboard_server import Dashboard
from tests.support.influxd import Influxd

SECOND = 1_000_000_000
PHASES = {"prepare": 2.0, "setup": 5.0, "idle": 6.0, "workload": 12.0, "tail": 4.0}
SIZES = (
    (1280, 800, "light"),
    (390, 844, "dark"),
    (1920, 1080, "dark"),
    (390, 844, "light"),
    (1920, 1080, "light"),
)
PAGES = {"live": "", "campaign": "campaign", "rig": "rig", "history": "history"}
PATIENCE_SECONDS = 300  # a picture is no test of how fast a busy machine is
LAB = {
    "lab": {
        "controller": {
            "meters": {rail[2]: {"driver": "scpi-pps", "sample_rate_hz": 1000.0} for rail in RAILS}
        },
        "hosts": {
            HOST: {
                "virtual": {"cpus": 2},
                "drives": {
                    drive: {
                        "interface": "hdd" if drive.startswith("hdd") else drive.split("-")[0],
                        "serial": f"JR{number:06}",
                        "size_bytes": 4_000_000_000 if drive.startswith("hdd") else 960_000_000,
                        "plp": drive.endswith("plp"),
                        "rated_terabytes_written": None if drive.startswith("hdd") else 0.5,
                        "rails": {rail[1]: {} for rail in RAILS if rail[0] == drive},
                    }
                    for number, drive in enumerate(DRIVES, 1)
                },
            }
        },
    },
    "addresses": {HOST: "10.77.0.11"},
    "calibration": {"tap1a": {"state": "valid", "date": "2026-02-01", "expires": "2027-02-01"}},
}
SPEED = {"ext4": 0.62, "xfs": 0.71, "f2fs": 1.0, "none": 1.0, "mq-deadline": 0.97, "bfq": 0.85}


def campaign(journal: WritableJournal, feed: Feed, stop: threading.Event) -> None:
    """A campaign that has come half way, and goes on."""
    runs = journal.plan(
        drives=("nvme-consumer", "nvme-plp"),
        filesystems=("ext4", "f2fs", "xfs"),
        schedulers=("none", "mq-deadline", "bfq"),
        workloads=("randwrite-fsync",),
        replicates=2,
    )
    rows = {
        row[0]: row[1:]
        for row in journal.database.execute("SELECT id, drive, filesystem, scheduler FROM run")
    }
    began = time.time_ns() - 20 * 31 * SECOND
    for number, run in enumerate(runs[:20]):
        drive, filesystem, scheduler = rows[run]
        start = began + number * 31 * SECOND
        journal.begin(run, start)
        ops = int(1500 * SPEED[filesystem] * SPEED[scheduler] * (1 + 0.013 * (number % 3))) * 10
        joules = 10 * (3.9 if drive == "nvme-consumer" else 8.2)
        status, reason = "ok", ""
        if number == 4:
            status, reason, joules = "partial", "meter tap1a fell silent in phase workload: no energy", None
        if number == 11:
            status, reason, ops = "failed", "fio: exit code 1: No space left on device", 0
        journal.end(run, start + 29 * SECOND, status, reason, ops, joules)
    for number, run in enumerate(runs[20:]):
        drive = rows[run][0]
        now = time.time_ns()
        # The first one is already in its workload, so that a picture shows phases.
        into = 16 * SECOND if number == 0 else 0
        journal.begin(run, now - into)
        at = now - into
        for phase, seconds in PHASES.items():
            end = at + int(seconds * SECOND)
            feed.phase(run, drive, phase, at)
            if phase in ("setup", "workload"):
                feed.loaded.add(drive)
            if stop.wait(max(end - time.time_ns(), 0) / 1e9):
                return
            feed.loaded.discard(drive)
            feed.phase(run, drive, phase, at, end)
            at = end
        journal.end(run, at, "ok", "", 9000, 40.0)
        if stop.wait(2):
            return


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(dashboard: Dashboard, influxd: Influxd, seconds: float) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(dashboard.url)
        wait_for(page, "window.rigStats?.frames > 8")
        page.wait_for_timeout(5000)

        def read() -> tuple[float, ...]:
            return (
                cpu_seconds(dashboard.pid),
                cpu_seconds(influxd.pid),
                page.evaluate("rigStats.frames"),
                time.time(),
            )

        before = read()
        page.wait_for_timeout(seconds * 1000)
        after = read()
        elapsed = after[3] - before[3]
        server, influx, frames = ((after[i] - before[i]) / elapsed for i in range(3))
        print(
            f"with a page: dashboard {100 * server:.1f} % of a core, InfluxDB {100 * influx:.1f} %,"
            f" {frames:.2f} frames/s"
        )
        browser.close()
    time.sleep(2)  # by now the dashboard has stopped for want of a page
    before_idle = cpu_seconds(dashboard.pid), cpu_seconds(influxd.pid), time.time()
    time.sleep(seconds / 2)
    elapsed = time.time() - before_idle[2]
    server = (cpu_seconds(dashboard.pid) - before_idle[0]) / elapsed
    influx = (cpu_seconds(influxd.pid) - before_idle[1]) / elapsed
    print(f"without one: dashboard {100 * server:.1f} %, InfluxDB {100 * influx:.1f} % (the feed's writes)")


def photograph(url: str, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for (width, height, scheme), name in product(SIZES, PAGES):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.set_default_timeout(1000 * PATIENCE_SECONDS)
            page.on("console", lambda message: print("console:", message.text))
            page.on("pageerror", lambda error: print("error:", error))
            page.goto(url + PAGES[name])
            wait_for(page, "window.rigStats?.frames > 12", PATIENCE_SECONDS)
            page.screenshot(path=folder / f"{name}-{width}x{height}-{scheme}.png")
            page.screenshot(path=folder / f"{name}-{width}-{scheme}-whole.png", full_page=True)
            print(name, page.evaluate("rigStats"), flush=True)
            page.close()
        browser.close()


def photograph_for_readme(url: str) -> None:
    """Make the pictures of the documentation: of a campaign that runs, such as the demo."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        for name, file in {"live": "dashboard", "campaign": "campaign", "rig": "rig"}.items():
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(url + PAGES[name])
            wait_for(page, "window.rigStats?.frames > 120", PATIENCE_SECONDS)  # half a minute of traces
            page.screenshot(path=ROOT / "docs" / "images" / f"{file}.png")
            page.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER")
    parser.add_argument("--cpu", type=float, metavar="SECONDS")
    parser.add_argument("--influx-cache", metavar="SIZE", help="influxd's cache-snapshot-memory-size")
    parser.add_argument("--readme", metavar="URL", help="photograph a campaign's dashboard for the README")
    options = parser.parse_args()
    if options.readme:
        photograph_for_readme(options.readme)
        return
    settings = {"DATA_CACHE_SNAPSHOT_MEMORY_SIZE": options.influx_cache} if options.influx_cache else {}
    with tempfile.TemporaryDirectory(prefix="dashboard-") as name:
        folder = Path(name)
        influxd = Influxd(folder / "influxd", **settings).__enter__()
        dashboard = Dashboard(folder, influxd.url)
        stop = threading.Event()
        try:
            feed = Feed(influxd.write, writes_per_second=1400)
            feed.backfill(70)
            names = sorted({rail[2] for rail in RAILS})
            powerd = Powerd(dashboard.socket, [meter(name) for name in names])
            journal_ready = threading.Event()

            def tell() -> None:
                journal = WritableJournal(
                    dashboard.results, "demo-20261120-201500", time.time_ns() - 640 * SECOND
                )
                journal_ready.set()
                campaign(journal, feed, stop)
                journal.close()

            teller = threading.Thread(target=tell)
            teller.start()
            journal_ready.wait(10)
            feed.start()
            lab_file = folder / "lab.json"
            lab_file.write_text(json.dumps(LAB))
            dashboard.settings["lab_file"] = str(lab_file)
            dashboard.start()
            print(dashboard.url, flush=True)
            if options.screenshots:
                photograph(dashboard.url, options.screenshots)
            if options.cpu:
                measure(dashboard, influxd, options.cpu)
            if not (options.screenshots or options.cpu):
                signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            stop.set()
            dashboard.stop()
            print(dashboard.log() if dashboard.config.exists() else "", end="")
            feed.stop()
            powerd.stop()
            teller.join()
            influxd.stop()


if __name__ == "__main__":
    main()
