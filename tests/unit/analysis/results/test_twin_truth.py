# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the twins' operations put the workload phase: each rule of `clock_shift_ns` by example."""

import numpy as np
import pytest

from joulerig.analysis.results import twin_truth
from joulerig.analysis.results.schema import Phase

SECOND = 1_000_000_000
BEGIN = 1_790_000_000 * SECOND
LENGTH = 20 * SECOND
TRUE = (BEGIN, BEGIN + LENGTH)


def steady(start_ns, end_ns, rate=1000.0):
    """Instants at which operations complete, evenly spaced."""
    return np.arange(start_ns, end_ns, round(SECOND / rate))


def shift(*completions, late_ns=0):
    """Return the shift of a phase that is `late_ns` late, given when operations completed."""
    load = Phase("workload", TRUE[0] + late_ns, TRUE[1] + late_ns, 0, 0)
    times = twin_truth.load_instants(load, TRUE[1] + 60 * SECOND)
    done = np.sort(np.concatenate(completions))
    return twin_truth.clock_shift_ns(load, times, np.searchsorted(done, times, side="right"))


WRONG = [-1_500_000_000, -500_000_000, -100_000_000, 100_000_000, 500_000_000, 1_500_000_000]


@pytest.mark.parametrize("late_ns", WRONG)
def test_a_phase_that_does_not_hold_the_loads_operations_is_moved_until_it_does(late_ns):
    assert shift(steady(*TRUE), late_ns=late_ns) == pytest.approx(late_ns, abs=twin_truth.GRID_NS)


@pytest.mark.parametrize("rate", [50.0, 1000.0, 100_000.0])
def test_a_phase_that_holds_them_is_not_moved(rate):
    assert shift(steady(*TRUE, rate)) == 0


def test_a_load_that_begins_late_and_ends_early_leaves_that_much_open():
    inside = steady(TRUE[0] + SECOND // 5, TRUE[1] - SECOND // 10)
    assert shift(inside) == 0
    assert shift(inside, late_ns=SECOND // 5) == 0
    assert shift(inside, late_ns=SECOND // 2) == pytest.approx(0.3 * SECOND, abs=twin_truth.GRID_NS)


def test_a_few_operations_of_another_program_before_or_after_do_not_move_it():
    another = [steady(TRUE[0] - SECOND, TRUE[0], 100.0), steady(TRUE[1], TRUE[1] + SECOND, 100.0)]
    assert shift(steady(*TRUE), *another) == 0
    assert shift(steady(*TRUE), *another, late_ns=SECOND // 2) == pytest.approx(
        SECOND // 2, abs=2 * twin_truth.GRID_NS
    )


@pytest.mark.parametrize("late_ns", [0, SECOND // 2])
def test_what_is_written_back_after_the_load_moves_nothing(late_ns):
    assert shift(steady(*TRUE), steady(TRUE[1], TRUE[1] + 2 * SECOND), late_ns=late_ns) == 0


def test_a_program_that_sets_up_right_before_the_load_moves_nothing():
    assert shift(steady(*TRUE), steady(TRUE[0] - SECOND, TRUE[0])) == 0


def test_a_load_of_few_operations_moves_nothing():
    assert shift(steady(*TRUE, rate=10.0), late_ns=SECOND // 2) == 0


def test_a_load_that_never_reaches_the_drive_moves_nothing():
    assert shift(np.array([], dtype=np.int64), late_ns=SECOND // 2) == 0


def test_a_load_of_bursts_is_found_by_its_mean_rate():
    bursts = [steady(at, at + SECOND // 100, 50_000.0) for at in range(TRUE[0], TRUE[1], SECOND // 10)]
    assert shift(*bursts) == 0
    assert shift(*bursts, late_ns=SECOND // 2) == pytest.approx(SECOND // 2, abs=SECOND // 10)


def test_no_instant_lies_in_the_future():
    load = Phase("workload", *TRUE, 0, 0)
    now = TRUE[1] + SECOND // 3
    times = twin_truth.load_instants(load, now)
    assert times[-1] <= now
    assert (np.diff(times) > 0).all()
    assert len(times) < 4096  # a twin's most


def answer(joules, **counters):
    """A twin's answer at the begin and end of an idle and a workload phase."""
    names = (
        "reads",
        "read_bytes",
        "writes",
        "write_bytes",
        "flushes",
        "discards",
        "fua_writes",
        "device_bound_ns",
    )
    counted = {name: counters.get(name, [0, 0, 0, 0]) for name in names}
    return {"rails": [{"name": "12v", "joules": joules}], "counters": counted}


PHASES = [Phase("idle", 0, 2 * SECOND, 0, 0), Phase("workload", 3 * SECOND, 13 * SECOND, 0, 0)]


def test_true_joules_are_the_rise_over_the_phase_of_the_rows_own_rail():
    truth = {"a": answer([1.0, 3.0, 4.0, 10.0]), "b": answer([0.0, 1.0, 2.0, 5.0])}
    keys = [("idle", "a"), ("workload", "a"), ("workload", "b"), ("workload", "c")]
    rows = [{"phase": name, "drive": drive, "rail": "12v"} for name, drive in keys]
    twin_truth.add_truth(rows, PHASES, truth)
    assert [row["true_joules"] for row in rows] == [2.0, 6.0, 3.0, None]


def test_io_of_an_array_is_its_members_sum_if_all_have_answered():
    truth = {"a": answer([0] * 4, writes=[1, 2, 5, 9]), "b": answer([0] * 4, writes=[0, 0, 10, 30])}
    found = twin_truth.twin_io(PHASES, truth, 2)
    assert (found["source"], found["writes"], found["reads"]) == ("twin", 24, 0)
    assert twin_truth.twin_io(PHASES, truth, 3) is None
    assert twin_truth.twin_io(PHASES, {}, 0) is None


def test_the_drive_that_the_work_waited_for_most_sets_the_pace():
    bound = [0, SECOND, SECOND, 6 * SECOND]
    truth = {
        "a": answer([0] * 4, device_bound_ns=bound),
        "b": answer([0] * 4, device_bound_ns=[0, 0, 0, SECOND]),
    }
    assert twin_truth.device_bound(PHASES, truth) == 0.5
    truth["b"] = answer([0] * 4, device_bound_ns=[0, 0, 0, 11 * SECOND])  # what was in flight at the end
    assert twin_truth.device_bound(PHASES, truth) == 1.0
    assert twin_truth.device_bound(PHASES[:1], truth) is None
    assert twin_truth.device_bound(PHASES, {}) is None
