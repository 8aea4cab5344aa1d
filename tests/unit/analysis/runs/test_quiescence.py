# SPDX-License-Identifier: GPL-3.0-or-later
"""When a drive's power is back at idle after a load, and what it drew until then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from joulerig.analysis import results
from joulerig.analysis.runs import over_time, quiescence
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.runs.quiescence import State
from joulerig.analysis.tables import runs_and_cells
from tests.support import simulated_campaign
from tests.support.simulated_campaign import Outcome

IDLE, LOAD_JOULES = 1.0, 30.0


@pytest.fixture
def run(tmp_path):
    """A run that counts."""
    one = {"drives": ("nvme-plp",), "filesystems": ("ext4",), "schedulers": ("none",)}
    return results.load(simulated_campaign.build(tmp_path / "c", **one)).runs[0]


VARYING = IDLE + 0.01 * np.array([1.0, -1.0] * 20)


def at_rest(steps=VARYING, seconds=0.1, reach=0.004):
    """Power at rest that varies by 10 mW and whose mean is known to 4 mW."""
    found = over_time.Steps(np.asarray(steps, float), seconds)
    return Idle(IDLE, IDLE - reach - 0.002, IDLE + reach + 0.002, reach, 0.002, steps=found)


def power(after, seconds=0.1):
    """Power over time with these steps of 0.1 s after the load."""
    return over_time.PowerOverTime(
        np.array([]), np.array([]), 0.1, None, None, over_time.Steps(np.asarray(after, float), seconds)
    )


def find(run, after, seconds=0.1, **given):
    return quiescence.after_load(run, at_rest(seconds=seconds, **given), power(after, seconds))


def test_what_is_drawn_above_idle_is_summed_until_power_is_back(run):
    found = find(run, [1.5] * 20 + [1.01, 0.99] * 30)
    assert found.state == State.SETTLED
    assert found.joules == pytest.approx(0.5 * 2)
    assert found.seconds == pytest.approx(2)
    assert found.total(LOAD_JOULES) == pytest.approx(LOAD_JOULES + 1)


def test_a_drive_that_is_idle_at_once_adds_nothing(run):
    found = find(run, [1.0] * 50)
    assert (found.state, found.joules, found.seconds) == (State.SETTLED, 0, 0)


def test_a_pause_shorter_than_the_quiet_time_is_not_the_end(run):
    found = find(run, [1.0] * 40 + [1.5] * 20 + [1.0] * 50)
    assert found.state == State.SETTLED
    assert found.seconds == pytest.approx(6)
    assert found.joules == pytest.approx(1)


def test_one_step_in_ten_may_lie_outside(run):
    for outside, state in ((5, State.SETTLED), (6, State.NOT_SETTLED)):
        after = np.full(50, IDLE)
        after[1 : 1 + outside] = 1.1
        assert find(run, after).state == state, outside


def test_power_below_idle_is_an_alarm_and_no_result(run):
    found = find(run, [0.8] * 60)
    assert (found.state, found.joules) == (State.NOT_KNOWN, None)
    assert found.why == (
        "ALARM: 0.8 W after the load is less than idle power, 1 W, beyond its uncertainty:"
        " that was not at rest"
    )


def test_a_mean_below_idle_is_an_alarm_also_where_each_step_is_at_idle(run):
    assert find(run, [0.985, 0.99] * 40).why.startswith("ALARM")
    assert find(run, [0.997, 1.0] * 40).state == State.SETTLED


def test_what_stays_above_idle_is_not_settled_also_where_each_step_is_at_idle(run):
    found = find(run, [1.015, 1.01] * 40)
    assert found.state == State.NOT_SETTLED
    assert found.why.startswith("it stays above idle power by ")
    assert found.joules == pytest.approx(0.0125 * 8)


def test_the_interval_of_the_joules_has_what_idle_power_leaves_open(run):
    found = find(run, [1.5] * 20 + [1.01, 0.99] * 30)
    assert found.low <= 1 - 0.004 * 2
    assert found.high >= 1 + 0.004 * 2 + 0.004 * 6
    unseen = find(run, [1.002, 1.004] * 30)  # not distinguishable from idle power
    assert (unseen.state, unseen.joules) == (State.SETTLED, 0.0)
    assert unseen.high >= 0.003 * 6


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ([1.0] * 10, "with power at idle for 1.0 s of the 5 s needed"),
        ([1.08] * 10, "with power 80 mW above idle (at idle within 24.3 mW)"),
    ],
)
def test_a_tail_that_ends_too_soon_is_not_settled_and_says_why(run, after, why):
    found = find(run, after)
    assert found.state == State.NOT_SETTLED
    assert found.why == f"the tail ends 1.0 s after the load, {why}"
    assert found.joules == pytest.approx(sum(value - IDLE for value in after) * 0.1)
    assert found.seconds == pytest.approx(1)


def test_idle_power_without_any_deviation_is_reached_all_the_same(run):
    constant = {"steps": [IDLE] * 20, "reach": 0.0}
    assert find(run, [IDLE + 1e-6] * 50, **constant).state == State.SETTLED
    assert find(run, [IDLE * 1.004] * 50, **constant).state == State.NOT_SETTLED


def test_the_quiet_time_is_as_long_with_rare_points(run):
    assert find(run, [1.0, 1.0], seconds=3.0).state == State.SETTLED
    assert find(run, [1.0, 1.0], seconds=2.0).state == State.NOT_SETTLED


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"power": None}, "no power points"),
        ({"idle": Idle(why="not at rest: 1.34 to 0.005 W")}, "not at rest: 1.34 to 0.005 W"),
        ({"power": power([])}, "no tail was recorded"),
        ({"power": power([1.5, np.nan] + [1.0] * 50)}, "a rail was not measured after the load"),
    ],
)
def test_what_is_not_known_has_no_joules(run, given, why):
    found = quiescence.after_load(run, **({"idle": at_rest(), "power": power([1.0] * 50)} | given))
    assert (found.state, found.joules, found.seconds, found.why) == (State.NOT_KNOWN, None, None, why)
    assert found.total(LOAD_JOULES) is None


def test_a_step_that_was_not_measured_in_the_quiet_time_counts_as_outside(run):
    after = np.full(50, IDLE)
    after[1:6] = np.nan
    assert find(run, after).state == State.SETTLED
    after[6] = np.nan
    assert find(run, after).state == State.NOT_KNOWN


def test_a_run_without_joules_has_none_after_its_load(run):
    lacking = replace(run, result=replace(run.result, joules=None))
    assert find(lacking, [1.0] * 50).why == "no joules of the load"


def test_steps_from_the_end_of_the_load_to_that_of_the_tail():
    """What the host does between the load and its sync is among what comes after."""
    from tests.unit.analysis.runs.test_over_time import T0, phase, points

    def part(name, start, end):
        return replace(phase(0), phase=name, start_ns=T0 + int(start * 1e9), end_ns=T0 + int(end * 1e9))

    watts = [1.0] * 200 + [3.0] * 200 + [2.0] * 100 + [1.5] * 100
    frame = points(10.0 * np.arange(601) - 2000, [None, *watts])
    found = over_time.from_points(frame, phase(2), tail=part("tail", 3, 4))
    assert found.after.watts == pytest.approx([2.0] * 10 + [1.5] * 10)
    assert found.after.step_seconds == pytest.approx(0.1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tails of 8 s; f2fs writes back 3 J after its load. The first run's meter failed."""
    monkeypatch.setitem(simulated_campaign.PHASES, "tail", 8.0)

    def outcome(levels):
        if levels["ordinal"] == 1:
            return Outcome("partial", "meter fell silent", joules=False)
        return Outcome(after_joules=3.0 if levels["filesystem"] == "f2fs" else 0.0)

    return simulated_campaign.build(
        tmp_path / "q", drives=("nvme-plp",), schedulers=("none",), replicates=2, traces=True, outcome=outcome
    )


