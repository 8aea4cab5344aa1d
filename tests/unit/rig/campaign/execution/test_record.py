# SPDX-License-Identifier: GPL-3.0-or-later
"""Lost samples that make a run partial, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from joulerig.rig.campaign.execution import record


def row(**counts: Any) -> dict[str, Any]:
    of_rail = {"phase": "workload", "meter": "tap", "rail": "12v"}
    return {
        **of_rail,
        "expected": 1000,
        "lost": 0,
        "duplicate": 0,
        "over_range": 0,
        "impossible": 0,
        **counts,
    }


@pytest.mark.parametrize(
    ("lost", "duplicate", "text"), [(11, 0, "1.10 %"), (0, 11, "1.10 %"), (6, 6, "1.20 %")]
)
def test_samples_that_came_twice_are_lost_as_well(lost, duplicate, text):
    (found,) = record.losses([row(lost=lost, duplicate=duplicate)], 1.0)
    assert found == f"meter tap lost {text} of 12v; 1 % is allowed"


def test_as_much_as_is_allowed_is_not_too_much():
    assert record.losses([row(lost=10)], 1.0) == []
    assert record.losses([row()], 0.0) == []


def test_losses_count_in_the_workload_phase_alone():
    assert record.losses([row(phase="idle", lost=500), row(expected=0)], 1.0) == []


def test_no_sample_may_be_over_range():
    (found,) = record.losses([row(over_range=1)], 1.0)
    assert found == "meter tap was over range in 1 samples of 12v"
