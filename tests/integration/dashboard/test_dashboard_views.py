# SPDX-License-Identifier: GPL-3.0-or-later
"""Long views against a real InfluxDB that holds an hour of points at 10 Hz, and thirty days."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import polars as pl
import pytest

from joulerig.rig.dashboard.api import views
from tests.support.dashboard_server import Dashboard
from tests.support.influxd import Influxd

SECOND = 1_000_000_000
HOUR, DAY = 3600 * SECOND, 86_400 * SECOND
END = time.time_ns() // DAY * DAY
TENS = 10 * SECOND
HOST = "vhost1"
SPIKE = 91.5  # watts, of one sample in an hour
LINES_A_WRITE = 10_000


def points(drive: str, span_ns: int, step_ns: int) -> Iterator[str]:
    """A rail of 2 W with one spike, a second rail of 5 W, and 100 writes a second of 4096 bytes."""
    spike_ns = END - span_ns // 3 // step_ns * step_ns
    for at in range(END - span_ns, END, step_ns):
        most = SPIKE if at == spike_ns else 2.5
        tail = f'joules=1,samples=1i,expected=1i,lost=0i,gap_seconds=0,session="s1" {at}'
        yield (
            f"power,meter=tap1a,rail=5v,host={HOST},drive={drive} volts=5,amps=0.4,watts=2,watts_min=1.5,"
            f"watts_max={most},{tail}"
        )
        yield (
            f"power,meter=tap1a,rail=12v,host={HOST},drive={drive} volts=12,amps=0.4,watts=5,watts_min=5,"
            f"watts_max=5,{tail}"
        )
        if (at + step_ns) % TENS == 0:
            seconds = max(TENS, step_ns) // SECOND
            most = SPIKE if at - spike_ns < TENS and spike_ns <= at else 2.5
            for rail, watts, least, greatest in (("5v", 2, 1.5, most), ("12v", 5, 5, 5)):
                yield (
                    f"power_10s,meter=tap1a,rail={rail},host={HOST},drive={drive}"
                    f" measured_joules={watts * seconds},measured_seconds={seconds},"
                    f"watts_min={least},watts_max={greatest},gap_seconds=0 {at}"
                )
        n = (at - END + span_ns) * 100 // SECOND
        yield (
            f"blockio,host={HOST},drive={drive} reads=0i,read_bytes=0i,writes={n}i,write_bytes={n * 4096}i,"
            f"flushes=0i {at}"
        )


@pytest.fixture(scope="module")
def influxd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    with Influxd(tmp_path_factory.mktemp("influxd")) as influxd:
        for drive, span_ns, step_ns in (("hour", HOUR, SECOND // 10), ("month", 30 * DAY, 60 * SECOND)):
            lines: list[str] = []
            for line in points(drive, span_ns, step_ns):
                lines.append(line)
                if len(lines) == LINES_A_WRITE:
                    influxd.write(*lines)
                    lines = []
            influxd.write(*lines)
        yield influxd


class Counting:
    """A client that counts what it fetches."""

    def __init__(self, influxd: Influxd) -> None:
        self._client = influxd.databases()
        self.rows: list[int] = []

    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame:
        frame = self._client.query(influxql, host=host)
        self.rows.append(frame.height)
        return frame


@pytest.mark.parametrize(("drive", "span_ns"), [("hour", HOUR), ("month", 30 * DAY)])
@pytest.mark.parametrize("wanted", [40, 1000, 4000])
def test_no_more_is_fetched_than_is_shown_and_no_spike_is_lost(
    influxd: Influxd, drive: str, span_ns: int, wanted: int
):
    view, influx = views.rounded(HOST, drive, END - span_ns, END, wanted), Counting(influxd)
    found = views.power(influx, view)
    assert influx.rows == [pytest.approx(2 * view.buckets, abs=4)]
    assert view.buckets <= wanted
    twelve, five = found["rails"]
    assert (twelve["rail"], five["rail"]) == ("12v", "5v")
    assert {one for one in five["mean"] if one is not None} == {2.0}
    assert {one for one in five["min"] if one is not None} == {1.5}
    assert max(one for one in five["max"] if one is not None) == SPIKE
    assert sum(one == SPIKE for one in five["max"]) == 1
    assert {one for one in twelve["mean"] if one is not None} == {5.0}


@pytest.mark.parametrize("wanted", [40, 1000, 4000])
def test_rates_of_an_hour_are_those_that_were(influxd: Influxd, wanted: int):
    view, influx = views.rounded(HOST, "hour", END - HOUR, END, wanted), Counting(influxd)
    found = views.io(influx, view)
    (rows,) = influx.rows
    assert rows <= views.RATES_A_BUCKET * views.MOST_POINTS
    writes = found["columns"]["writes"]
    known = [one for one in writes["mean"] if one is not None]
    assert len(known) >= view.buckets - 2 if view.width_ns >= SECOND else len(known) >= 3598
    assert known == pytest.approx([100.0] * len(known))
    assert [one for one in writes["max"] if one is not None] == pytest.approx([100.0] * len(known))
    assert max(one for one in found["columns"]["write_mb"]["mean"] if one) == pytest.approx(0.4096)


def test_rates_of_a_month_are_those_that_were(influxd: Influxd):
    view, influx = views.rounded(HOST, "month", END - 30 * DAY, END, 1000), Counting(influxd)
    found = views.io(influx, view)
    known = [one for one in found["columns"]["writes"]["mean"] if one is not None]
    assert known == pytest.approx([100.0] * len(known))
    assert len(known) >= view.buckets - 1
    assert influx.rows[0] <= views.RATES_A_BUCKET * view.buckets + 1


def test_what_lies_outside_the_stored_time_is_missing(influxd: Influxd):
    view = views.rounded(HOST, "hour", END - 2 * HOUR, END, 1000)
    for rail in views.power(Counting(influxd), view)["rails"]:
        assert rail["mean"][: view.buckets // 2 - 1] == [None] * (view.buckets // 2 - 1)
        assert rail["mean"][-1] is not None


def test_a_drive_that_is_not_there_has_no_rails(influxd: Influxd):
    view = views.rounded(HOST, "none' OR drive = 'hour", END - HOUR, END, 100)
    assert views.power(Counting(influxd), view)["rails"] == []


@pytest.fixture(scope="module")
def dashboard(influxd: Influxd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    dashboard = Dashboard(tmp_path_factory.mktemp("views"), influxd.url)
    dashboard.start()
    yield dashboard
    dashboard.stop()


def get(dashboard: Dashboard, target: str) -> httpx.Response:
    return httpx.get(dashboard.url + target, trust_env=False, timeout=60)


@pytest.mark.parametrize("kind", ["power", "io"])
def test_a_page_gets_a_month(dashboard: Dashboard, influxd: Influxd, kind: str):
    start = END - 30 * DAY
    phase = f"phase,campaign=c,run=c-0001,host={HOST},drive=month,phase=workload"
    influxd.write(
        f"{phase} start_ns={start + DAY}i,end_ns={start + 2 * DAY}i,clock_offset_ns=0i {start + DAY}"
    )
    range_ = f"from_ns={start}&to_ns={END}"
    answer = get(dashboard, f"api/{kind}?host={HOST}&drive=month&{range_}&points=1000")
    found = answer.json()
    assert (found["buckets"], found["bucket_ns"]) == (720, HOUR)
    assert found["bands"] == [
        {"run": "c-0001", "phase": "workload", "start_ns": start + DAY, "end_ns": start + 2 * DAY}
    ]
    assert len(answer.content) < 400_000


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("host=h", "parameter 'drive': is missing"),
        ("host=h&drive=d&from_ns=1", "parameter 'to_ns': ''; allowed: a whole number"),
        ("host=h&drive=d&from_ns=-1&to_ns=5", "parameter 'from_ns': '-1'; allowed: a whole number"),
        ("host=h&drive=d&from_ns=5&to_ns=5", "parameter 'to_ns': 5; allowed: later than from_ns, 5"),
        ("host=h&drive=d&from_ns=1&to_ns=5&points=4001", "parameter 'points': 4001; allowed: 1 to 4000"),
        ("host=h&drive=d&from_ns=1&to_ns=5&points=0", "parameter 'points': 0; allowed: 1 to 4000"),
        (
            "host=h&drive=d&from_ns=1&to_ns=9999999999999999999",
            "parameter 'to_ns': 9999999999999999999; allowed: at most 400 days from from_ns on",
        ),
        (
            "host=h&drive=d&from_ns=1&to_ns=5&step=1",
            "parameter 'step': allowed: drive, from_ns, host, points, to_ns",
        ),
    ],
)
def test_a_range_that_is_none_is_refused_in_one_line(dashboard: Dashboard, query: str, why: str):
    answer = get(dashboard, f"api/power?{query}")
    assert (answer.status_code, answer.text) == (400, f"{why}\n")


@pytest.mark.long
def test_an_influxdb_that_is_away_is_said_and_what_was_seen_stays(tmp_path, influxd: Influxd):
    dashboard = Dashboard(tmp_path, influxd.url)
    dashboard.start()
    seen = f"api/power?host={HOST}&drive=hour&from_ns={END - HOUR}&to_ns={END}&points=100"
    try:
        assert get(dashboard, seen).status_code == 200
        influxd.stop()
        other = get(dashboard, seen.replace("points=100", "points=30"))
        assert (other.status_code, other.text.count("\n")) == (503, 1)
        assert "InfluxDB cannot be reached" in other.text
        if time.time_ns() - END > HOUR:  # else it changes still
            assert get(dashboard, seen).status_code == 200
    finally:
        influxd.start()
        dashboard.stop()
