# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives are judged by what they declare of their power states, and rightly."""

from dataclasses import replace

import pytest

from joulerig.analysis.audit.rails import RailPower
from joulerig.analysis.power_states import checks
from joulerig.analysis.power_states.checks import Quantity, Verdict
from joulerig.analysis.power_states.declared import Declared, State
from joulerig.analysis.power_states.measured import Measured
from joulerig.analysis.runs.over_time import Steps
from tests.support.resting_drive import Drive

BLOCKS = range(1, 7)


def judged(drive, rests=True, blocks=BLOCKS):
    """The drive that declares what `Drive()` does, left to rest and kept awake."""
    declared = Drive().declares()
    runs = [drive.run(rests, block, declared=declared) for block in blocks]
    return checks.rested(runs, [drive.run(False, block) for block in blocks])


def by_quantity(found):
    return {one.quantity: one for one in found.checks}


def test_a_drive_that_does_what_it_declares_obeys():
    found = by_quantity(judged(Drive()))
    for quantity in (Quantity.AT_REST, Quantity.RESTS_AFTER, Quantity.LEAVING):
        assert found[quantity].verdict == Verdict.OBEYS, quantity
    assert found[Quantity.SAVED].value == pytest.approx(0.345, abs=2e-3)


def test_what_a_rest_costs_and_when_it_pays_are_the_drives_own():
    drive = Drive()
    found = by_quantity(judged(drive))
    assert found[Quantity.COST].value == pytest.approx(drive.cost(), rel=0.05)
    assert found[Quantity.COST].interval.low < drive.cost() < found[Quantity.COST].interval.high
    assert found[Quantity.BREAK_EVEN].value == pytest.approx(drive.cost() / 0.345, rel=0.05)


@pytest.mark.parametrize(
    ("drive", "quantity"),
    [
        (Drive(chain=((0.162, 0.040), (0.5005, 0.1))), Quantity.AT_REST),
        (Drive(chain=((0.4, 0.040), (0.8, 0.005))), Quantity.RESTS_AFTER),
        (Drive(leaving=0.020), Quantity.LEAVING),
    ],
)
def test_a_drive_that_does_otherwise_is_contradicted_in_that_alone(drive, quantity):
    found = by_quantity(judged(drive))
    wrong = {name for name, one in found.items() if one.verdict == Verdict.CONTRADICTED}
    assert wrong == {quantity}


def test_a_drive_that_never_rests_is_found_out():
    found = judged(Drive(chain=((0.16, 0.35),), leaving=0.0, leaving_watts=0.0), rests=False)
    assert found.never
    assert by_quantity(found)[Quantity.AT_REST].verdict == Verdict.CONTRADICTED


def test_pauses_that_are_too_short_for_a_rest_say_nothing():
    drive = Drive(pause=0.1)
    assert not judged(drive, rests=False).never


def test_without_runs_kept_awake_the_power_at_rest_is_judged_alone():
    found = checks.rested([Drive().run(True, block) for block in BLOCKS], [])
    assert [one.quantity for one in found.checks] == [Quantity.AT_REST]


def test_a_drive_that_was_not_seen_at_rest_is_not_judged_by_its_power_at_rest():
    runs = [replace(Drive().run(True, block), idle=None, no_idle="not at rest") for block in BLOCKS]
    (one,) = checks.rested(runs, []).checks
    assert (one.quantity, one.runs, one.value, one.verdict, one.why) == (
        Quantity.AT_REST, 0, None, Verdict.UNDECIDED, "not at rest",
    )  # fmt: skip


def test_a_single_run_decides_nothing():
    found = by_quantity(judged(Drive(), blocks=[1]))
    assert found[Quantity.AT_REST].verdict == Verdict.UNDECIDED
    assert found[Quantity.AT_REST].interval is None


def test_drives_that_obey_are_not_accused():
    accused = 0
    for first in range(1, 1001, 20):
        found = judged(Drive(), blocks=range(first, first + 3))
        accused += any(one.verdict == Verdict.CONTRADICTED for one in found.checks)
    assert accused == 0


def working(greatest, declared):
    state = State(1, declared, True, 0.0, 0.0)
    return Measured(
        "r",
        1,
        Declared((state, state), state),
        None,
        "",
        RailPower(greatest, 0.01),
        greatest,
        Steps(),
        None,
        None,
    )


@pytest.mark.parametrize(
    ("declared", "verdict"),
    [
        (4.5, Verdict.OBEYS),
        (3.5, Verdict.CONTRADICTED),
        (4.02, Verdict.UNDECIDED),
        (None, Verdict.NOTHING_DECLARED),
    ],
)
def test_power_at_work_is_judged_by_the_states_most(declared, verdict):
    (one,) = checks.working([working(watts, declared) for watts in (4.0, 4.01, 3.99, 4.0)])
    assert (one.quantity, one.verdict, one.state) == (Quantity.WORKING, verdict, 1)


def test_power_at_work_is_judged_by_a_limit_that_was_set():
    (one,) = checks.working([working(watts, 8.0) for watts in (4.0, 4.01, 3.99, 4.0)], limit=3.5)
    assert (one.declared, one.verdict) == (3.5, Verdict.CONTRADICTED)
