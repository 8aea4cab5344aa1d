# SPDX-License-Identifier: GPL-3.0-or-later
"""How live the dashboard is, and what it costs: results/bench/dashboard.json.

Three measurements, each with a real InfluxDB, the real server and Debian's Chromium:

1. from a sample at the meter to a pixel: an emulated instrument, libsigrok, srcap, powerd,
   InfluxDB, the server, the page. In the page a loop of animation frames notes until when the
   traces are drawn; of each bucket of 0.1 s the delay is from its middle to the frame after which
   it was drawn whole;
2. long tasks while an hour of ten drives with four rails each, at ten points a second, is scrolled
   and zoomed;
3. the server's processor time with twenty viewers of such a lab, who get what pages get.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import websockets
from playwright.sync_api import Page, sync_playwright

from tests.support import ROOT
from tests.support.dashboard_page import launch, wait_for
from tests.support.dashboard_powerd import Powerd as PowerdStatus
from tests.support.dashboard_powerd import meter
from tests.support.dashboard_server import Dashboard
from tests.support.dashboard_show import cpu_seconds
from tests.support.influxd import Influxd
from tests.support.power_processes import SRCAP, Emulator, Powerd, settings_of

SECOND = 1_000_000_000
DRIVES = [f"drive-{number}" for number in range(10)]
RAILS = {"12v": 12.0, "5v": 5.0, "3v3": 3.3, "vbat": 3.0}
POINT_NS = SECOND // 10
HOUR = 3600
VIEWERS = 20
PIXEL_SECONDS, VIEWERS_SECONDS, SETTLE_SECONDS = 60.0, 30.0, 5.0
BUCKET_SECONDS = 0.1
MOST_DELAY_MS, MOST_CORES = 1000.0, 0.5
LEAST_FRAMES, MOST_FRAMES = 3.0, 5.0  # in a second, of four
# Notes [wall time, time until which the traces are drawn] whenever the latter changes, both in ms.
NOTE_FRAMES = """() => {
  window.rigNoted = [];
  let last = 0;
  const look = () => {
    const until = window.rigStats.drawn_until;
    if (until !== last) {
      last = until;
      window.rigNoted.push([performance.timeOrigin + performance.now(), until * 1000]);
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
NOTE_TASKS = """() => {
  window.rigTasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.rigTasks.push(entry.duration);
  }).observe({ entryTypes: ["longtask"] });
}"""


def main() -> int:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-dashboard-") as name:
        with shown() as page:
            found |= sample_to_pixel(Path(name) / "pixel", page)
        with lab_of_ten_drives(Path(name) / "ten") as dashboard:
            with shown() as page:
                found |= long_tasks(dashboard, page)
            found |= twenty_viewers(dashboard)
    found["held"] = bool(
        found["sample_to_pixel_ms_median"] <= MOST_DELAY_MS
        and found["long_tasks_over_100ms"] == 0
        and found["server_cores"] <= MOST_CORES
        and LEAST_FRAMES <= found["frames_per_second"] <= MOST_FRAMES
    )
    path = ROOT / "results" / "bench" / "dashboard.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0 if found["held"] else 1


@contextlib.contextmanager
def shown() -> Iterator[Page]:
    """A page of a large screen."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser.new_page(viewport={"width": 1600, "height": 1000})
        browser.close()


# --- from a sample to a pixel


def sample_to_pixel(folder: Path, page: Page) -> dict[str, float]:
    """Return the delays of the buckets of a minute, in ms."""
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        influxd = stack.enter_context(Influxd(folder / "influxd"))
        instrument = stack.enter_context(Emulator(rate=1000))
        dashboard = Dashboard(folder, influxd.url)
        secret = folder / "writer"
        secret.write_text(influxd.writer[1])
        powerd = Powerd(
            folder,
            {
                "state_dir": str(folder / "powerd"),
                "srcap": SRCAP,
                "status_socket": str(dashboard.socket),
                "points_per_second": 100,
                "influx": {
                    "url": influxd.url,
                    "database": influxd.power,
                    "username": influxd.writer[0],
                    "password_file": str(secret),
                    "flush_interval_seconds": 0.25,  # rig/controller/services.py
                },
                "meters": [
                    {
                        "name": "tap1",
                        "driver": instrument.driver,
                        "set": settings_of(instrument.driver),
                        "sample_rate_hz": 1000,
                        "samples": "window-mean",
                        "silence_seconds": 1,
                        "rails": [
                            {"host": "vhost1", "drive": "fast", "rail": "12v", "volts": "CH1", "amps": "CH2"}
                        ],
                    }
                ],
            },
        )
        stack.callback(powerd.stop)
        powerd.wait_state("tap1", "streaming", 30)
        stack.callback(dashboard.stop)
        dashboard.start()
        page.goto(dashboard.url)
        wait_for(page, "window.rigStats?.drawn_until > 0", 60)
        time.sleep(SETTLE_SECONDS)  # the meter's clock and the server's first queries settle
        page.evaluate(NOTE_FRAMES)
        time.sleep(PIXEL_SECONDS)
        noted = page.evaluate("window.rigNoted")
    delays = delays_of(noted)
    return {
        "sample_to_pixel_ms_median": round(statistics.median(delays), 1),
        "sample_to_pixel_ms_95": round(statistics.quantiles(delays, n=20)[-1], 1),
        "buckets": len(delays),
    }


def delays_of(noted: list[list[float]]) -> list[float]:
    """Return the delay of each bucket: from its middle until it was drawn, ms.

    `noted`: [wall time, time until which all is drawn], in ms.
    """
    width = 1000 * BUCKET_SECONDS
    delays: list[float] = []
    (_, before), *later = noted
    for wall, until in later:
        for bucket in range(math.ceil(before / width - 1e-6), math.ceil(until / width - 1e-6)):
            delays.append(wall - (bucket + 0.5) * width)
        before = until
    return delays


# --- ten drives for an hour


@contextlib.contextmanager
def lab_of_ten_drives(folder: Path) -> Iterator[Dashboard]:
    """An hour of a lab of ten drives with four rails, which goes on."""
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        influxd = stack.enter_context(Influxd(folder / "influxd"))
        dashboard = Dashboard(folder, influxd.url)
        stack.callback(PowerdStatus(dashboard.socket, [meter("tap1")]).stop)
        now = time.time_ns() // SECOND * SECOND
        for minute in range(HOUR // 60, 0, -1):
            lines = points(now - 60 * minute * SECOND, 60)
            for start in range(0, len(lines), 5000):
                influxd.write(*lines[start : start + 5000])
        ended = threading.Event()
        thread = threading.Thread(target=go_on, args=(influxd, now, ended), daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(ended.set)
        stack.callback(dashboard.stop)
        dashboard.start()
        yield dashboard


def points(start_ns: int, seconds: float) -> list[str]:
    """Return the points of so many seconds as powerd and iod write them."""
    lines = []
    for at in range(start_ns, start_ns + int(seconds * SECOND), POINT_NS):
        count = at // POINT_NS
        for number, drive in enumerate(DRIVES):
            for rail, volts in RAILS.items():
                watts = 2 + math.sin(at / 7e9 + number) + 0.2 * math.sin(at / 1.3e8 * len(rail))
                lines.append(
                    f"power,meter=tap1,rail={rail},host=vhost1,drive={drive} volts={volts},"
                    f"amps={watts / volts:.6f},watts={watts:.6f},watts_min={watts - 0.1:.6f},"
                    f"watts_max={watts + 0.1:.6f},joules={count * 0.2:.3f},samples={count * 100}i,"
                    f"expected={count * 100}i,lost=0i,repeated=0i,gap_seconds=0,"
                    f'clock_residual_seconds=0.0001,session="s1" {at}'
                )
            lines.append(
                f"blockio,host=vhost1,drive={drive} reads=0i,read_bytes=0i,read_seconds=0,writes={count}i,"
                f"write_bytes={count * 4096}i,write_seconds=0,flushes={count}i,flush_seconds=0,"
                f"discards=0i,discard_bytes=0i,in_flight=1i,busy_seconds=0 {at}"
            )
    return lines


def go_on(influxd: Influxd, at_ns: int, ended: threading.Event) -> None:
    while not ended.wait(0.25):
        tenths = (time.time_ns() - at_ns) // POINT_NS
        if tenths > 0:
            influxd.write(*points(at_ns, tenths / 10))
            at_ns += tenths * POINT_NS


def long_tasks(dashboard: Dashboard, page: Page) -> dict[str, float]:
    """Scroll and zoom an hour; return how many tasks took over 100 ms, and the longest."""
    page.goto(dashboard.url)
    wait_for(page, "document.querySelectorAll('.card canvas').length >= 10", 60)
    page.get_by_role("button", name="the last 1 h", exact=True).click()
    wait_for(page, "document.querySelector('.longview canvas')", 60)
    time.sleep(SETTLE_SECONDS)
    page.evaluate(NOTE_TASKS)
    view = page.locator(".longview")
    for turn, drive in enumerate([*DRIVES, *DRIVES]):
        page.get_by_label("Drive", exact=True).select_option(f"vhost1/{drive}")
        view.scroll_into_view_if_needed()
        box = view.bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for _ in range(4):
            page.mouse.wheel(0, 100 if turn % 2 else -100)  # zoom
            page.wait_for_timeout(100)
        view.press("ArrowLeft")  # along the time
        page.wait_for_timeout(400)
        view.press("End")
        page.mouse.move(20, 500)
        page.mouse.wheel(0, 600 if turn % 2 else -600)  # the page
        page.wait_for_timeout(200)
    tasks = page.evaluate("window.rigTasks")
    return {
        "long_tasks_over_100ms": sum(one > 100 for one in tasks),
        "longest_task_ms": round(max(tasks, default=0.0), 1),
        "points_of_view": len(DRIVES) * len(RAILS) * HOUR * SECOND // POINT_NS,
    }


# --- viewers


def twenty_viewers(dashboard: Dashboard) -> dict[str, float]:
    """Return the server's cores with so many viewers."""
    address = urlsplit(dashboard.url)
    cores, frames = asyncio.run(_view(f"ws://{address.netloc}/live", dashboard.pid))
    return {"viewers": VIEWERS, "server_cores": round(cores, 3), "frames_per_second": round(frames, 2)}


async def _view(url: str, pid: int) -> tuple[float, float]:
    received = [0] * VIEWERS

    async def view(number: int) -> None:
        async with websockets.connect(url, max_size=None, compression=None) as socket:
            async for message in socket:
                received[number] += isinstance(message, bytes)

    viewers = [asyncio.create_task(view(number)) for number in range(VIEWERS)]
    await asyncio.sleep(SETTLE_SECONDS)
    before = cpu_seconds(pid), time.monotonic(), sum(received)
    await asyncio.sleep(VIEWERS_SECONDS)
    after = cpu_seconds(pid), time.monotonic(), sum(received)
    for one in viewers:
        one.cancel()
    await asyncio.gather(*viewers, return_exceptions=True)
    seconds = after[1] - before[1]
    if min(received) == 0:
        raise SystemExit("a viewer received nothing")
    return (after[0] - before[0]) / seconds, (after[2] - before[2]) / seconds / VIEWERS


if __name__ == "__main__":
    raise SystemExit(main())
