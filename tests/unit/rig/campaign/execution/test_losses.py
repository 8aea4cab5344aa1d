# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples that a meter lost under load make a run partial beyond the campaign's limit."""

from __future__ import annotations

from typing import Any

import pytest

from joulerig.rig.campaign.execution.record import losses

RAIL = {
    "phase": "workload", "meter": "tap1", "rail": "12v", "expected": 1000, "lost": 0, "duplicate": 0,
    "over_range": 0, "impossible": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"lost": 10}, []),
        ({"lost": 11}, ["meter tap1 lost 1.10 % of 12v; 1 % is allowed"]),
        ({"lost": 6, "duplicate": 5}, ["meter tap1 lost 1.10 % of 12v; 1 % is allowed"]),
        ({"lost": 500, "phase": "idle"}, []),
        ({"lost": 0, "expected": 0}, []),
        ({"over_range": 1, "lost": 1}, ["meter tap1 was over range in 1 samples of 12v"]),
        ({"impossible": 2}, ["meter tap1 read far more than the supply delivers in 2 samples of 12v"]),
    ],
    ids=[
        "the limit",
        "beyond it",
        "blocks that came twice",
        "another phase",
        "no samples",
        "over range",
        "impossible",
    ],
)
def test_a_loss_beyond_the_limit_under_load_is_named(row: dict[str, Any], found: list[str]):
    assert losses([{**RAIL, **row}], 1.0) == found
