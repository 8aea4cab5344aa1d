# SPDX-License-Identifier: GPL-3.0-or-later
"""What energy of an interval means: every rule of analysis.energy as an example."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from analysis.energy import CounterPoints, IntervalEnergy, of_interval, total

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
    assert of_interval(points, T0 + 10 * MS, T0 + 30 * MS).joules == pytest.approx(0.04 + 0.06, abs=1e-12)


def test_an_interval_of_all_points_has_all_energy():
    points = counter([2.0, 4.0, 6.0])
    assert of_interval(points, T0, T0 + 30 * MS).joules == pytest.approx(0.12, abs=1e-12)


def test_an_end_between_points_is_interpolated_linearly():
    points = counter([2.0, 4.0, 6.0])
    # the last quarter of 10 ms at 2 W, 10 ms at 4 W, the first half of 10 ms at 6 W
    expected = 0.25 * 0.02 + 0.04 + 0.5 * 0.06
    assert of_interval(points, T0 + 7_500_000, T0 + 25 * MS).joules == pytest.approx(expected, abs=1e-12)


def test_an_interval_inside_one_step_is_its_share_of_the_step():
    points = counter([2.0, 4.0])
    assert of_interval(points, T0 + 12 * MS, T0 + 17 * MS).joules == pytest.approx(4.0 * 0.005, abs=1e-12)


def test_an_empty_interval_has_no_energy():
    points = counter([2.0, 4.0])
    assert of_interval(points, T0 + 3 * MS, T0 + 3 * MS).joules == 0.0


def test_intervals_side_by_side_add_up():
    rng = np.random.default_rng(1)
    points = counter(rng.uniform(0, 10, 100))
    cuts = [T0, *sorted(T0 + rng.integers(0, 1000 * MS, 20)), T0 + 1000 * MS]
    parts = [of_interval(points, int(a), int(b)).joules for a, b in pairwise(cuts)]
    assert sum(parts) == pytest.approx(of_interval(points, T0, T0 + 1000 * MS).joules, rel=1e-12)


def test_a_lost_point_inside_loses_no_energy():
    whole = counter([2.0, 9.0, 1.0, 4.0])
    keep = [0, 1, 3, 4]
    thinned = CounterPoints(whole.time_ns[keep], whole.joules[keep], whole.session[keep])
    assert of_interval(thinned, T0, T0 + 40 * MS).joules == of_interval(whole, T0, T0 + 40 * MS).joules


def test_negative_power_counts_down():
    points = counter([3.0, -1.0, -1.0, 2.0])
    assert of_interval(points, T0 + 10 * MS, T0 + 30 * MS).joules == pytest.approx(-0.02, abs=1e-12)


def test_time_loses_no_nanosecond():
    points = counter([1e6], step_ns=10)
    assert of_interval(points, T0 + 1, T0 + 2).joules == pytest.approx(1e6 * 1e-9, rel=1e-6)


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
    energy = of_interval(counter([2.0, 4.0, 6.0]), T0 + start, T0 + end)
    assert energy.joules is None
    assert energy.bound_joules is None
    assert energy.reason.startswith("interval not covered")
    assert why in energy.reason


def test_no_points_no_joules():
    energy = of_interval(CounterPoints([], [], []), T0, T0 + 1)
    assert (energy.joules, energy.reason) == (None, "no points")


def test_a_single_point_tells_the_empty_interval_on_it_and_no_other():
    points = CounterPoints([T0], [1.0], ["a"])
    assert of_interval(points, T0, T0).joules == 0.0
    assert of_interval(points, T0, T0 + 1).joules is None
    assert of_interval(points, T0 - 1, T0).joules is None


def with_gap(gap_ns: int) -> CounterPoints:
    times = [T0, T0 + 10 * MS, T0 + 10 * MS + gap_ns, T0 + 20 * MS + gap_ns]
    return CounterPoints(times, [0.0, 1.0, 2.0, 3.0], ["a"] * 4)


def test_points_too_far_apart_around_an_end_give_no_joules():
    points = with_gap(200 * MS)
    energy = of_interval(points, T0, T0 + 100 * MS, max_gap_ns=100 * MS)
    assert energy.joules is None
    assert energy.reason == "gap: the points around its end are 0.2 s apart, 0.1 s allowed"
    energy = of_interval(points, T0 + 100 * MS, T0 + 215 * MS, max_gap_ns=100 * MS)
    assert energy.reason == "gap: the points around its start are 0.2 s apart, 0.1 s allowed"


def test_points_exactly_the_limit_apart_are_near_enough():
    assert of_interval(with_gap(100 * MS), T0, T0 + 60 * MS, max_gap_ns=100 * MS).joules == pytest.approx(1.5)


def test_a_gap_inside_costs_nothing_as_the_counter_goes_on():
    assert of_interval(with_gap(5 * SECOND), T0, T0 + 5 * SECOND + 20 * MS, max_gap_ns=MS).joules == 3.0


def test_a_gap_beside_an_end_that_falls_on_a_point_does_not_matter():
    assert of_interval(with_gap(5 * SECOND), T0, T0 + 10 * MS, max_gap_ns=MS).joules == 1.0


def test_a_session_change_inside_gives_no_joules_instead_of_a_sum_that_is_too_small():
    points = CounterPoints(T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"])
    energy = of_interval(points, T0, T0 + 30 * MS)
    assert energy.joules is None
    assert energy.reason == "session changed 1 time: the energy between two sessions was not counted"


def test_a_session_change_between_the_points_around_an_end_gives_no_joules():
    points = CounterPoints(T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"])
    assert of_interval(points, T0 + 15 * MS, T0 + 30 * MS).joules is None
    assert of_interval(points, T0, T0 + 15 * MS).joules is None


def test_an_interval_within_one_session_does_not_mind_another_beside_it():
    points = CounterPoints(T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"])
    assert of_interval(points, T0, T0 + 10 * MS).joules == 1.0
    assert of_interval(points, T0 + 20 * MS, T0 + 30 * MS).joules == 1.0


def test_a_session_that_changes_and_comes_back_is_seen():
    points = CounterPoints(T0 + 10 * MS * np.arange(3), [5.0, 0.1, 6.0], ["a", "b", "a"])
    assert of_interval(points, T0, T0 + 20 * MS).reason.startswith("session changed 2 times")


def test_a_reset_without_a_new_session_is_seen_by_the_sample_counter():
    points = CounterPoints(
        T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a"] * 4, samples=[100, 110, 10, 20]
    )
    energy = of_interval(points, T0, T0 + 30 * MS)
    assert (energy.joules, energy.reason) == (None, "counter reset inside a session: samples run backwards")


def test_the_ledger_is_between_the_points_that_enclose_the_interval():
    points = counter(
        [2.0] * 4,
        samples=[100, 110, 118, 128, 138],
        expected=[100, 110, 120, 130, 140],
        lost=[0, 0, 2, 2, 2],
        gap_seconds=[0.0, 0.0, 0.002, 0.002, 0.002],
    )
    energy = of_interval(points, T0 + 12 * MS, T0 + 28 * MS)
    assert (energy.samples, energy.expected, energy.lost, energy.gap_seconds) == (18, 20, 2, 0.002)
    assert energy.expected - energy.samples == energy.lost


def test_a_loss_next_to_an_end_is_not_halved():
    points = counter([2.0] * 2, samples=[0, 10, 13], expected=[0, 10, 20], lost=[0, 0, 7])
    assert of_interval(points, T0, T0 + 11 * MS).lost == 7


def test_on_points_the_ledger_is_the_intervals_own():
    points = counter([2.0] * 3, samples=[0, 10, 20, 23], lost=[0, 0, 0, 7])
    energy = of_interval(points, T0, T0 + 20 * MS)
    assert (energy.samples, energy.lost) == (20, 0)


def test_without_joules_the_ledger_still_tells_what_was_seen():
    points = CounterPoints(
        T0 + 10 * MS * np.arange(4), [5.0, 6.0, 0.5, 1.5], ["a", "a", "b", "b"], samples=[100, 110, 10, 20]
    )
    assert of_interval(points, T0, T0 + 30 * MS).samples == 20
    assert of_interval(points, T0, T0 + 99 * MS).samples == 20


def test_the_bound_is_zero_on_points():
    points = counter([2.0, 4.0], watts_min=[0.0, 0.0, 0.0], watts_max=[9.0, 9.0, 9.0])
    assert of_interval(points, T0, T0 + 20 * MS).bound_joules == 0.0


def test_the_bound_at_mid_step_is_a_quarter_of_step_times_range():
    points = counter([2.0, 4.0], watts_min=[0.0, 1.0, 3.0], watts_max=[0.0, 4.0, 5.0])
    energy = of_interval(points, T0 + 5 * MS, T0 + 15 * MS)
    assert energy.bound_joules == pytest.approx(0.25 * 0.010 * (3.0 + 2.0))


def test_the_bound_is_unknown_without_extremes():
    assert of_interval(counter([2.0, 4.0]), T0 + 5 * MS, T0 + 15 * MS).bound_joules is None


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
        energy = of_interval(points, T0 + int(first) * sample_ns, T0 + int(last) * sample_ns)
        error = abs(energy.joules - (truth[last] - truth[first]))
        assert error <= energy.bound_joules + 1e-12
        if energy.bound_joules > 0:
            worst = max(worst, error / energy.bound_joules)
    assert worst > 0.3  # a bound ten times too wide would also hold


def test_an_end_before_the_start_is_an_error():
    with pytest.raises(ValueError, match="before start_ns"):
        of_interval(counter([1.0]), T0 + 1, T0)


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
    energy = of_interval(points, T0, T0 + 10 * MS)
    assert (energy.joules, energy.lost) == (1.0, 2)


def test_an_empty_frame_becomes_no_points():
    assert of_interval(CounterPoints.from_frame(pl.DataFrame()), T0, T0).reason == "no points"


def test_a_drives_energy_is_the_sum_over_its_rails():
    rails = [IntervalEnergy(1.5, "", 0.1, 10, 11, 1, 0.5), IntervalEnergy(2.0, "", 0.2, 20, 20, 0, 0.0)]
    assert total(rails) == IntervalEnergy(3.5, "", pytest.approx(0.3), 30, 31, 1, 0.5)


def test_a_drive_with_a_rail_that_has_no_joules_has_none():
    rails = [IntervalEnergy(1.5, "", 0.1, 10, 10, 0, 0.0), IntervalEnergy(None, "no points")]
    summed = total(rails)
    assert (summed.joules, summed.reason, summed.samples) == (None, "no points", 10)


def test_a_drive_without_a_measured_rail_has_no_joules():
    assert total([]) == IntervalEnergy(None, "no rail is measured")
