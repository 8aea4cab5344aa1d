# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies are computed once for all who ask."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from joulerig.rig.dashboard.api.kept import Kept


def test_a_value_is_kept_for_its_time():
    now = [0.0]
    kept, made = Kept(clock=lambda: now[0]), []

    def compute():
        made.append(now[0])
        return len(made)

    assert [kept.get("a", 2.0, compute), kept.get("a", 2.0, compute)] == [1, 1]
    now[0] = 1.9
    assert kept.get("a", 2.0, compute) == 1
    now[0] = 2.0
    assert kept.get("a", 2.0, compute) == 2
    assert kept.get("b", 2.0, compute) == 3


def test_those_who_ask_at_once_share_one_computation():
    kept, computed, may_end = Kept(), [], threading.Event()

    def compute():
        computed.append(1)
        assert may_end.wait(10)
        return "reply"

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(kept.get, "a", 60.0, compute) for _ in range(8)]
        may_end.set()
        assert {one.result(10) for one in asked} == {"reply"}
    assert computed == [1]


def test_an_error_is_not_kept():
    kept, turns = Kept(), iter([ValueError("once"), None])

    def compute():
        if error := next(turns):
            raise error
        return "reply"

    with pytest.raises(ValueError, match="once"):
        kept.get("a", 60.0, compute)
    assert kept.get("a", 60.0, compute) == "reply"


def test_no_more_than_so_many_are_kept():
    kept, computed = Kept(most=3), []
    for key in (1, 2, 3, 1, 4, 1, 2):
        kept.get(key, 60.0, lambda key=key: computed.append(key))
    assert computed == [1, 2, 3, 4, 2]
