# SPDX-License-Identifier: GPL-3.0-or-later
"""The moment of a power cut: in the phase it is aimed at, with something to lose."""

from __future__ import annotations

import random

import pytest

from joulerig.rig.powercut.moment import OPERATIONS, PHASES, PROMISES, AtWork, Moment


def rounds():
    """Lines of a writer: three writes and a flush, over and over."""
    sequence = 0
    while True:
        for operation in ("write", "write", "write", "flush"):
            sequence += 1
            yield {"event": "issued", "sequence": sequence, "operation": operation}
            yield {"event": "acknowledged", "sequence": sequence, "operation": operation}


def chosen_at(phase, seed):
    """(the line at which it chose, acknowledged operations before it, the choice)"""
    moment = Moment(phase, random.Random(seed))
    acknowledged = 0
    for line in rounds():
        choice = moment.saw(line)
        if choice is not None:
            return line, acknowledged, choice
        acknowledged += line["event"] == "acknowledged"
        assert acknowledged < 1000


@pytest.mark.parametrize(
    ("phase", "event", "operation"),
    [
        ("write", "issued", "write"),
        ("between", "acknowledged", "write"),
        ("flush", "issued", "flush"),
        ("idle", "acknowledged", "flush"),
    ],
)
def test_it_comes_in_the_phase_that_it_is_aimed_at(phase, event, operation):
    for seed in range(50):
        line, acknowledged, choice = chosen_at(phase, seed)
        assert (line["event"], line["operation"]) == (event, operation)
        assert acknowledged + 1 >= OPERATIONS[0]
        assert choice.hold


def transactions():
    """Lines of an application: every third transaction is rolled back."""
    sequence = 0
    while True:
        sequence += 1
        yield {"event": "issued", "sequence": sequence, "operation": "transaction"}
        event = "acknowledged" if sequence % 3 else "failed"
        yield {"event": event, "sequence": sequence, "operation": "transaction"}


@pytest.mark.parametrize("phase", PHASES)
def test_it_comes_with_transactions_in_every_phase(phase):
    ends = set()
    for seed in range(30):
        moment = Moment(phase, random.Random(seed))
        seen = next(line for line in transactions() if moment.saw(line) is not None)
        ends.add(seen["event"])
    # A cut after a rollback shows whether that holds.
    assert ends == ({"issued"} if phase in ("write", "flush") else {"acknowledged", "failed"})


def test_a_moment_of_the_clock_does_not_hold_the_writer():
    _, _, choice = chosen_at("any", 1)
    assert not choice.hold
    assert choice.seconds > 0


def test_moments_differ_by_seed_and_repeat_with_it():
    found = {seed: chosen_at("write", seed)[1] for seed in range(20)}
    assert len(set(found.values())) > 5
    assert found == {seed: chosen_at("write", seed)[1] for seed in range(20)}


def test_a_phase_that_is_not_one_is_refused():
    with pytest.raises(ValueError, match=PHASES[0]):
        Moment("lunch", random.Random(1))


@pytest.mark.parametrize("phase", PHASES)
def test_none_comes_before_it_is_armed(phase):
    moment = Moment(phase, random.Random(1), armed=False)
    lines = rounds()
    assert all(moment.saw(next(lines)) is None for _ in range(1000))
    moment.arm()
    assert any(moment.saw(next(lines)) for _ in range(20))


@pytest.mark.parametrize("lines", [rounds, transactions])
def test_a_writer_is_at_work_once_it_has_promised_as_much_as_energy_needs(lines):
    at_work, promised = AtWork(), 0
    for line in lines():
        assert at_work.saw(line) is None
        promised += line["event"] == "acknowledged" and line["operation"] in ("flush", "transaction")
        assert at_work.has_promised == (promised >= PROMISES)
        if promised > PROMISES:
            break