def test_tables_have_the_ratio_of_sums_to_quiescence(folder):
    campaign = results.load(folder)
    runs = {row["run"]: row for row in runs_and_cells.runs(campaign).iter_rows(named=True)}
    for run in campaign.runs:
        row = runs[run.id]
        if not run.counts:
            assert row["quiescence"] is None
            continue
        assert row["joules_after_load"] == pytest.approx(3.0 if run.filesystem == "f2fs" else 0.0, abs=0.3)
        total = run.result.ai_joules + row["joules_after_load"]
        assert row["ai_ops_per_joule_to_quiescence"] == pytest.approx(run.performance.ops / total)
    for cell in runs_and_cells.cells(campaign).iter_rows(named=True):
        counted = [run for run in campaign.runs if run.cell == cell["cell"] and run.counts]
        joules = sum(run.result.ai_joules + runs[run.id]["joules_after_load"] for run in counted)
        ops = sum(run.performance.ops for run in counted)
        assert cell["ai_ops_per_joule_to_quiescence"] == pytest.approx(ops / joules)
        assert cell["runs_settled"] <= len(counted)


def test_ai_itself_is_what_it_was(folder):
    cells = runs_and_cells.cells(results.load(folder))
    without = runs_and_cells.cells(results.load(folder), over={})
    assert cells["ai_ops_per_joule"].equals(without["ai_ops_per_joule"])
    assert without["ai_ops_per_joule_to_quiescence"].null_count() == without.height
