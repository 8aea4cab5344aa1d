# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown of checked states."""

from __future__ import annotations

from collections import Counter

from joulerig.rig.powercut import crash_states
from joulerig.rig.powercut.crash_states import SHOWN, Broken, Found

BROKEN = Broken(4, (0, 2), 3, ("7 lost",))


def test_a_broken_state_is_named_by_its_flush_and_what_had_landed():
    found = Found(10, 80, 20, 12, fates=Counter({"lost": 1}), broken=[BROKEN])
    assert list(crash_states.lines(found)) == [
        "breaks its promise in 1 of 20 of 80 states before 10 flushes: transactions 1 lost.",
        "  before flush 5, 2 of 3 volatile writes landed: 7 lost",
    ]


def test_only_the_first_broken_states_are_shown():
    found = Found(10, 80, 40, 12, fates=Counter({"lost": 30}), broken=[BROKEN] * (SHOWN + 3))
    assert list(crash_states.lines(found))[-1] == "  and 3 more"


def test_what_could_not_be_mounted_is_said():
    *_, last = crash_states.lines(Found(10, 80, 40, 12, unmountable=1))
    assert last == "  1 state could not be mounted"


def test_very_many_states_are_rounded():
    assert "20 of 4.6e+18 states" in Found(1, 2**62, 20, 12).statement


def test_the_writer_has_a_word_of_the_application_in_each_option():
    command = crash_states.writer("survey", ["python3", "x.py", "--wal"])
    assert command[1] == "survey"
    assert command[-6:] == ["--application", "python3", "--application", "x.py", "--application", "--wal"]
