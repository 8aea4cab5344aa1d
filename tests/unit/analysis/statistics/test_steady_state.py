# SPDX-License-Identifier: GPL-3.0-or-later
"""SNIA's rule on rounds with a known answer, and on recordings of twins."""

from __future__ import annotations

import ast
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from joulerig.analysis.statistics import steady_state
from joulerig.analysis.statistics.steady_state import judge, judge_window
from tests.support import FIXTURES, ROOT

RECORDED = json.loads((FIXTURES / "steady_state.json").read_text())
CLIFF = [9000.0, 8800.0, 5000.0, 2000.0, 1000.0]


def rounds(iops: list[float | None], watts: list[float | None] | None = None) -> list[dict]:
    return [
        {"iops": one, "watts": drawn} for one, drawn in zip(iops, watts or [None] * len(iops), strict=True)
    ]


# --- a window


@pytest.mark.parametrize(
    ("values", "range_fraction", "slope_fraction", "steady"),
    [
        pytest.param([5.0] * 5, 0, 0, True, id="no variance"),
        pytest.param([90, 110, 90, 110, 100], 0.2, 0.08, True, id="range at its limit"),
        pytest.param([89, 110, 91, 110, 100], 0.21, 0.088, False, id="range beyond it"),
        pytest.param([95, 97.5, 100, 102.5, 105], 0.1, 0.1, True, id="rise at its limit"),
        pytest.param([94.5, 97.25, 100, 102.75, 105.5], 0.11, 0.11, False, id="slow rise, within range"),
        pytest.param([105.5, 102.75, 100, 97.25, 94.5], 0.11, 0.11, False, id="slow fall"),
        pytest.param([60, 140, 60, 140, 100], 0.8, 0.32, False, id="oscillation"),
        pytest.param([100, 100, 100, 100, 125], 25 / 105, 20 / 105, False, id="step at the end"),
        pytest.param([100, 100, 125, 100, 100], 25 / 105, 0, False, id="spike in the middle: no slope"),
    ],
)
def test_a_window(values, range_fraction, slope_fraction, steady):
    found = judge_window("iops", values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.range_fraction == pytest.approx(range_fraction)
    assert found.slope_fraction == pytest.approx(slope_fraction)
    assert found.steady is steady
    assert (found.first, found.last) == (1, 5)


def test_the_slope_is_that_of_least_squares():
    generator = np.random.default_rng(4)
    for values in generator.uniform(50, 150, (200, 5)):
        slope = np.polyfit(range(5), values, 1)[0]
        expected = abs(slope) * 4 / values.mean()
        assert judge_window("watts", list(values)).slope_fraction == pytest.approx(expected, abs=1e-12)


def test_neither_unit_nor_level_matters():
    values = [93.0, 99.0, 104.0, 97.0, 101.0]
    small, large = judge_window("iops", values), judge_window("iops", [1e6 * value for value in values])
    assert small.range_fraction == pytest.approx(large.range_fraction)
    assert small.slope_fraction == pytest.approx(large.slope_fraction)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0, math.nan, 1.0, 1.0, 1.0], "watts of a round is not known"),
        ([1.0, None, 1.0, 1.0, 1.0], "watts of a round is not known"),
        ([1.0, math.inf, 1.0, 1.0, 1.0], "watts of a round is not known"),
        ([0.0] * 5, "watts has a mean of 0"),
        ([1.0, -3.0, 1.0, 1.0, -1.0], "watts has a mean of -0.2"),
    ],
)
def test_a_window_that_cannot_be_judged_is_not_steady(values, reason):
    found = judge_window("watts", values)
    assert (found.steady, found.range_fraction, found.slope_fraction) == (False, None, None)
    assert found.reason == reason


def test_a_window_reports_its_figures_with_what_is_allowed():
    message = judge_window("iops", [60, 140, 60, 140, 100]).reason
    assert message == "iops range 80.0 % of 20 % allowed, slope 32.0 % of 10 % allowed"


# --- a verdict


def test_it_is_steady_at_the_first_round_whose_window_is():
    flat = [1000.0, 1001.0, 1002.0, 1003.0, 1004.0]
    found = judge(rounds(CLIFF + flat[1:] + [1.0], [6.0] * 10))
    assert (found.steady, found.round, found.rounds) == (True, 9, 10)
    assert [(window.series, window.first, window.last) for window in found.windows] == [
        ("iops", 5, 9),
        ("watts", 5, 9),
    ]
    assert found.reason.startswith("steady at round 9: iops range 0.4 % of 20 % allowed")


