# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy of an interval: each rule of joulerig.analysis.energy.interval by example."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from joulerig.analysis.energy.interval import (
    CounterPoints,
    EnergyBudget,
    IntervalEnergy,
    Supply,
    energy_between,
    gap_correction,
    standard_uncertainties,
    total,
)

MS = 1_000_000
SECOND = 1_000_000_000
T0 = 1_700_000_000 * SECOND


def counter(watts, *, step_ns=10 * MS, start_ns=T0, joules_before=5.0, session="a", **more) -> CounterPoints:
    """Points `step_ns` apart; `watts[k]` is the mean power between points k and k+1."""
    watts = np.asarray(watts, dtype=float)
    joules = joules_before + np.concatenate([[0.0], np.cumsum(watts) * step_ns * 1e-9])
    times = start_ns + step_ns * np.arange(len(joules))
    sessions = np.full(len(joules), session, dtype=object) if isinstance(session, str) else session
    return CounterPoints(times, joules, sessions, **more)


def test_between_two_points_it_is_the_counters_difference():
    points = counter([2.0, 4.0, 6.0])
    assert energy_between(points, T0 + 10 * MS, T0 + 30 * MS).joules == pytest.approx(0.04 + 0.06, abs=1e-12)


def test_an_interval_of_all_points_has_all_energy():
    points = counter([2.0, 4.0, 6.0])
    assert energy_between(points, T0, T0 + 30 * MS).joules == pytest.approx(0.12, abs=1e-12)


def test_an_end_between_points_is_interpolated_linearly():
    points = counter([2.0, 4.0, 6.0])
    # the last quarter of 10 ms at 2 W, 10 ms at 4 W, the first half of 10 ms at 6 W
    expected = 0.25 * 0.02 + 0.04 + 0.5 * 0.06
    assert energy_between(points, T0 + 7_500_000, T0 + 25 * MS).joules == pytest.approx(expected, abs=1e-12)


def test_an_interval_inside_one_step_is_its_share_of_the_step():
    points = counter([2.0, 4.0])
    assert energy_between(points, T0 + 12 * MS, T0 + 17 * MS).joules == pytest.approx(4.0 * 0.005, abs=1e-12)


def test_an_empty_interval_has_no_energy():
    points = counter([2.0, 4.0])
    assert energy_between(points, T0 + 3 * MS, T0 + 3 * MS).joules == 0.0


def test_intervals_side_by_side_add_up():
    rng = np.random.default_rng(1)
    points = counter(rng.uniform(0, 10, 100))
    cuts = [T0, *sorted(T0 + rng.integers(0, 1000 * MS, 20)), T0 + 1000 * MS]
    parts = [energy_between(points, int(a), int(b)).joules for a, b in pairwise(cuts)]
    assert sum(parts) == pytest.approx(energy_between(points, T0, T0 + 1000 * MS).joules, rel=1e-12)


def test_a_lost_point_inside_loses_no_energy():
    whole = counter([2.0, 9.0, 1.0, 4.0])
    keep = [0, 1, 3, 4]
    thinned = CounterPoints(whole.time_ns[keep], whole.joules[keep], whole.session[keep])
    assert energy_between(thinned, T0, T0 + 40 * MS).joules == energy_between(whole, T0, T0 + 40 * MS).joules


def test_negative_power_counts_down():
    points = counter([3.0, -1.0, -1.0, 2.0])
    assert energy_between(points, T0 + 10 * MS, T0 + 30 * MS).joules == pytest.approx(-0.02, abs=1e-12)


def test_time_loses_no_nanosecond():
    points = counter([1e6], step_ns=10)
    assert energy_between(points, T0 + 1, T0 + 2).joules == pytest.approx(1e6 * 1e-9, rel=1e-6)


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (-1, 20 * MS, "first point is 1e-09 s after its start"),
        (0, 30 * MS + 1, "last point is 1e-09 s before its end"),
        (
            -5 * MS,
            50 * MS,
            "first point is 0.005 s after its start and the last point is 0.02 s before its end",
        ),
    ],
)
def test_an_interval_that_is_not_covered_has_no_joules(start, end, why):
    energy = energy_between(counter([2.0, 4.0, 6.0]), T0 + start, T0 + end)
    assert energy.joules is None
    assert energy.bound_joules is None
    assert energy.reason.startswith("interval not covered")
    assert why in energy.reason


def test_no_points_no_joules():
    energy = energy_between(CounterPoints([], [], []), T0, T0 + 1)
    assert (energy.joules, energy.reason) == (None, "no points")


def test_a_single_point_covers_the_empty_interval_on_it_and_no_other():
    points = CounterPoints([T0], [1.0], ["a"])
    assert energy_between(points, T0, T0).joules == 0.0
    assert energy_between(points, T0, T0 + 1).joules is None
    assert energy_between(points, T0 - 1, T0).joules is None


def with_gap(gap_ns: int) -> CounterPoints:
    times = [T0, T0 + 10 * MS, T0 + 10 * MS + gap_ns, T0 + 20 * MS + gap_ns]
    return CounterPoints(times, [0.0, 1.0, 2.0, 3.0], ["a"] * 4)


def test_a_wide_gap_around_an_end_gives_no_joules_where_no_power_is_known():
    points = with_gap(200 * MS)
    energy = energy_between(points, T0, T0 + 100 * MS, max_gap_ns=100 * MS)
    assert energy.joules is None
    assert energy.reason == "gap: the points around its end are 0.2 s apart, 0.1 s allowed"
    energy = energy_between(points, T0 + 100 * MS, T0 + 215 * MS, max_gap_ns=100 * MS)
    assert energy.reason == "gap: the points around its start are 0.2 s apart, 0.1 s allowed"


def test_points_exactly_at_the_limit_are_close_enough():
    assert energy_between(with_gap(100 * MS), T0, T0 + 60 * MS, max_gap_ns=100 * MS).joules == pytest.approx(
        1.5
    )


def test_a_gap_inside_costs_nothing_as_the_counter_goes_on():
    assert energy_between(with_gap(5 * SECOND), T0, T0 + 5 * SECOND + 20 * MS, max_gap_ns=MS).joules == 3.0


def test_a_gap_next_to_an_end_that_falls_on_a_point_does_not_matter():
    assert energy_between(with_gap(5 * SECOND), T0, T0 + 10 * MS, max_gap_ns=MS).joules == 1.0


