# SPDX-License-Identifier: GPL-3.0-or-later
"""Long views: rounded ranges, bounded queries, rates from counters, phases as bands."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from joulerig.rig.dashboard.api import views
from joulerig.rig.dashboard.api.views import DAY, HOUR, MOST_POINTS, View, rounded
from joulerig.rig.dashboard.feed import COUNTERS

SECOND = 1_000_000_000
T0 = 1_794_600_000 * SECOND
ASKED = "time >= (\\d+) AND time < (\\d+) GROUP BY time\\((\\d+)ns"


class Answers:
    def __init__(self, frame: pl.DataFrame | None = None) -> None:
        self.frame, self.queries = pl.DataFrame() if frame is None else frame, list[str]()

    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame:
        self.queries.append(influxql)
        return self.frame


@pytest.mark.parametrize("points", [1, 2, 7, 390, 1000, MOST_POINTS])
@pytest.mark.parametrize("seconds", [0.5, 59, HOUR, 30 * DAY, 399 * DAY])
@pytest.mark.parametrize("late", [0, 1, 123_456_789])
def test_a_view_covers_its_range_in_at_most_so_many_buckets(points, seconds, late):
    from_ns, to_ns = T0 + late, T0 + late + int(seconds * SECOND)
    view = rounded("h", "d", from_ns, to_ns, points)
    assert view.start_ns <= from_ns < to_ns <= view.end_ns
    assert view.buckets <= max(points, 2)
    assert view.start_ns % view.width_ns == 0
    assert view.width_ns in views.WIDTHS_NS


def test_a_view_has_the_narrowest_buckets_that_are_few_enough():
    view = rounded("h", "d", T0, T0 + HOUR * SECOND, 1000)
    assert (view.width_ns, view.buckets) == (5 * SECOND, 720)


def test_viewers_of_nearly_the_same_range_have_the_same_view():
    one = rounded("h", "d", T0 + 1, T0 + HOUR * SECOND - 7, 1000)
    assert one == rounded("h", "d", T0 + 900_000_000, T0 + HOUR * SECOND - 800_000_000, 1100)


@pytest.mark.parametrize("read", [views.power, views.io])
def test_queries_are_bounded_in_time_and_grouped(read):
    influx = Answers()
    view = rounded("it's", "d", T0, T0 + 30 * DAY * SECOND, 1000)
    found = read(influx, view)
    assert influx.queries
    for query in influx.queries:
        start, end, width = map(int, re.search(ASKED, query).groups())
        assert start <= view.start_ns < view.end_ns <= end
        assert (end - start) / width <= views.RATES_A_BUCKET * MOST_POINTS + 1
        assert r"host = 'it\'s'" in query
        assert "fill(none)" in query
    assert found["buckets"] == view.buckets


@pytest.mark.parametrize(
    ("width", "asked"), [(5, ["power"]), (10, ["power_10s"]), (20, ["power_10s"]), (DAY, ["power_10s"])]
)
def test_wide_buckets_are_made_of_points_of_ten_seconds(width, asked):
    influx = Answers(power_frame(("tap", "5v", T0, 2.0, 1.0, 3.0, 0.0)))
    views.power(influx, View("h", "d", T0 // (width * SECOND) * width * SECOND, width * SECOND, 4))
    assert [re.search(r"FROM (\w+)", query)[1] for query in influx.queries] == asked


def test_where_there_are_none_of_them_wide_buckets_are_made_of_all_points():
    influx = Answers()
    views.power(influx, View("h", "d", T0, 10 * SECOND, 4))
    assert [re.search(r"FROM (\w+)", query)[1] for query in influx.queries] == ["power_10s", "power"]


def test_buckets_that_are_made_of_ten_seconds_are_multiples_of_them():
    wide = [width for width in views.WIDTHS_NS if width >= views.TENS_NS]
    assert [width for width in wide if width % views.TENS_NS] == []


def power_frame(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(
        rows, orient="row",
        schema=["meter", "rail", "time", "watts", "watts_min", "watts_max", "gap_seconds"],
    )  # fmt: skip


def test_each_rail_has_means_and_extremes_and_what_is_missing_is_null():
    view = View("h", "d", T0, SECOND, 4)
    frame = power_frame(
        ("tap", "5v", T0, 2.0, 1.0, 3.0, 0.0),
        ("tap", "5v", T0 + 2 * SECOND, 4.0, 3.5, 9.0, 0.25),
        ("tap", "12v", T0 + 3 * SECOND, 6.0, 6.0, 6.0, 7.5),
    )
    first, second = views.power(Answers(frame), view)["rails"]
    assert (first["rail"], first["mean"]) == ("12v", [None, None, None, 6.0])
    assert first["gap_seconds"] == [None, None, None, 1.0]
    assert (second["mean"], second["min"], second["max"]) == (
        [2.0, None, 4.0, None], [1.0, None, 3.5, None], [3.0, None, 9.0, None],
    )  # fmt: skip


def test_a_bucket_that_influxdb_has_outside_the_view_is_left_out():
    view = View("h", "d", T0, SECOND, 1)
    frame = power_frame(
        ("t", "r", T0 - SECOND, 1.0, 1.0, 1.0, 0.0), ("t", "r", T0 + SECOND, 1.0, 1.0, 1.0, 0.0)
    )
    assert views.power(Answers(frame), view)["rails"][0]["mean"] == [None]


def io_frame(counts: dict[int, float]) -> pl.DataFrame:
    """Counters that all stand at the same, by second."""
    times = [T0 + int(second * SECOND) for second in counts]
    return pl.DataFrame({"time": times, **{name: list(counts.values()) for name in COUNTERS}})


def test_rates_have_mean_and_extremes_over_stretches():
    view = View("h", "d", T0, 4 * SECOND, 2)
    frame = io_frame({-1: 0, 0: 100, 1: 400, 2: 400, 3: 600, 4: 700, 5: 800, 6: 900, 7: 1000})
    found = views.io(Answers(frame), view)
    assert found["rate_seconds"] == 1.0
    reads = found["columns"]["reads"]
    assert (reads["mean"], reads["min"], reads["max"]) == ([150.0, 100.0], [0.0, 100.0], [300.0, 100.0])
    assert found["columns"]["write_mb"]["mean"][1] == pytest.approx(100e-6)


def test_there_is_no_rate_across_a_gap_or_a_restart():
    view = View("h", "d", T0, SECOND, 8)
    frame = io_frame({-1: 0, 0: 100, 1: 200, 4: 900, 5: 950, 6: 3, 7: 13})
    assert views.io(Answers(frame), view)["columns"]["writes"]["mean"] == [
        100.0, 100.0, None, None, None, 50.0, None, 10.0,
    ]  # fmt: skip


def test_a_bucket_that_is_narrower_than_a_rate_is_widened():
    view = rounded("h", "d", T0 + SECOND // 2, T0 + 5 * SECOND, 1000)
    assert view.width_ns == SECOND // 10
    found = views.io(Answers(), view)
    assert (found["bucket_ns"], found["start_ns"], found["buckets"]) == (SECOND, T0, 5)
    assert found["columns"]["reads"]["mean"] == [None] * 5


def test_times_of_the_hosts_clock_are_moved_to_the_controllers():
    view = View("h", "d", T0, SECOND, 2)
    offset = 300_000_000
    frame = io_frame({-1.3: 0, -0.3: 5, 0.7: 15})
    influx = Answers(frame)
    found = views.io(influx, view, offset)
    assert found["columns"]["reads"]["mean"] == [5.0, 10.0]
    assert f"time >= {T0 - SECOND - offset} AND time < {T0 + 2 * SECOND - offset}" in influx.queries[0]
    assert f"time({SECOND}ns, {SECOND - offset}ns)" in influx.queries[0]


def phase_frame(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, orient="row", schema=["run", "phase", "time", "start_ns", "end_ns"])


def test_bands_are_of_the_drive_and_its_arrays_and_wider_than_a_bucket():
    view = View("h", "hdd-1", T0, 10 * SECOND, 10)
    frame = phase_frame(
        ("r2", "workload", T0 + 30 * SECOND, T0 + 31 * SECOND, None),
        ("r1", "tail", T0 + 20 * SECOND, T0 + 20 * SECOND, T0 + 22 * SECOND),
        ("r1", "precondition", T0 - 5 * SECOND, T0 - 5 * SECOND, T0 + 20 * SECOND),
        ("r0", "workload", T0 - 90 * SECOND, T0 - 90 * SECOND, T0 - 10 * SECOND),
    )
    influx = Answers(frame)
    found = views.bands(influx, view, ["hdd-1", "array"])
    assert found == {
        "bands": [
            {"run": "r1", "phase": "setup", "start_ns": T0 - 5 * SECOND, "end_ns": T0 + 20 * SECOND},
            {"run": "r2", "phase": "workload", "start_ns": T0 + 31 * SECOND, "end_ns": None},
        ],
        "bands_left_out": 1,
    }
    assert "(drive = 'hdd-1' OR drive = 'array')" in influx.queries[0]


def test_there_are_so_many_bands_and_the_rest_is_counted():
    view = View("h", "d", T0, SECOND, 4000)
    rows = [
        (f"r{n}", "workload", T0, T0 + n * SECOND, T0 + (n + 2) * SECOND) for n in range(views.MOST_BANDS + 9)
    ]
    found = views.bands(Answers(phase_frame(*rows)), view, ["d"])
    assert (len(found["bands"]), found["bands_left_out"]) == (views.MOST_BANDS, 9)
    assert found["bands"][-1]["run"] == f"r{views.MOST_BANDS + 8}"


def test_a_phase_is_in_a_view_that_it_shares_time_with():
    view = View("h", "d", T0, SECOND, 10)
    frame = phase_frame(
        ("ends where it begins", "workload", T0 - 9 * SECOND, T0 - 9 * SECOND, T0),
        ("ends in it", "workload", T0 - 9 * SECOND, T0 - 9 * SECOND, T0 + 1),
        ("a bucket long", "workload", T0, T0, T0 + SECOND),
    )
    found = views.bands(Answers(frame), view, ["d"])
    assert ([band["run"] for band in found["bands"]], found["bands_left_out"]) == (
        ["ends in it", "a bucket long"], 0,
    )  # fmt: skip
