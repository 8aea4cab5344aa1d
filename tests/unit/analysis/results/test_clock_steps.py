# SPDX-License-Identifier: GPL-3.0-or-later
"""A clock that was set in a run is told from one that was slewed, whichever clock it is."""

from __future__ import annotations

import pytest

from joulerig.analysis.results.phases import STEP_NS, clock_steps

S = 1_000_000_000
HOUR = 3600 * S


def clock(seconds: int, moved_ns: float, *, booted: float | None = None, error: int = 100_000) -> list[dict]:
    """The offset before and after; it moved in between, and so did the host's time of boot."""
    moves = [{}, {}] if booted is None else [{"booted_ns": 7 * S}, {"booted_ns": 7 * S + int(booted)}]
    return [
        {"at_ns": 5 * S, "offset_ns": 40, "error_ns": error, **moves[0]},
        {"at_ns": (5 + seconds) * S, "offset_ns": 40 + int(moved_ns), "error_ns": error, **moves[1]},
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1.5, "forward by 1.5 s"), (-1.5, "back by 1.5 s"), (30, "forward by 30 s"), (-30, "back by 30 s"),
     (0.05, "forward by 0.05 s")],
)  # fmt: skip
def test_a_step_of_either_clock_is_one(seconds, shown):
    step = int(seconds * S)
    assert clock_steps(clock(10, step)) == [
        f"the controller's or the host's clock was set {shown} in the run"
    ]
    assert clock_steps(clock(10, step, booted=0)) == [f"the controller's clock was set {shown} in the run"]
    assert clock_steps(clock(10, step), step) == [f"the controller's clock was set {shown} in the run"]
    assert clock_steps(clock(10, -step, booted=step)) == [f"the host's clock was set {shown} in the run"]
    assert clock_steps([], step) == [f"the controller's clock was set {shown} in the run"]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("booted", [None, 0.0])
def test_what_slewing_and_errors_can_do_is_no_step(sign, booted):
    for seconds in (4, 3600, 86400):
        slewed = sign * 500e-6 * seconds * S
        assert clock_steps(clock(seconds, slewed, booted=booted)) == []
        assert clock_steps(clock(seconds, slewed + sign * (200_000 + STEP_NS), booted=booted)) == []
        assert clock_steps(clock(seconds, slewed + sign * (300_000 + STEP_NS), booted=booted)) != []


def test_a_step_that_slewing_would_hide_in_a_day_is_seen_by_each_machine_itself():
    day = 86400
    assert clock_steps(clock(day, 30 * S)) == []  # 43 s would be slewing
    assert clock_steps(clock(day, 30 * S, booted=0), 30 * S) != []
    assert clock_steps(clock(day, -30 * S, booted=30 * S)) != []


def test_both_clocks_set_alike_are_two_steps():
    assert clock_steps(clock(10, 0, booted=30 * S), 30 * S) == [
        "the controller's clock was set forward by 30 s in the run",
        "the host's clock was set forward by 30 s in the run",
    ]


def test_a_bad_measurement_is_no_step():
    assert clock_steps(clock(10, 1.5 * S, error=S)) == []


def test_a_single_measurement_shows_none():
    assert clock_steps(clock(10, 9 * S)[:1]) == []
