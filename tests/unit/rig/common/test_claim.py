# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that executes a campaign is looked up here, and heard of elsewhere."""

from __future__ import annotations

import os
import time

import pytest

from joulerig.rig.common import process
from joulerig.rig.common.claim import STALE_SECONDS, Claim, Standing

HERE = process.identity(os.getpid())
BOOT = "00000000-0000-0000-0000-000000000000"
ELSEWHERE = f"oldbox {'f' * 16} {BOOT} 4026531836 17 9"
EARLIER = " ".join([*HERE.split()[:2], BOOT, *HERE.split()[3:]])

NAMES = {HERE: "here", f"{HERE}0": "a later start", ELSEWHERE: "elsewhere", EARLIER: "an earlier boot"}


def named(value: object) -> str:
    """Name a case alike in each worker of the tests."""
    return NAMES.get(value, str(value))


def claim(executor: str | None, age: float | None) -> Claim:
    """A claim whose heartbeat was so many seconds ago; None: its process has ended."""
    return Claim(executor, None if age is None else time.time_ns() - int(age * 1e9))


YEARS = 1e8  # before this machine booted


@pytest.mark.parametrize(
    ("executor", "age", "expected"),
    [
        (None, None, Standing.FREE),
        ("", 1, Standing.FREE),
        (HERE, 1e6, Standing.EXECUTED),
        (HERE, None, Standing.EXECUTED),
        (f"{HERE}0", 1, Standing.FREE),
        (ELSEWHERE, None, Standing.FREE),
        (ELSEWHERE, 1, Standing.EXECUTED),
        (ELSEWHERE, STALE_SECONDS - 30, Standing.EXECUTED),
        (ELSEWHERE, STALE_SECONDS + 1, Standing.SILENT),
        (ELSEWHERE, -1e6, Standing.EXECUTED),
        ("anything at all", 1, Standing.EXECUTED),
        ("anything at all", 1e6, Standing.SILENT),
        (EARLIER, YEARS, Standing.FREE),
        (EARLIER, 1, Standing.EXECUTED),  # a copy of this machine, with its id, lives
    ],
    ids=named,
)
def test_a_claim_stands_as_its_process_does(executor, age, expected):
    assert claim(executor, age).standing == expected
    assert bool(claim(executor, age).obstacle("rig run x")) == (expected != Standing.FREE)


@pytest.mark.parametrize(
    ("executor", "age", "expected"),
    [
        (HERE, 1e6, False),
        (ELSEWHERE, None, False),
        (ELSEWHERE, 1, False),
        (ELSEWHERE, 1e6, True),
        (ELSEWHERE, -1e6, True),
    ],
    ids=named,
)
def test_what_is_silent_may_be_taken_over(executor, age, expected):
    assert claim(executor, age).may_be_taken_over is expected


@pytest.mark.parametrize("odd", [-1, -(2**62), 2**63 - 1, "soon", 1.5e300, b"x"])
def test_an_odd_heartbeat_is_one_of_long_ago(odd):
    found = Claim.from_row({"executor": ELSEWHERE, "heartbeat_ns": odd})
    assert found.standing == Standing.SILENT
    assert "1970-01-01 00:00:00 UTC" in found.obstacle("rig run x")
