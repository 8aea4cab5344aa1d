# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures that the dashboard works out: buckets, rates, time left, frames."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from joulerig.rig.dashboard import powerd
from joulerig.rig.dashboard.campaign import eta
from joulerig.rig.dashboard.counters import rates
from joulerig.rig.dashboard.web import frames
from joulerig.rig.dashboard.window import Window

SECOND = 1_000_000_000


def put(window: Window, channel: int, bucket: int, value: float) -> None:
    window.put(np.array([channel]), np.array([bucket]), np.array([[value]]))


def test_a_window_forgets_the_oldest_buckets_and_starts_new_ones_empty():
    window = Window(1, 1, 4)
    window.advance(10)
    for bucket in range(6, 10):
        put(window, 0, bucket, bucket)
    window.advance(12)
    np.testing.assert_array_equal(window.read(8, 12)[0, 0], [8, 9, np.nan, np.nan])


def test_a_window_that_jumps_further_than_its_length_is_empty():
    window = Window(1, 1, 4)
    window.advance(10)
    put(window, 0, 9, 1.0)
    window.advance(100)
    assert np.isnan(window.read(96, 100)).all()


def test_a_bucket_written_again_is_replaced_and_one_outside_is_ignored():
    window = Window(1, 1, 4)
    window.advance(10)
    put(window, 0, 9, 1.0)
    put(window, 0, 9, 2.0)
    put(window, 0, 5, 7.0)  # shares its slot with bucket 9
    assert window.read(9, 10)[0, 0, 0] == 2.0


def test_a_new_channel_leaves_the_others_as_they_were():
    window = Window(1, 1, 4)
    window.advance(10)
    put(window, 0, 9, 1.0)
    window.grow(2)
    assert window.read(9, 10)[0, 0, 0] == 1.0
    assert np.isnan(window.read(9, 10)[1, 0, 0])


def test_rates_summed_with_their_intervals_are_what_was_counted():
    seconds = np.array([0.0, 0.5, 0.9, 1.6])
    counts = np.array([[100.0, 150.0, 250.0, 600.0]])
    result = rates(seconds, counts, 2.0)
    np.testing.assert_allclose(result[0, 1:], [100, 250, 500])
    assert np.isnan(result[0, 0])
    assert np.nansum(result[0, 1:] * np.diff(seconds)) == pytest.approx(500)


def test_a_missing_reading_is_bridged_by_the_next_one():
    result = rates(np.array([0.0, np.nan, 1.0]), np.array([[0.0, np.nan, 80.0]]), 2.0)
    np.testing.assert_array_equal(result[0], [np.nan, np.nan, 80.0])


def test_a_counter_that_steps_back_gives_no_rate_then_goes_on():
    result = rates(np.arange(4.0), np.array([[500.0, 600.0, 10.0, 40.0]]), 2.0)
    np.testing.assert_array_equal(result[0], [np.nan, 100.0, np.nan, 30.0])


def test_one_counter_that_steps_back_makes_all_rates_of_that_interval_unknown():
    counts = np.array([[500.0, 10.0], [7.0, 9.0]])
    assert np.isnan(rates(np.arange(2.0), counts, 2.0)).all()


def test_across_a_long_gap_there_is_no_rate():
    assert np.isnan(rates(np.array([0.0, 2.5]), np.array([[0.0, 100.0]]), 2.0)).all()


def run(status: str, start: float | None = None, end: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "a run",
        "host": "vhost1",
        "workload": "randwrite",
        "status": status,
        "started_ns": None if start is None else int(start * SECOND),
        "ended_ns": None if end is None else int(end * SECOND),
        "slow_seconds": 0.0,
        **more,
    }


def test_before_the_first_run_ends_there_is_no_estimate():
    assert eta.remaining_seconds([run("running", 0), run("planned")], 5 * SECOND) is None


def test_time_left_is_that_of_the_runs_to_come_their_pauses_and_the_rest_of_the_current_one():
    runs = [run("ok", 0, 30), run("ok", 32, 62), run("running", 64), run("planned"), run("planned")]
    assert eta.remaining_seconds(runs, 74 * SECOND) == pytest.approx(20 + 2 * (30 + 2))


def test_a_run_that_takes_longer_than_usual_counts_as_nearly_done():
    assert eta.remaining_seconds([run("ok", 0, 30), run("running", 30)], 90 * SECOND) == 0


def test_each_workload_is_judged_by_its_own_runs():
    runs = [
        run("ok", 0, 10),
        run("ok", 10, 110, workload="seqwrite"),
        run("planned", workload="seqwrite"),
        run("planned"),
    ]
    assert eta.remaining_seconds(runs, 110 * SECOND) == pytest.approx(110)


def test_hosts_work_side_by_side_so_the_slowest_counts():
    runs = [run("ok", 0, 10), run("planned"), *[run("planned", host="vhost2") for _ in range(3)]]
    assert eta.remaining_seconds(runs, 10 * SECOND) == pytest.approx(30)


def test_failed_runs_say_nothing_about_how_long_one_takes():
    assert eta.remaining_seconds([run("failed", 0, 1), run("planned")], SECOND) is None


def test_slow_motion_makes_those_who_wait_wait_longer():
    """By the lab's clock a run takes 30 s, by the one on the wall 300."""
    runs = [run("ok", 0, 30, slow_seconds=270.0), run("running", 32), run("planned")]
    assert eta.remaining_seconds(runs, 42 * SECOND) == pytest.approx(10 * 20 + 300)


def test_nothing_is_left_when_all_runs_are_over():
    assert eta.remaining_seconds([run("ok", 0, 10), run("not-run")], 10 * SECOND) == 0


def test_a_frame_reads_back_as_documented():
    values = np.arange(2 * 3 * 5, dtype=float).reshape(2, 3, 5)
    values[1, 2, 4] = np.nan
    section = frames.section(SECOND // 10, 17_000_000_000, values)
    frame = frames.header(7, 1_700_000_000_500_000_000, 3, 2, [section]) + section
    assert struct.unpack_from("<6d", frame) == (1, 7, 1_700_000_000.5, 3, 2, 1)
    assert struct.unpack_from("<5d", frame, 48) == (0.1, 17_000_000_000, 5, 2, 3)
    np.testing.assert_array_equal(np.frombuffer(frame, "<f4", 30, 88).reshape(2, 3, 5), values.astype("f4"))
    assert len(frame) % 8 == 0, "the next section must be aligned"


@pytest.mark.parametrize(
    ("row", "unaccounted"),
    [
        (
            {
                "expected": 100,
                "samples": 90,
                "lost": 5,
                "duplicate": 2,
                "repeated": 2,
                "over_range": 0,
                "impossible": 1,
            },
            0,
        ),
        (
            {
                "expected": 100,
                "samples": 90,
                "lost": 5,
                "duplicate": 3,
                "repeated": 0,
                "over_range": 0,
                "impossible": 0,
            },
            2,
        ),
        ({"expected": 100, "samples": 100, "lost": 0, "repeated": 0}, None),
        ({}, None),
    ],
)
def test_what_a_meters_ledger_leaves_unaccounted_for(row: dict[str, Any], unaccounted: int | None):
    assert powerd.meter({"name": "tap1a", **row})["unaccounted"] == unaccounted