def test_a_session_change_inside_gives_no_joules_instead_of_a_sum_that_is_too_small():
    points = CounterPoints(T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"])
    energy = energy_between(points, T0, T0 + 30 * MS)
    assert energy.joules is None
    assert energy.reason == "session changed 1 time: the energy between two sessions was not counted"


def test_a_session_change_between_the_points_around_an_end_gives_no_joules():
    points = CounterPoints(T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"])
    assert energy_between(points, T0 + 15 * MS, T0 + 30 * MS).joules is None
    assert energy_between(points, T0, T0 + 15 * MS).joules is None


def test_an_interval_within_one_session_does_not_mind_another_next_to_it():
    points = CounterPoints(T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"])
    assert energy_between(points, T0, T0 + 10 * MS).joules == 1.0
    assert energy_between(points, T0 + 20 * MS, T0 + 30 * MS).joules == 1.0


def test_a_session_that_changes_and_comes_back_is_seen():
    points = CounterPoints(T0 + 10 * MS * np.arange(3), [5.0, 0.1, 6.0], ["a", "b", "a"])
    assert energy_between(points, T0, T0 + 20 * MS).reason.startswith("session changed 2 times")


def test_a_point_whose_session_is_not_known_gives_no_joules():
    points = CounterPoints(T0 + 10 * MS * np.arange(3), [5.0, 6.0, 7.0], ["a", None, "a"])
    energy = energy_between(points, T0, T0 + 20 * MS)
    assert energy.joules is None
    assert energy.reason.startswith("session not known")


def test_a_point_without_a_new_sample_is_no_reset():
    points = counter([2.0, 0.0, 2.0], samples=[0, 10, 10, 20])
    assert energy_between(points, T0, T0 + 30 * MS).joules == pytest.approx(0.04)


def test_a_step_into_a_new_session_is_in_no_ledger():
    points = CounterPoints(
        T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"],
        samples=[0, 10, 500, 510], gap_seconds=[0.0, 0.001, 0.9, 0.902],
    )  # fmt: skip
    energy = energy_between(points, T0, T0 + 30 * MS)
    assert (energy.samples, energy.gap_seconds) == (20, pytest.approx(0.003))


def test_a_ledger_that_falls_within_a_session_takes_nothing_away():
    points = counter([2.0] * 3, lost=[0, 4, 1, 3])
    assert energy_between(points, T0, T0 + 30 * MS).lost == 6


def test_a_reset_without_a_new_session_is_seen_by_the_sample_counter():
    points = CounterPoints(
        T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a"] * 4, samples=[100, 110, 10, 20]
    )
    energy = energy_between(points, T0, T0 + 30 * MS)
    assert (energy.joules, energy.reason) == (None, "counter reset inside a session: samples run backwards")


def test_the_ledger_is_between_the_points_that_enclose_the_interval():
    points = counter(
        [2.0] * 4,
        samples=[100, 110, 118, 128, 138],
        expected=[100, 110, 120, 130, 140],
        lost=[0, 0, 2, 2, 2],
        gap_seconds=[0.0, 0.0, 0.002, 0.002, 0.002],
    )
    energy = energy_between(points, T0 + 12 * MS, T0 + 28 * MS)
    assert (energy.samples, energy.expected, energy.lost, energy.gap_seconds) == (18, 20, 2, 0.002)
    assert energy.expected - energy.samples == energy.lost


def test_a_loss_next_to_an_end_is_not_halved():
    points = counter([2.0] * 2, samples=[0, 10, 13], expected=[0, 10, 20], lost=[0, 0, 7])
    assert energy_between(points, T0, T0 + 11 * MS).lost == 7


def test_on_points_the_ledger_is_the_intervals_own():
    points = counter([2.0] * 3, samples=[0, 10, 20, 23], lost=[0, 0, 0, 7])
    energy = energy_between(points, T0, T0 + 20 * MS)
    assert (energy.samples, energy.lost) == (20, 0)


def test_without_joules_the_ledger_still_reports_what_was_seen():
    points = CounterPoints(
        T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"], samples=[100, 110, 10, 20]
    )
    assert energy_between(points, T0, T0 + 30 * MS).samples == 20
    assert energy_between(points, T0, T0 + 99 * MS).samples == 20


def test_the_bound_is_zero_on_points():
    points = counter([2.0, 4.0], watts_min=[0.0, 0.0, 0.0], watts_max=[9.0, 9.0, 9.0])
    assert energy_between(points, T0, T0 + 20 * MS).bound_joules == 0.0


def test_the_bound_at_mid_step_is_a_quarter_of_step_times_range():
    points = counter([2.0, 4.0], watts_min=[0.0, 1.0, 3.0], watts_max=[0.0, 4.0, 5.0])
    energy = energy_between(points, T0 + 5 * MS, T0 + 15 * MS)
    assert energy.bound_joules == pytest.approx(0.25 * 0.010 * (3.0 + 2.0))


def test_the_bound_is_unknown_without_extremes():
    assert energy_between(counter([2.0, 4.0]), T0 + 5 * MS, T0 + 15 * MS).bound_joules is None


def test_the_bound_holds_on_any_waveform_and_is_sharp():
    rng = np.random.default_rng(2)
    sample_ns, per_point, n_points = MS, 10, 60
    worst = 0.0
    for _ in range(200):
        watts = rng.choice([0.1, 8.0], n_points * per_point) * rng.choice([1.0, -0.2], n_points * per_point)
        truth = np.concatenate([[0.0], np.cumsum(watts) * sample_ns * 1e-9])
        by_point = watts.reshape(n_points, per_point)
        points = CounterPoints(
            T0 + sample_ns * per_point * np.arange(n_points + 1),
            truth[::per_point],
            np.full(n_points + 1, "a", dtype=object),
            watts_min=np.concatenate([[0.0], by_point.min(axis=1)]),
            watts_max=np.concatenate([[0.0], by_point.max(axis=1)]),
        )
        first, last = sorted(rng.integers(0, n_points * per_point, 2))
        energy = energy_between(points, T0 + int(first) * sample_ns, T0 + int(last) * sample_ns)
        error = abs(energy.joules - (truth[last] - truth[first]))
        assert error <= energy.bound_joules + 1e-12
        if energy.bound_joules > 0:
            worst = max(worst, error / energy.bound_joules)
    assert worst > 0.3  # a bound ten times too wide would also hold


def test_an_end_before_the_start_is_an_error():
    with pytest.raises(ValueError, match="before start_ns"):
        energy_between(counter([1.0]), T0 + 1, T0)


def test_points_out_of_order_are_an_error():
    with pytest.raises(ValueError, match="strictly rising"):
        CounterPoints([T0 + 1, T0], [0.0, 1.0], ["a", "a"])


def test_two_points_of_one_time_are_an_error():
    with pytest.raises(ValueError, match="strictly rising"):
        CounterPoints([T0, T0], [0.0, 1.0], ["a", "a"])


def test_lengths_that_differ_are_an_error():
    with pytest.raises(ValueError, match=r"lost: shape \(1,\), time_ns has 2 points"):
        CounterPoints([T0, T0 + 1], [0.0, 1.0], ["a", "a"], lost=[0])


def test_a_frame_of_a_query_becomes_points_in_time_order():
    frame = pl.DataFrame(
        {"time": [T0 + 10 * MS, T0], "joules": [2.0, 1.0], "session": ["a", "a"], "lost": [3, 1]}
    )
    points = CounterPoints.from_frame(frame)
    energy = energy_between(points, T0, T0 + 10 * MS)
    assert (energy.joules, energy.lost) == (1.0, 2)


def test_a_ledger_that_one_point_lacks_is_not_known():
    frame = pl.DataFrame(
        {"time_ns": [T0, T0 + 10 * MS, T0 + 20 * MS], "joules": [0.0, 1.0, 2.0], "session": ["a"] * 3,
         "samples": [0, 10, 20], "lost": [0, None, 3]}
    )  # fmt: skip
    points = CounterPoints.from_frame(frame)
    assert (points.lost, list(points.samples)) == (None, [0, 10, 20])


def test_points_of_a_program_that_knew_no_over_range_have_had_none():
    frame = pl.DataFrame(
        {"time_ns": [T0, T0 + 10 * MS, T0 + 20 * MS], "joules": [0.0, 1.0, 2.0], "session": ["a"] * 3,
         "over_range": [None, None, 3], "unbounded_seconds": [None, 0.0, 0.5]}
    )  # fmt: skip
    points = CounterPoints.from_frame(frame)
    assert (list(points.over_range), list(points.unbounded_seconds)) == ([0, 0, 3], [0.0, 0.0, 0.5])


def test_an_empty_frame_becomes_no_points():
    assert energy_between(CounterPoints.from_frame(pl.DataFrame()), T0, T0).reason == "no points"


def test_a_drives_energy_is_the_sum_over_its_rails():
    one = IntervalEnergy(
        1.5,
        "",
        0.1,
        10,
        11,
        1,
        0.5,
        worst_gap_seconds=0.5,
        budget=EnergyBudget(0.2, 0.4, 0.1, 0.01, 0.02, 0.05),
    )
    other = IntervalEnergy(
        2.0,
        "",
        0.2,
        20,
        20,
        0,
        0.1,
        worst_gap_seconds=0.1,
        budget=EnergyBudget(0.0, 0.1, 0.2, 0.03, 0.01, 0.0),
    )
    found = total([one, other])
    assert (found.joules, found.samples, found.expected, found.lost) == (3.5, 30, 31, 1)
    assert found.bound_joules == pytest.approx(0.3)
    assert (found.gap_seconds, found.worst_gap_seconds) == (pytest.approx(0.6), 0.5)
    assert found.joules_low == pytest.approx(one.joules_low + other.joules_low)
    assert found.joules_high == pytest.approx(one.joules_high + other.joules_high)


def test_a_sum_with_a_rail_whose_meter_has_no_class_has_no_meter_part():
    rails = [
        IntervalEnergy(1.0, budget=EnergyBudget(0.0, 0.0, 0.0, 0.0, 0.5, 0.0)),
        IntervalEnergy(1.0, budget=EnergyBudget(0.0, 0.0, 0.0, 0.0, product=0.0)),
    ]
    assert total(rails).budget.meter is None


def test_a_drive_with_a_rail_that_has_no_joules_has_none():
    rails = [IntervalEnergy(1.5, "", 0.1, 10, 10, 0, 0.0), IntervalEnergy(None, "no points")]
    summed = total(rails)
    assert (summed.joules, summed.reason, summed.samples) == (None, "no points", 10)


def test_a_drive_without_a_measured_rail_has_no_joules():
    assert total([]) == IntervalEnergy(None, "no rail is measured")


# --- the interval: gaps


def gapped(*, before=2.0, after=6.0, gap_ns=1000 * MS, counters=True, powers=True, residual=None):
    """A second at `before` W in 10 ms points, a gap, a second at `after` W: as powerd writes it.

    The gap is counted with what the rail was seen to draw before it: 1 W less to 1 W more than
    `before`.
    """
    times = np.concatenate(
        [T0 + 10 * MS * np.arange(101), T0 + 1000 * MS + gap_ns + 10 * MS * np.arange(101)]
    )
    rise = 0.01 * np.arange(101)
    joules = np.concatenate([before * rise, before * 1.0 + after * rise])
    behind = np.arange(202) > 100
    gap = gap_ns * 1e-9
    more = {"gap_seconds": np.where(behind, gap, 0.0)}
    if counters:
        more["joules_low"] = joules + np.where(behind, gap * (before - 1), 0.0)
        more["joules_high"] = joules + np.where(behind, gap * (before + 1), 0.0)
    if powers:
        watts = np.where(behind, after, before)
        watts[[0, 101]] = np.nan  # where a stream begins there are counters alone
        more["watts_min"], more["watts_max"] = watts - 1, watts + 1
    if residual is not None:
        more["clock_residual_seconds"] = np.full(202, residual)
    return CounterPoints(times, joules, np.full(202, "a", dtype=object), **more)


def test_without_a_gap_on_points_low_and_high_are_the_value():
    energy = energy_between(gapped(), T0 + 100 * MS, T0 + 900 * MS)
    assert energy.joules_low == energy.joules == energy.joules_high


def test_a_gap_inside_adds_the_least_and_the_most_that_the_rail_was_seen_to_draw():
    energy = energy_between(gapped(), T0, T0 + 3000 * MS)
    assert energy.joules == pytest.approx(8.0)  # what was measured, and nothing else
    # Before the gap 1 to 3 W were seen, after it 5 to 7 W: the interval holds both.
    assert energy.budget.gap_low == pytest.approx(1.0)
    assert energy.budget.gap_high == pytest.approx(7.0)
    assert (energy.joules_low, energy.joules_high) == (pytest.approx(9.0), pytest.approx(15.0))
    assert energy.gap_seconds == energy.worst_gap_seconds == pytest.approx(1.0)


def test_the_counters_own_bounds_stand_where_they_are_wider():
    """powerd has seen all of the session, a run's points are a part of it."""
    points = gapped()
    wide = CounterPoints(
        points.time_ns,
        points.joules,
        points.session,
        gap_seconds=points.gap_seconds,
        watts_min=points.watts_min,
        watts_max=points.watts_max,
        joules_low=points.joules + 0.25 * points.gap_seconds,
        joules_high=points.joules + 25.0 * points.gap_seconds,
    )
    energy = energy_between(wide, T0, T0 + 3000 * MS)
    assert energy.budget.gap_low == pytest.approx(0.25)
    assert energy.budget.gap_high == pytest.approx(25.0)


def test_counters_without_bounds_fall_back_to_what_the_points_saw():
    energy = energy_between(gapped(counters=False), T0, T0 + 3000 * MS)
    assert (energy.joules_low, energy.joules_high) == (pytest.approx(9.0), pytest.approx(15.0))


def test_a_gap_of_a_rail_whose_power_was_never_seen_has_no_bounds():
    energy = energy_between(gapped(counters=False, powers=False), T0, T0 + 3000 * MS)
    assert energy.joules == pytest.approx(8.0)
    assert (energy.joules_low, energy.joules_high) == (None, None)


def test_what_may_lie_between_readings_is_in_the_counters_and_at_the_ends_wholly():
    """A polled meter: each 10 ms may hold 2 mJ less or 3 mJ more than the line drawn."""
    rise = np.arange(101)
    joules = 2.0 * 0.01 * rise
    watts = np.full(101, 2.0)
    points = CounterPoints(
        T0 + 10 * MS * rise,
        joules,
        np.full(101, "a", dtype=object),
        gap_seconds=np.zeros(101),
        joules_low=joules - 2e-3 * rise,
        joules_high=joules + 3e-3 * rise,
        watts_min=watts,
        watts_max=watts,
    )
    energy = energy_between(points, T0 + 105 * MS, T0 + 505 * MS)
    assert energy.budget.gap_low == pytest.approx(-2e-3 * 41)
    assert energy.budget.gap_high == pytest.approx(3e-3 * 41)


def test_an_end_in_a_gap_is_measured_up_to_it_and_bounded_from_there():
    energy = energy_between(gapped(), T0, T0 + 1300 * MS)
    assert energy.joules == pytest.approx(2.0)
    assert energy.budget.gap_low == pytest.approx(0.3 * 1.0)
    assert energy.budget.gap_high == pytest.approx(0.3 * 7.0)


def test_a_start_in_a_gap_is_measured_from_its_end_on():
    energy = energy_between(gapped(), T0 + 1300 * MS, T0 + 2500 * MS)
    assert energy.joules == pytest.approx(3.0)
    assert energy.budget.gap_low == pytest.approx(0.7 * 1.0)
    assert energy.budget.gap_high == pytest.approx(0.7 * 7.0)


def test_an_interval_within_a_gap_has_no_joules():
    energy = energy_between(gapped(), T0 + 1300 * MS, T0 + 1600 * MS)
    assert (energy.joules, energy.reason) == (None, "gap: nothing of it was measured")


def test_a_hole_in_the_stored_points_is_not_a_gap_and_is_bounded_by_the_counter():
    points = gapped(gap_ns=1000 * MS)
    keep = np.r_[0:51, 61:202]  # 100 ms of points got lost on the way; the counter went on
    holed = CounterPoints(
        points.time_ns[keep],
        points.joules[keep],
        points.session[keep],
        gap_seconds=points.gap_seconds[keep],
        watts_min=points.watts_min[keep],
        watts_max=points.watts_max[keep],
    )
    energy = energy_between(holed, T0, T0 + 530 * MS, max_gap_ns=50 * MS)
    assert energy.joules == pytest.approx(2.0 * 0.53)
    assert (energy.budget.gap_low, energy.budget.gap_high) == (0.0, 0.0)
    # So far 1 to 3 W were seen: 30 ms hold from 0.03 J to 0.09 J.
    assert energy.joules_high - energy.joules == pytest.approx(0.03)
    assert energy.joules - energy.joules_low == pytest.approx(0.03)
    # 100 of the 110 ms: what they do not hold of 0.22 J, the last 10 ms do, at 1 to 3 W.
    energy = energy_between(holed, T0, T0 + 600 * MS, max_gap_ns=50 * MS)
    assert energy.joules_high - energy.joules == pytest.approx(0.01)


def test_a_session_change_next_to_a_gap_still_gives_no_joules():
    points = gapped()
    two = CounterPoints(
        points.time_ns,
        points.joules,
        np.array(["a"] * 101 + ["b"] * 101, dtype=object),
        watts_min=points.watts_min,
        watts_max=points.watts_max,
    )
    assert energy_between(two, T0, T0 + 1300 * MS).joules is None


def test_a_stream_that_begins_does_not_make_the_power_of_the_rest_unknown():
    frame = pl.DataFrame(
        {
            "time_ns": [T0, T0 + 10 * MS, T0 + 20 * MS],
            "joules": [0.0, 0.02, 0.04],
            "session": ["a"] * 3,
            "watts_min": [None, 1.0, 1.0],
            "watts_max": [None, 3.0, 3.0],
        }
    )
    energy = energy_between(CounterPoints.from_frame(frame), T0 + 5 * MS, T0 + 15 * MS)
    assert energy.bound_joules == pytest.approx(2 * 0.25 * 0.010 * 2.0)


def test_the_truth_lies_within_whatever_blocks_are_dropped():
    """5 % of the blocks of a bursty rail are lost; every interval's truth is within [low, high]."""
    rng = np.random.default_rng(5)
    blocks, step = 3000, 10 * MS
    outside, widest = 0, 0.0
    for _ in range(20):
        watts = np.where(rng.random(blocks) < 0.5, rng.uniform(0.4, 0.8, blocks), rng.uniform(3, 9, blocks))
        truth = np.concatenate([[0.0], np.cumsum(watts) * step * 1e-9])
        kept = rng.random(blocks) >= 0.05
        joules = np.concatenate([[0.0], np.cumsum(np.where(kept, watts, 0.0)) * step * 1e-9])
        gaps = np.concatenate([[0.0], np.cumsum(~kept) * step * 1e-9])
        extremes = np.concatenate([[np.nan], np.where(kept, watts, np.nan)])
        points = CounterPoints(
            T0 + step * np.arange(blocks + 1),
            joules,
            np.full(blocks + 1, "a", dtype=object),
            gap_seconds=gaps,
            watts_min=extremes,
            watts_max=extremes,
        )
        for _ in range(20):
            first, last = sorted(T0 + rng.integers(200 * step, blocks * step, 2))
            energy = energy_between(points, int(first), int(last))
            if energy.joules is None:
                continue
            ends = np.interp([first - T0, last - T0], step * np.arange(blocks + 1), truth)
            outside += not energy.joules_low - 1e-9 <= ends[1] - ends[0] <= energy.joules_high + 1e-9
            if last - first > 1000 * step:
                widest = max(widest, (energy.joules_high - energy.joules_low) / (ends[1] - ends[0]))
    assert outside == 0
    assert widest < 0.2  # 5 % lost of a rail of 0.4 to 9 W whose mean is 3.3 W: about 13 %


def half_gap(*, counted=0.03, low=None, high=None, gap=0.005, seen=(1.0, 9.0)) -> CounterPoints:
    """Three steps of 10 ms; the middle one has a gap of `gap` and `counted` joules besides.

    `seen`: least and greatest watts; `low`, `high`: what the counters give the gap, in joules.
    """
    joules = np.array([0.0, 0.05, 0.05 + counted, 0.1 + counted])
    behind = np.array([0, 0, 1, 1])
    more = {"gap_seconds": gap * behind}
    if low is not None:
        more |= {"joules_low": joules + low * behind, "joules_high": joules + high * behind}
    return CounterPoints(
        T0 + 10 * MS * np.arange(4), joules, ["a"] * 4,
        watts_min=[np.nan, *[seen[0]] * 3], watts_max=[np.nan, *[seen[1]] * 3], **more,
    )  # fmt: skip


def bounds_of_part(points: CounterPoints, start_ms: int, end_ms: int) -> tuple[float, float]:
    energy = energy_between(points, T0 + start_ms * MS, T0 + end_ms * MS)
    return pytest.approx(energy.joules_low), pytest.approx(energy.joules_high)


def test_an_interval_within_a_step_that_has_a_gap_is_bounded_once():
    """At 5 W throughout, what was seen bounds 2 of the 10 ms to 10 mJ."""
    points = half_gap(counted=0.025, seen=(5.0, 5.0))
    assert bounds_of_part(points, 14, 16) == (0.01, 0.01)


def test_of_a_step_with_a_gap_the_part_inside_holds_what_the_outside_cannot():
    """30 mJ were counted in 5 of 10 ms, and 5 to 45 mJ are in the gap: 1 to 9 W were seen."""
    # 8 ms inside: all but 18 mJ of 35 at least; all but 2 mJ of 75 would be more than 9 W make.
    assert bounds_of_part(half_gap(), 10, 18) == (0.035 - 0.002 * 9, 0.008 * 9)
    # Of 130 mJ at most, the 2 ms outside have 2 at least where 1 to 20 W were seen.
    assert bounds_of_part(half_gap(seen=(1.0, 20.0)), 10, 18) == (0.008 * 1, 0.130 - 0.002 * 1)


def test_the_mean_of_what_was_measured_widens_what_was_seen():
    """100 mJ in the 5 ms outside the gap are 20 W, whatever the extremes of the samples are."""
    points = half_gap(counted=0.1)
    assert bounds_of_part(points, 10, 12)[1] == 0.002 * 20


def test_what_the_counters_give_a_gap_widens_what_was_seen():
    """500 mJ in a gap of 5 ms are 100 W."""
    points = half_gap(low=0.0, high=0.5)
    assert bounds_of_part(points, 10, 12)[1] == 0.002 * 100


def test_a_gap_is_no_longer_than_its_step():
    points = half_gap(gap=5.0, counted=0.0)
    energy = energy_between(points, T0 + 10 * MS, T0 + 20 * MS)
    assert energy.budget.gap_high == pytest.approx(0.01 * 9)


def test_what_another_session_drew_bounds_no_gap_of_this_one():
    points = half_gap(gap=0.005)
    two = CounterPoints(
        np.concatenate([[T0 - 20 * MS, T0 - 10 * MS], points.time_ns]),
        np.concatenate([[0.0, 1.0], points.joules]),
        ["a"] * 2 + ["b"] * 4,
        watts_min=np.concatenate([[0.0, 0.0], points.watts_min]),
        watts_max=np.concatenate([[500.0, 500.0], points.watts_max]),
        gap_seconds=np.concatenate([[0.0, 0.0], points.gap_seconds]),
    )
    assert energy_between(two, T0, T0 + 30 * MS).budget.gap_high == pytest.approx(0.005 * 9)


def test_a_hole_bounds_what_it_may_have_too_much_and_too_little():
    """Divide 120 mJ of 100 ms without points, at 1 to 9 W: 60 ms hold 60 to 80 mJ of them."""
    points = CounterPoints(
        T0 + MS * np.array([0, 10, 110, 120]), [0.0, 0.02, 0.14, 0.16], ["a"] * 4,
        watts_min=[1.0] * 4, watts_max=[9.0] * 4, gap_seconds=[0.0] * 4,
    )  # fmt: skip
    energy = energy_between(points, T0, T0 + 70 * MS, max_gap_ns=50 * MS)
    value, least, most = 0.12 * 0.6, 0.06, 0.12 - 0.04 * 1
    assert energy.bound_joules == pytest.approx(max(value - least, most - value))
    energy = energy_between(points, T0, T0 + 50 * MS, max_gap_ns=50 * MS)
    value, least, most = 0.12 * 0.4, 0.04, 0.12 - 0.06 * 1
    assert energy.bound_joules == pytest.approx(most - value)


def test_between_readings_nothing_is_certain_to_lie_within_the_part_inside():
    """The counters' own low rose above the joules: that may all be in the part outside."""
    points = CounterPoints(
        T0 + 10 * MS * np.arange(2), [0.0, 0.05], ["a"] * 2,
        watts_min=[5.0] * 2, watts_max=[5.0] * 2, joules_low=[0.0, 0.06], joules_high=[0.0, 0.07],
    )  # fmt: skip
    energy = energy_between(points, T0, T0 + 5 * MS)
    assert (energy.budget.gap_low, energy.budget.gap_high) == (0.0, pytest.approx(0.02))
    points = CounterPoints(
        T0 + 10 * MS * np.arange(2), [0.0, 0.05], ["a"] * 2,
        watts_min=[5.0] * 2, watts_max=[5.0] * 2, joules_low=[0.0, 0.03], joules_high=[0.0, 0.04],
    )  # fmt: skip
    energy = energy_between(points, T0, T0 + 5 * MS)
    assert (energy.budget.gap_low, energy.budget.gap_high) == (pytest.approx(-0.02), 0.0)


def test_a_step_whose_power_is_not_known_has_no_bound():
    points = counter([2.0, 4.0], watts_min=[1.0, np.nan, 1.0], watts_max=[9.0, np.nan, 9.0])
    assert energy_between(points, T0 + 5 * MS, T0 + 20 * MS).bound_joules is None


# --- the interval: where the ends are


def test_an_end_that_may_have_moved_costs_its_error_times_the_greatest_power_around():
    energy = energy_between(gapped(before=2.0), T0 + 500 * MS, T0 + 700 * MS, edge_error_ns=2 * MS)
    assert energy.budget.alignment == pytest.approx(2 * 0.002 * 3.0)
    assert energy.joules_high - energy.joules == pytest.approx(2 * 0.002 * 3.0)


def test_the_time_fits_own_residual_counts_at_both_ends():
    energy = energy_between(gapped(residual=1e-4), T0 + 500 * MS, T0 + 700 * MS, edge_error_ns=2 * MS)
    assert energy.budget.alignment == pytest.approx(2 * 0.0021 * 3.0)


def test_each_end_has_the_power_around_itself():
    energy = energy_between(gapped(), T0 + 500 * MS, T0 + 2500 * MS, edge_error_ns=MS)
    assert energy.budget.alignment == pytest.approx(0.001 * 3.0 + 0.001 * 7.0)


@pytest.mark.parametrize(("burst", "begin_ms", "end_ms"), [(60, 100, 580), (40, 430, 900)])
def test_a_burst_that_an_end_may_reach_counts(burst, begin_ms, end_ms):
    watts = np.full(100, 2.0)
    watts[burst] = 50.0
    extremes = np.concatenate([[np.nan], watts])
    points = counter(watts, watts_min=extremes, watts_max=extremes)
    near = energy_between(points, T0 + begin_ms * MS, T0 + end_ms * MS, edge_error_ns=25 * MS)
    far = energy_between(points, T0 + begin_ms * MS, T0 + end_ms * MS, edge_error_ns=15 * MS)
    assert near.budget.alignment == pytest.approx(0.025 * (2 + 50))
    assert far.budget.alignment == pytest.approx(0.015 * (2 + 2))


def test_the_time_fit_of_the_points_around_an_end_counts_however_far_they_are():
    """Two points a second apart, of which the later one's time is off by a millisecond."""
    points = CounterPoints(
        [T0, T0 + SECOND], [0.0, 2.0], ["a", "a"],
        watts_min=[2.0] * 2, watts_max=[2.0] * 2, clock_residual_seconds=[0.0, 1e-3],
    )  # fmt: skip
    energy = energy_between(points, T0 + 500 * MS, T0 + 500 * MS, max_gap_ns=2 * SECOND)
    assert energy.budget.alignment == pytest.approx(2 * 1e-3 * 2.0)


def test_what_flows_back_at_an_end_counts_where_the_mean_does_not_show_it():
    points = counter([1.0] * 9, watts_min=[-8.0] * 10, watts_max=[2.0] * 10)
    energy = energy_between(points, T0 + 40 * MS, T0 + 50 * MS, edge_error_ns=MS)
    assert energy.budget.alignment == pytest.approx(2 * 0.001 * 8.0)


def test_the_rise_into_another_session_is_no_power_at_an_end():
    points = CounterPoints(
        T0 + 10 * MS * np.arange(4), [0.0, 900.0, 0.5, 0.52], ["a", "b", "b", "b"],
        watts_min=[2.0] * 4, watts_max=[2.0] * 4,
    )  # fmt: skip
    fallen = energy_between(points, T0 + 20 * MS, T0 + 30 * MS, edge_error_ns=MS)
    other = CounterPoints(
        T0 + 10 * MS * np.arange(4), [0.0, 900.0, 900.02, 900.04], ["a", "b", "b", "b"],
        watts_min=[2.0] * 4, watts_max=[2.0] * 4,
    )  # fmt: skip
    risen = energy_between(other, T0 + 10 * MS, T0 + 30 * MS, edge_error_ns=MS)
    assert risen.budget.alignment == pytest.approx(2 * 0.001 * 2.0)
    assert fallen.budget.alignment > risen.budget.alignment  # within a session it is


def test_a_gap_near_an_end_may_have_drawn_what_the_rail_was_seen_to_draw_before():
    """9 W were seen long before; the gap's own bounds by the counters are 2 W."""
    n = np.arange(30)
    watts = np.where(n < 3, 9.0, 2.0)
    joules = np.concatenate([[0.0], np.cumsum(np.where(n == 20, 0.0, watts) * 0.01)])
    behind = np.arange(31) > 20
    points = CounterPoints(
        T0 + 10 * MS * np.arange(31), joules, ["a"] * 31,
        watts_min=np.concatenate([[np.nan], np.where(n == 20, np.nan, watts)]),
        watts_max=np.concatenate([[np.nan], np.where(n == 20, np.nan, watts)]),
        gap_seconds=0.01 * behind, joules_low=joules + 0.02 * behind, joules_high=joules + 0.02 * behind,
    )  # fmt: skip
    energy = energy_between(points, T0 + 100 * MS, T0 + 210 * MS, edge_error_ns=MS)
    assert energy.budget.alignment == pytest.approx(0.001 * 2.0 + 0.001 * 9.0)


def test_power_that_flows_back_moves_an_end_as_much():
    extremes = np.concatenate([[np.nan], np.full(50, -4.0)])
    points = counter(np.full(50, -4.0), watts_min=extremes, watts_max=extremes)
    energy = energy_between(points, T0 + 100 * MS, T0 + 200 * MS, edge_error_ns=MS)
    assert energy.budget.alignment == pytest.approx(2 * 0.001 * 4.0)


def test_an_alignment_error_without_any_power_known_is_unknown():
    energy = energy_between(counter([2.0] * 9), T0, T0 + 10 * MS, edge_error_ns=1)
    assert energy.joules == pytest.approx(0.02)
    assert (energy.budget.alignment, energy.joules_low) == (None, None)


def test_a_negative_edge_error_is_an_error():
    with pytest.raises(ValueError, match="edge_error_ns -1: negative"):
        energy_between(counter([1.0]), T0, T0 + 1, edge_error_ns=-1)


@pytest.mark.parametrize(("least", "floor"), [(0.0, 0.0), (4.0, 0.0), (-0.5, -0.5 * 0.2)])
def test_energy_is_at_least_none_unless_the_rail_was_seen_to_feed_back(least, floor):
    points = CounterPoints(
        T0 + 100 * MS * np.arange(6),
        0.36 * np.arange(6),
        np.full(6, "a", dtype=object),
        watts_min=np.full(6, least),
        watts_max=np.full(6, 4.0),
        joules_low=np.zeros(6),
        joules_high=6.0 * np.arange(6),
        gap_seconds=np.zeros(6),
    )
    energy = energy_between(points, T0 + 100 * MS, T0 + 300 * MS, edge_error_ns=100 * MS)
    assert energy.budget.gap_low - energy.budget.alignment < -0.72  # more than was measured
    assert energy.joules_low == pytest.approx(floor)
    assert total([energy, energy]).joules_low == pytest.approx(2 * floor)


def test_the_moved_interval_lies_within_for_any_waveform():
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(300):
        watts = rng.choice([0.2, 9.0], 400)
        truth = np.concatenate([[0.0], np.cumsum(watts) * 1e-3])
        by_point = watts.reshape(40, 10)
        points = CounterPoints(
            T0 + 10 * MS * np.arange(41),
            truth[::10],
            np.full(41, "a", dtype=object),
            watts_min=np.concatenate([[np.nan], by_point.min(axis=1)]),
            watts_max=np.concatenate([[np.nan], by_point.max(axis=1)]),
        )
        start, end = sorted(rng.integers(20 * MS, 380 * MS, 2))
        energy = energy_between(points, T0 + int(start), T0 + int(end), edge_error_ns=3 * MS)
        moved = np.maximum.accumulate(np.add([start, end], rng.integers(-3 * MS, 3 * MS + 1, 2)))
        true = np.diff(np.interp(moved, MS * np.arange(401), truth))[0]
        assert energy.joules_low - 1e-12 <= true <= energy.joules_high + 1e-12
        worst = max(worst, abs(true - energy.joules) / (energy.joules_high - energy.joules))
    assert worst > 0.3


# --- the interval: parts


def test_the_meters_part_widens_both_ways_and_shares_are_of_the_width():
    energy = energy_between(gapped(), T0 + 500 * MS, T0 + 700 * MS, edge_error_ns=MS)
    wider = energy.with_meter(0.018)
    assert wider.joules_high - energy.joules_high == pytest.approx(0.018)
    assert energy.joules_low - wider.joules_low == pytest.approx(0.018)
    shares = wider.budget.shares()
    assert shares == {
        "gaps": 0.0,
        "interpolation": 0.0,
        "alignment": pytest.approx(0.25),
        "product": 0.0,
        "meter": pytest.approx(0.75),
    }
    assert "meter" not in energy.budget.shares()


def test_shares_are_of_half_of_what_reaches_from_one_side_to_the_other():
    budget = EnergyBudget(gap_low=1.0, gap_high=3.0, interpolation=1.0, product=4.0)
    assert budget.shares() == {"gaps": 0.25, "interpolation": 0.25, "product": 0.5}


def test_volts_and_amps_of_a_gap_are_not_integrated():
    points = counter([2.0] * 2, volts=[np.nan, 12, 10], amps=[np.nan, 1, 2], gap_seconds=[0.0, 0.004, 0.014])
    energy = energy_between(points, T0, T0 + 20 * MS)
    assert (energy.volt_seconds, energy.amp_seconds) == (pytest.approx(0.006 * 12), pytest.approx(0.006))


def test_volts_that_no_point_of_the_interval_has_are_not_known():
    points = counter([2.0] * 3, volts=[np.nan, 12.0, np.nan, np.nan])
    assert energy_between(points, T0 + 10 * MS, T0 + 30 * MS).volt_seconds is None


def test_volts_and_amps_are_integrated_over_what_was_measured():
    points = counter([2.0] * 4, volts=[np.nan, 12, 12, 10, 10], amps=[np.nan, 1, 2, 3, 4])
    energy = energy_between(points, T0 + 5 * MS, T0 + 35 * MS)
    assert energy.volt_seconds == pytest.approx(0.005 * 12 + 0.010 * 12 + 0.010 * 10 + 0.005 * 10)
    assert energy.amp_seconds == pytest.approx(0.005 * 1 + 0.010 * 2 + 0.010 * 3 + 0.005 * 4)


def test_the_whole_ledger_is_between_the_points_that_enclose():
    points = counter(
        [2.0] * 3,
        samples=[0, 8, 15, 25],
        expected=[0, 10, 20, 30],
        lost=[0, 1, 2, 2],
        duplicate=[0, 0, 1, 1],
        repeated=[0, 1, 2, 2],
        surplus=[0, 0, 0, 4],
        gap_seconds=[0.0, 0.001, 0.003, 0.003],
    )
    energy = energy_between(points, T0 + MS, T0 + 29 * MS)
    assert energy.expected == energy.samples + energy.lost + energy.duplicate + energy.repeated == 30
    assert energy.surplus == 4
    assert energy.worst_gap_seconds == pytest.approx(0.002)


# --- the interval: products of means


def drooping(rng, ohms: float, *, per_window: int = 50, windows: int = 4000, every: int = 10):
    """Return (points, truth) of a drooping 3.3 V rail with bursts shorter than a window."""
    duty = rng.random(windows)[:, None] * (rng.random(windows) < 0.7)[:, None]
    amps = np.where(rng.random((windows, per_window)) < duty, 1.5, 0.1)
    volts = 3.3 - ohms * amps
    step = MS * 1e-9 / per_window
    truth = np.concatenate([[0.0], np.cumsum((volts * amps).sum(axis=1) * step)])
    mean_volts, mean_amps = volts.mean(axis=1), amps.mean(axis=1)
    watts = mean_volts * mean_amps
    joules = np.concatenate([[0.0], np.cumsum(watts) * MS * 1e-9])

    def by_points(values, how):
        return np.concatenate([[np.nan], how(values.reshape(-1, every), axis=1)])

    points = CounterPoints(
        T0 + every * MS * np.arange(windows // every + 1),
        joules[::every],
        np.full(windows // every + 1, "a", dtype=object),
        watts_min=by_points(watts, np.min),
        watts_max=by_points(watts, np.max),
        volts=by_points(mean_volts, np.mean),
        amps=by_points(mean_amps, np.mean),
    )
    return points, truth[::every]


@pytest.mark.parametrize("ohms", [0.01, 0.05, 0.2])
def test_mean_volts_times_mean_amps_is_too_much_by_no_more_than_its_part(ohms):
    points, truth = drooping(np.random.default_rng(4), ohms)
    first, last = 50, 350
    start, end = int(points.time_ns[first]), int(points.time_ns[last])
    true = truth[last] - truth[first]
    plain = energy_between(points, start, end)
    energy = energy_between(points, start, end, mean_products=Supply(amps=1.6, ohms=ohms))
    assert plain.budget.product == 0
    assert plain.joules_low > true  # without the part the truth would lie outside
    assert energy.joules_low <= true <= energy.joules_high
    assert energy.budget.product < 5 * (energy.joules - true)  # and it is not just anything


def test_a_rail_that_does_not_droop_has_no_such_part():
    points, _ = drooping(np.random.default_rng(4), 0.0)
    energy = energy_between(
        points, int(points.time_ns[50]), int(points.time_ns[350]), mean_products=Supply(1.5, 0.0)
    )
    assert energy.budget.product == 0


def steady_to_the_meter(ohms: float = 0.05):
    """Return (points, joules of a second) of a 12 V rail that takes 3 A in a third of every window.

    The samples are all alike.
    """
    amps = np.array([3.0, 0.0, 0.0])
    volts = 12.0 - ohms * amps
    watts = float(volts.mean() * amps.mean())
    n = np.arange(101)
    points = CounterPoints(
        T0 + 10 * MS * n,
        0.01 * watts * n,
        np.full(101, "a", dtype=object),
        watts_min=np.full(101, watts),
        watts_max=np.full(101, watts),
        volts=np.full(101, volts.mean()),
        amps=np.full(101, amps.mean()),
    )
    return points, float((volts * amps).mean())


def test_a_load_within_every_window_alike_leaves_no_trace_and_is_bounded_by_what_is_declared():
    points, truth = steady_to_the_meter()
    energy = energy_between(points, T0, T0 + 1000 * MS, mean_products=Supply(amps=3.0, ohms=0.05))
    assert energy.joules > 1.008 * truth
    # var(I) is I (I_max - I) when the load takes all or nothing: the truth is the bound itself.
    assert energy.joules_low == pytest.approx(truth)
    assert truth <= energy.joules_high


@pytest.mark.parametrize(
    "supply",
    [Supply(), Supply(amps=3.0), Supply(ohms=0.05), Supply(amps=0.9, ohms=0.05)],
    ids=["nothing is declared", "no ohms", "no amps", "more was drawn than it delivers"],
)
def test_without_a_supply_that_holds_there_are_no_bounds(supply):
    points, _ = steady_to_the_meter()
    energy = energy_between(points, T0, T0 + 1000 * MS, mean_products=supply)
    assert energy.joules is not None
    assert (energy.budget.product, energy.joules_low, energy.joules_high) == (None, None, None)


def test_a_rail_may_draw_all_that_its_supply_delivers():
    points, _ = steady_to_the_meter()  # 1 A
    energy = energy_between(points, T0, T0 + 1000 * MS, mean_products=Supply(amps=1.0, ohms=0.05))
    assert energy.budget.product == 0.0


def test_the_step_in_which_an_interval_ends_may_exceed_the_supply_too():
    points = counter([2.0] * 2, amps=[np.nan, 1.0, 5.0])
    energy = energy_between(points, T0, T0 + 15 * MS, mean_products=Supply(amps=3.0, ohms=0.05))
    assert (energy.joules, energy.budget.product) == (pytest.approx(0.03), None)


def test_products_of_means_without_amps_have_no_bound():
    energy = energy_between(gapped(), T0 + 100 * MS, T0 + 900 * MS, mean_products=Supply(3.0, 0.05))
    assert (energy.budget.product, energy.joules_low, energy.joules_high) == (None, None, None)


def test_between_readings_the_counters_bounds_hold_for_the_ends_instants_too():
    """An instrument that is polled: 6 W at each reading, and up to 24 W between them."""
    n = np.arange(21)
    points = CounterPoints(
        T0 + 100 * MS * n,
        0.6 * n,
        np.full(21, "a", dtype=object),
        watts_min=np.full(21, 6.0),
        watts_max=np.full(21, 6.0),
        joules_low=0.0 * n,
        joules_high=2.4 * n,
    )
    energy = energy_between(points, T0 + 250 * MS, T0 + 1750 * MS, edge_error_ns=100 * MS)
    assert energy.budget.alignment == pytest.approx(2 * 0.1 * 24)
    assert energy.joules_low <= 0
    assert energy.joules_high >= 1.7 * 24


# --- traps that others fell into


def test_a_gap_is_not_interpolated_away():
    """The line between the powers around it would give 4 J of the second that was not measured."""
    energy = energy_between(gapped(before=2.0, after=6.0), T0, T0 + 3000 * MS)
    assert energy.joules == pytest.approx(2.0 + 6.0)
    assert energy.joules_high - energy.joules_low == pytest.approx(7.0 - 1.0)


def test_the_sign_of_power_that_flows_back_is_not_dropped():
    extremes = np.concatenate([[np.nan], np.full(20, -3.0)])
    points = counter(np.full(20, -3.0), watts_min=extremes, watts_max=extremes)
    energy = energy_between(points, T0, T0 + 200 * MS)
    assert (energy.joules_low, energy.joules_high) == (pytest.approx(-0.6), pytest.approx(-0.6))


def test_a_meter_that_stopped_is_not_a_rail_that_drew_nothing():
    """A counter that stands still through a gap says nothing; through samples it says 0 J."""
    silent, idle = gapped(before=0.0, after=0.0), counter(np.zeros(300), samples=10 * np.arange(301))
    assert energy_between(silent, T0 + 1100 * MS, T0 + 1900 * MS).joules is None
    assert energy_between(idle, T0 + 1100 * MS, T0 + 1900 * MS).joules == 0.0


@pytest.mark.parametrize("set_back", [0.5, 2.0])
def test_a_clock_that_was_set_back_is_in_the_ends_of_all_that_lies_near(set_back):
    """powerd's axis runs at half speed until it is right; each point says how far off it is."""
    rng = np.random.default_rng(11)
    step = 0.01
    n = np.arange(3001)
    real = step * n  # seconds of a clock that is never set
    utc = np.where(real > 10, real - set_back, real)
    axis = utc.copy()
    for k in range(1, len(axis)):
        axis[k] = max(utc[k], axis[k - 1] + step / 2)
    watts = rng.choice([1.0, 9.0], len(n) // 100 + 1).repeat(100)[1 : len(n)]
    joules = np.concatenate([[0.0], np.cumsum(watts * step)])
    points = CounterPoints(
        T0 + np.round(axis * 1e9).astype(np.int64),
        joules,
        np.full(len(n), "a", dtype=object),
        watts_min=np.concatenate([[np.nan], watts]),
        watts_max=np.concatenate([[np.nan], watts]),
        clock_residual_seconds=axis - utc,
    )
    missed = 0
    for _ in range(300):
        start, end = np.sort(rng.integers(100, len(n) - 100, 2))
        if utc[end] <= utc[start]:
            continue  # by the clock this interval has no length
        energy = energy_between(points, T0 + round(utc[start] * 1e9), T0 + round(utc[end] * 1e9))
        truth = joules[end] - joules[start]
        assert energy.joules_low - 1e-6 <= truth <= energy.joules_high + 1e-6
        missed += abs(energy.joules - truth) > 0.01
    assert missed >= 10  # without the points' own word the truth would often lie outside


# --- over range


def over_range(unbounded_to: float, **more) -> CounterPoints:
    """Ten steps of 10 ms at 2 W; the fifth is over range for 4 ms, of 4 samples."""
    step = np.arange(11) >= 5
    joules = np.concatenate([[0.0], np.cumsum(np.where(np.arange(10) == 4, 0.012, 0.02))])
    return CounterPoints(
        T0 + 10 * MS * np.arange(11),
        joules,
        ["s"] * 11,
        watts_min=[2.0] * 11,
        watts_max=[2.0] * 11,
        gap_seconds=0.004 * step,
        over_range=4 * step,
        unbounded_seconds=unbounded_to * step,
        joules_low=joules,
        joules_high=joules + (0.0 if unbounded_to else 0.004 * 100.0) * step,
        **more,
    )


def test_time_over_range_that_nothing_bounds_leaves_joules_and_no_bounds():
    energy = energy_between(over_range(0.004), T0, T0 + 100 * MS)
    assert (energy.joules, energy.over_range) == (pytest.approx(0.192), 4)
    assert (energy.joules_low, energy.joules_high, energy.budget.gap_high) == (None, None, None)
    assert energy.budget.shares() == {}


def test_time_over_range_reaches_up_to_what_the_supply_delivers():
    energy = energy_between(over_range(0.0), T0, T0 + 100 * MS)
    assert energy.joules_high == pytest.approx(0.192 + 0.4)
    assert energy.joules_low <= 0.192


def test_an_interval_that_was_within_range_has_its_bounds_whatever_the_session_had_before():
    energy = energy_between(over_range(0.004), T0 + 50 * MS, T0 + 100 * MS)
    assert (energy.over_range, energy.joules_low) == (0, pytest.approx(0.1))


def test_an_end_that_can_lie_where_the_rail_was_over_range_has_no_bounds():
    assert (
        energy_between(over_range(0.004), T0 + 51 * MS, T0 + 100 * MS, edge_error_ns=2 * MS).joules_low
        is None
    )
    near = energy_between(over_range(0.0), T0 + 51 * MS, T0 + 100 * MS, edge_error_ns=2 * MS)
    assert near.budget.alignment == pytest.approx(0.002 * 100.0 + 0.002 * 2.0)


def test_points_of_a_program_that_knew_no_over_range_are_as_they_were():
    frame = pl.DataFrame(
        {
            "time_ns": [T0, T0 + 10 * MS, T0 + 20 * MS],
            "joules": [0.0, 1.0, 2.0],
            "session": ["s"] * 3,
            "watts_min": [None, 100.0, 100.0],
            "watts_max": [None, 100.0, 100.0],
            "over_range": [None, None, 0],
            "unbounded_seconds": [None, None, 0.0],
        }
    )
    energy = energy_between(CounterPoints.from_frame(frame), T0, T0 + 20 * MS)
    assert (energy.over_range, energy.joules_low) == (0, 2.0)


# --- the correction of gaps


@pytest.mark.parametrize(
    ("low", "high", "correction"),
    [
        pytest.param(1.0, 4.0, 2.5, id="the middle"),
        pytest.param(0.0, 0.0, 0.0, id="no gaps"),
        pytest.param(-4.0, -1.0, -2.5, id="a rail that feeds back"),
        pytest.param(-1.0, 4.0, 0.0, id="between the readings of a polled meter: of unknown sign"),
        pytest.param(None, None, 0.0, id="not bounded"),
    ],
)
def test_a_gap_is_corrected_by_the_middle_of_its_limits_where_its_sign_is_known(low, high, correction):
    assert gap_correction(low, high) == correction


def test_the_corrected_energy_is_unbiased_where_anything_within_the_limits_is_alike():
    drawn = np.random.default_rng(8).uniform(1.0, 4.0, 100_000)
    budget = EnergyBudget(1.0, 4.0)
    error = 20.0 - drawn + budget.correction - 20.0
    assert error.mean() == pytest.approx(0.0, abs=0.01)
    none, gaps = np.zeros(1), (np.array([1.0]), np.array([4.0]), np.array([budget.correction]))
    found = standard_uncertainties(
        gap_low=gaps[0], gap_high=gaps[1], gap_correction=gaps[2], product_correction=none,
        interpolation=none, alignment=none, product=none, meter=none,
    )  # fmt: skip
    assert error.std() == pytest.approx(found["gaps"][0], rel=0.01)


def test_a_product_of_means_is_corrected_to_the_middle_of_its_side():
    drawn = np.random.default_rng(9).uniform(-0.6, 0.0, 100_000)  # less than V x I of the means
    budget = EnergyBudget(0.0, 0.0, 0.0, 0.0, 0.0, product=0.6)
    error = budget.correction - drawn
    assert error.mean() == pytest.approx(0.0, abs=0.002)
    found = IntervalEnergy(20.0, budget=budget)
    assert 20.0 + budget.correction == pytest.approx((found.joules_low + found.joules_high) / 2)
    none, product = np.zeros(1), np.array([0.6])
    parts = {"gap_low": none, "gap_high": none, "interpolation": none, "alignment": none, "meter": none}
    for correction, deviation in ((budget.correction, error.std()), (0.0, np.sqrt((drawn**2).mean()))):
        standards = standard_uncertainties(
            **parts, product=product, gap_correction=none, product_correction=np.array([correction])
        )
        assert standards["product"][0] == pytest.approx(deviation, rel=0.01)


def test_what_a_meter_states_is_twice_its_standard_uncertainty():
    none = np.zeros(1)
    found = standard_uncertainties(
        gap_low=none, gap_high=none, gap_correction=none, product_correction=none,
        interpolation=np.array([3.0]), alignment=none, product=none, meter=np.array([0.5]),
    )  # fmt: skip
    assert (found["meter"][0], found["interpolation"][0]) == (0.25, pytest.approx(3.0 / np.sqrt(3)))


# --- registers of energy


@pytest.mark.parametrize("step", [0.5, 36.0])
def test_a_register_that_rises_in_steps_is_known_to_a_step(step):
    time_ns = T0 + 100 * MS * np.arange(700)
    true = 3.6 * 0.1 * np.arange(700)
    read = np.floor(true / step) * step
    watts = np.append(np.nan, np.diff(read) / 0.1)
    points = CounterPoints(
        time_ns, read, np.full(700, "a", dtype=object), watts_min=watts, watts_max=watts,
        joules_low=read, joules_high=read, gap_seconds=np.zeros(700),
    )  # fmt: skip
    outside = 0
    for first in range(5, 200):
        ends = (T0 + 100 * MS * first, T0 + 100 * MS * (first + 333))
        plain, known = (energy_between(points, *ends, source=given) for given in ("stream", "register"))
        assert known.joules_low - 1e-9 <= 3.6 * 33.3 <= known.joules_high + 1e-9
        assert known.budget.interpolation == pytest.approx(plain.budget.interpolation + step, abs=0.37)
        outside += not plain.joules_low <= 3.6 * 33.3 <= plain.joules_high
    assert outside > 0  # the steps are not in what the points themselves leave open


def test_a_register_that_never_rose_has_no_bounds():
    points = CounterPoints(
        T0 + 100 * MS * np.arange(9), np.zeros(9), np.full(9, "a", dtype=object),
        watts_min=np.zeros(9), watts_max=np.zeros(9), gap_seconds=np.zeros(9),
    )  # fmt: skip
    energy = energy_between(points, T0 + 100 * MS, T0 + 700 * MS, source="register")
    assert (energy.joules, energy.joules_low, energy.joules_high) == (0.0, None, None)


def test_the_readings_of_a_polled_meter_are_a_sample_where_nothing_is_missing():
    pauses = np.random.default_rng(1).uniform(0.055, 0.145, 600)
    time_ns = T0 + np.append(0, np.cumsum(pauses) * 1e9).astype(np.int64)
    watts = np.random.default_rng(2).choice([3.6, 24.0], 601, p=[0.94, 0.06])
    joules = np.append(0.0, np.cumsum(pauses * (watts[1:] + watts[:-1]) / 2))
    count, none = np.arange(601), np.zeros(601)
    known = {"watts_min": watts, "watts_max": watts, "repeated": none, "samples": count}
    ends = (int(time_ns[20]), int(time_ns[580]))
    for gap, source, is_sample in ((0.0, "poll", True), (0.0, "stream", False), (1.0, "poll", False)):
        points = CounterPoints(
            time_ns, joules, np.full(601, "a", dtype=object), gap_seconds=gap * (count > 300), **known
        )
        found = energy_between(points, *ends, source=source)
        assert (found.sampled_joules is not None) == is_sample
    assert total([energy_between(points, *ends)] * 2).sampled_joules is None
