# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases of a host moved onto the controller's clock."""

from __future__ import annotations

import pytest

from joulerig.analysis.results.phases import on_controller_time

BEGIN = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def measured(at: int, offset_ns: int, error_ns: int) -> dict[str, int]:
    return {"at_ns": BEGIN + at * SECOND, "offset_ns": offset_ns, "error_ns": error_ns}


def phase(name: str, start: int, end: int) -> dict:
    return {"phase": name, "start_ns": BEGIN + start * SECOND, "end_ns": BEGIN + end * SECOND}


def test_between_two_measurements_the_offset_is_interpolated_for_each_instant():
    clock = [measured(0, 1000, 50), measured(10, 3000, 70)]
    idle, load = on_controller_time([phase("idle", 0, 2), phase("workload", 5, 10)], clock)
    assert (idle.start_ns, idle.end_ns) == (BEGIN + 1000, BEGIN + 2 * SECOND + 1400)
    assert (load.start_ns, load.end_ns) == (BEGIN + 5 * SECOND + 2000, BEGIN + 10 * SECOND + 3000)
    assert (idle.clock_offset_ns, load.clock_offset_ns) == (1000, 2000)


@pytest.mark.parametrize("moved", [2000, -2000])
def test_the_error_has_half_of_what_the_offset_moved(moved):
    clock = [measured(0, 1000, 50), measured(10, 1000 + moved, 70)]
    assert on_controller_time([phase("idle", 0, 2)], clock)[0].clock_error_ns == 70 + 1000
    clock.reverse()
    assert on_controller_time([phase("idle", 0, 2)], clock)[0].clock_error_ns == 70 + 1000


def test_one_measurement_is_of_all_instants():
    (found,) = on_controller_time([phase("precondition", 0, 9)], [measured(3, -500, 40)])
    assert (found.start_ns, found.clock_offset_ns, found.clock_error_ns) == (BEGIN - 500, -500, 40)
    assert found.phase == "setup"  # by its name of today


def test_without_a_measurement_there_is_no_time():
    with pytest.raises(ValueError, match="no clock offset"):
        on_controller_time([phase("idle", 0, 1)], [])