def test_watts_that_still_fall_keep_a_drive_from_being_steady():
    found = judge(rounds([1000.0] * 6, [6.0, 5.7, 5.4, 5.1, 4.8, 4.5]))
    assert (found.steady, found.round, found.judged_on) == (False, None, ("iops", "watts"))
    assert [window.steady for window in found.windows] == [True, False]
    assert found.reason == (
        "not steady after 6 rounds: watts range 23.5 % of 20 % allowed, slope 23.5 % of 10 % allowed"
    )


def test_both_must_hold_in_the_same_window():
    steps = [100.0] * 5 + [200.0] * 4
    found = judge(rounds(steps, list(reversed(steps))))
    assert not found.steady


def test_without_any_watts_operations_alone_are_judged_and_it_says_so():
    found = judge(rounds([1000.0] * 5))
    assert (found.steady, found.judged_on) == (True, ("iops",))
    assert found.reason.endswith("; no watts: judged on iops alone")
    assert judge([{"iops": 1000.0}] * 5).steady


def test_a_round_without_watts_among_others_is_waited_out():
    watts = [5.0, None, *[5.0] * 5]
    assert not judge(rounds([1000.0] * 6, watts[:6])).steady
    found = judge(rounds([1000.0] * 7, watts))
    assert (found.steady, found.round) == (True, 7)


@pytest.mark.parametrize("count", range(5))
def test_fewer_than_five_rounds_are_too_few(count):
    found = judge(rounds([1000.0] * count, [5.0] * count))
    assert (found.steady, found.rounds, found.windows) == (False, count, ())
    assert found.reason == f"not steady after {count} rounds: 5 in a row are needed"


def test_rounds_of_an_earlier_stretch_are_numbered_and_not_judged():
    found = judge(rounds([1000.0] * 5, [5.0] * 5), rounds_before=7)
    assert (found.round, found.rounds, found.rounds_before) == (12, 5, 7)
    assert (found.windows[0].first, found.windows[0].last) == (8, 12)
    assert judge(rounds(CLIFF), rounds_before=7).reason.startswith("not steady after 12 rounds: iops")


# --- recordings


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_by_numpy_and_the_rule_as_written(name):
    series = np.array([[one["iops"], one["watts"]] for one in RECORDED[name]])

    def steady(window):
        spread = window.max(axis=0) - window.min(axis=0)
        rise = 4 * np.abs(np.polyfit(range(5), window, 1)[0])
        return bool((spread <= 0.2 * window.mean(axis=0)).all() and (rise <= 0.1 * window.mean(axis=0)).all())

    ends = [end for end in range(5, len(series) + 1) if steady(series[end - 5 : end])]
    found = judge(RECORDED[name])
    assert (found.steady, found.round) == (bool(ends), ends[0] if ends else None)
    assert found.judged_on == ("iops", "watts")


def test_of_the_recordings_one_never_gets_there():
    assert [judge(made).round for made in RECORDED.values()] == [10, None, 20]


def test_the_cliff_of_a_full_drive_is_never_taken_for_steady():
    """Its first rounds still find room."""
    for name in ("full consumer SATA", "full consumer NVMe"):
        made = RECORDED[name]
        assert made[0]["iops"] > 4 * made[4]["iops"]
        for end in (5, 6):
            assert not judge(made[end - 5 : end]).steady


def test_watts_settle_before_operations_do_where_most_of_them_are_idle_power():
    made = RECORDED["full consumer NVMe"][5:]
    watts = [one["watts"] for one in made]
    assert all(judge_window("watts", watts[at : at + 5]).steady for at in range(len(watts) - 4))
    assert not judge(made).steady


# --- on a test host


def test_a_test_host_runs_the_same_file():
    theirs = ROOT / "ansible/module_utils/joulerig/preconditioning/steady_state.py"
    assert theirs.samefile(steady_state.__file__)


def test_a_test_host_needs_nothing_but_python_to_run_it():
    tree = ast.parse(Path(steady_state.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names
