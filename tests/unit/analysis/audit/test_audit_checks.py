# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparisons of a drive's report: seconds, histograms, lifetime energy (analysis/audit)."""

import math

import pytest

from joulerig.analysis.audit.checks import (
    RESETS,
    Stretch,
    Verdict,
    histogram_check,
    lifetime_check,
)
from joulerig.analysis.audit.rails import Compared, RailPower, compare, open_share, windows
from joulerig.analysis.audit.readings import INTERVAL, SECOND, Counter, Histogram, Reading, of_run

S = 10**9


def reading(seconds=10, start=100.0, stop=110.4, quantity=INTERVAL, **more):
    given = {"watts": 2.0, "step_watts": 1e-4, "error_percent": 3, **more}
    return Reading("r", "d", "idle", quantity, round(start * S), round(stop * S), seconds, **given)


def test_the_first_second_may_have_begun_a_second_before_the_start():
    found = list(windows(reading(stop=110.0)))
    assert found[0][0] == pytest.approx((100 - 1 - 0.05) * S)
    assert found[-1][0] == pytest.approx((100 + 0.05) * S)
    assert all(end - start == 10 * S for start, end in found)


def test_the_count_of_seconds_narrows_when_they_can_have_begun():
    # Of 10.4 s with ten ends in them, the first end came 0.4 to 1 s after the start.
    found = list(windows(reading()))
    assert found[0][0] == pytest.approx((100 - 0.6 - 0.05) * S)


def test_a_count_that_does_not_fit_the_time_is_of_no_window():
    assert list(windows(reading(seconds=8))) == []
    assert compare(reading(seconds=8), lambda *_: RailPower(1, 0)) is None


def test_the_last_second_ended_up_to_a_second_ago():
    found = list(windows(reading(seconds=1, start=109.0, stop=110.0, quantity=SECOND)))
    assert (found[0], found[-1]) == ((109 * S, 110 * S), (108 * S, 109 * S))


def test_a_reading_is_compared_with_every_window_that_can_be_meant():
    found = compare(reading(), lambda start, _: RailPower(2 + (start / S - 99) / 10, 0.02))
    assert found.limit == pytest.approx(0.01, rel=0.05)
    assert found.window_watts[0] < found.watts < found.window_watts[-1]
    assert open_share([found]) == pytest.approx((found.window_watts[-1] / found.watts - 1), rel=0.01)


def test_rails_that_were_not_measured_compare_with_nothing():
    assert compare(reading(), lambda *_: None) is None


BINS = {"watts": (0.0, 0.25, 0.5), "bin_watts": 0.25}


@pytest.mark.parametrize(
    ("histogram", "watts", "most", "why"),
    [
        (Histogram(counts=(0, 10, 0), overflow=0, **BINS), 0.3, 0.4, None),
        (Histogram(counts=(0, 10, 0), overflow=0, **BINS), 0.6, None, "own mean"),
        (Histogram(counts=(0, 9, 0), overflow=0, **BINS), 0.3, None, "9 seconds of 10"),
        (Histogram(counts=(0, 10, 0), overflow=0, **BINS), 0.3, 0.9, "greatest power"),
        (Histogram(counts=(0, 5, 0), overflow=5, **BINS), 40.0, 80.0, None),
        (Histogram(counts=(0, 5, 0), overflow=5, **BINS), 0.2, None, "own mean"),
    ],
)
def test_a_histogram_is_compared_with_its_own_log(histogram, watts, most, why):
    one = Compared(reading(histogram=histogram, watts=watts, most_watts=most), (2.0,), 0.01)
    found = histogram_check([one])
    assert found.readings == 1
    assert (why in found.contradictions[0]) if why else found.contradictions == ()


def stretch(before, after, least=0.0, most=math.inf, cycles=(3, 3)):
    return Stretch(
        Counter("r1", 0, before, cycles[0]), Counter("r2", S, after, cycles[1]), 3600 * least, 3600 * most
    )


def test_a_counter_that_follows_the_rails_holds():
    assert lifetime_check([stretch(100, 150, 49.5, 50.5)], 3).verdict == Verdict.HOLDS


def test_a_counter_of_few_watt_hours_decides_nothing():
    assert lifetime_check([stretch(100, 101, 0.5, 0.6)], 3).verdict == Verdict.UNDECIDED


@pytest.mark.parametrize("after", [104, 160])
def test_a_counter_that_the_rails_rule_out_is_contradicted(after):
    assert lifetime_check([stretch(100, after, 49.5, 50.5)], 3).verdict == Verdict.CONTRADICTED


def test_what_lies_between_runs_bounds_a_counter_from_above_alone():
    assert lifetime_check([stretch(100, 150, 0, 60)], 3).verdict == Verdict.UNDECIDED


def test_a_counter_that_falls_with_power_starts_over():
    found = lifetime_check([stretch(100, 1, cycles=(3, 4), most=2)], 3)
    assert found.falls == (("r2", RESETS),)


def test_a_counter_that_falls_at_its_last_value_wraps_around():
    assert "16 bits" in lifetime_check([stretch(65535, 1, most=4)], None).falls[0][1]


def test_a_drive_that_reports_no_energy_has_no_counter():
    assert lifetime_check([stretch(0, 0, 50, 60)], 3) is None


def report(**more):
    health = {"time_ns": 12 * S, "watt_hours": 9, "watts": 1.5, "step_watts": 1e-4, "power_cycles": 2}
    bins = {"bin_watts": 0.25, "watts": [0.0, 0.25], "counts": [0, 10], "overflow": 0}
    found = {
        "seconds": 10, "watts": 1.4, "step_watts": 1e-4, "most_watts": 1.6, "error_percent": 3,
        "has_gaps": False, "bins": bins,
    }  # fmt: skip
    return {
        "drive": "d", "phase": "workload", "start_ns": S, "stop_ns": 11 * S, "before": None,
        "after": health, "measurement": found, "problem": "", **more,
    }  # fmt: skip


def test_a_report_is_read_on_the_controllers_clock():
    found = of_run("r", "d", "varmail", [report()], offset_ns=5)
    interval, second = found.readings
    assert (interval.start_ns, interval.stop_ns) == (S + 5, 11 * S + 5)
    assert (interval.condition, interval.quantity, second.quantity) == ("varmail", INTERVAL, SECOND)
    assert found.counters == (Counter("r", 12 * S + 5, 9, 2),)


def test_the_reports_of_other_drives_and_a_measurement_with_gaps_are_left_out():
    with_gaps = report(measurement={**report()["measurement"], "has_gaps": True})
    found = of_run("r", "d", "varmail", [report(drive="other"), with_gaps], 0)
    assert [one.quantity for one in found.readings] == [SECOND]


def test_a_problem_is_passed_on_with_its_run():
    assert of_run("r", "d", "varmail", [report(problem="busy")], 0).problems == ("r: varmail: busy",)
