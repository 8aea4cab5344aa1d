# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that slows a lab's clock down: whom it obeys, and what ends by itself."""

import socket
import threading

import pytest

from joulerig.rig.common import wait
from joulerig.virtuallab.clock import keeper
from joulerig.virtuallab.clock.keeper import Keeper
from joulerig.virtuallab.clock.page import LabClock
from tests.support.programs import wait_for

REPLY_SECONDS = 10


@pytest.fixture
def clock(tmp_path):
    clock = LabClock.create(tmp_path / "clock")
    yield clock
    clock.close()


def test_a_host_gets_what_it_asks_for(clock):
    assert Keeper(clock).ask("a", "slow 20 25") == "20"
    assert clock.slowness == 20.0


def test_it_is_so_when_the_reply_comes(clock):
    one = Keeper(clock)
    one.ask("a", "slow 100 25")
    before_ns = clock.monotonic_ns()
    one.ask("a", "slow 100 25")
    # At the pace of before, the line's beginning alone would be a tenth of a second away.
    assert clock.monotonic_ns() - before_ns < 50_000_000


def test_the_slowest_that_a_host_asks_for_holds_for_all(clock):
    one = Keeper(clock)
    one.ask("a", "slow 4 25")
    assert one.ask("b", "slow 8 25") == "8"
    assert one.ask("a", "slow 1 0") == "8"
    assert one.ask("b", "slow 1 0") == "1"


def test_what_was_asked_for_ends_by_itself(clock):
    one = Keeper(clock)
    one.ask("a", "slow 2 0.05")
    wait_for(lambda: one.settle() or clock.slowness == 1.0, 10, "the lease is over")


def test_a_host_that_is_gone_asks_for_nothing(clock):
    one = Keeper(clock)
    one.ask("a", "slow 4 25")
    one.forget("a")
    assert clock.slowness == 1.0


def test_each_change_is_noted_with_the_time_from_which_it_holds(clock):
    noted = []
    one = Keeper(clock, lambda at_ns, slowness: noted.append((at_ns, slowness)))
    begin_ns = clock.real_ns()
    for line in ("slow 4 25", "slow 4 25", "slow 1 0"):
        one.ask("a", line)
    assert [slowness for _, slowness in noted] == [4.0, 1.0]
    first, second = (at_ns for at_ns, _ in noted)
    assert begin_ns < first < second <= clock.real_ns()


@pytest.mark.parametrize(
    "line", ["", "fast 2 25", "slow", "slow 2", "slow 0.5 25", "slow 1001 25", "slow nan 25", "slow x 25"]
)
def test_what_it_does_not_understand_changes_nothing(clock, line):
    assert Keeper(clock).ask("a", line).startswith("error")
    assert clock.slowness == 1.0


@pytest.fixture
def served(clock, tmp_path):
    over = threading.Event()
    path = tmp_path / "host.clock"
    thread = threading.Thread(target=keeper.serve, args=(Keeper(clock), {"host": path}, over.is_set))
    thread.start()
    wait_for(lambda: wait.listens(path), 10, "it listens")
    yield path
    over.set()
    thread.join()


def connected(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(REPLY_SECONDS)
    connection.connect(str(path))
    return connection


def test_a_connection_is_answered_line_by_line(served, clock):
    with connected(served) as connection, connection.makefile("r") as replies:
        connection.sendall(b"slow 3 2")
        connection.sendall(b"5\nslow 5 25\n")
        assert [replies.readline(), replies.readline()] == ["3\n", "5\n"]


def test_a_connection_that_ends_asks_for_nothing_any_more(served, clock):
    with connected(served) as connection, connection.makefile("r") as replies:
        connection.sendall(b"slow 3 25\n")
        assert replies.readline() == "3\n"
    wait_for(lambda: clock.slowness == 1.0, 10, "the clock is the machine's again")
    with connected(served) as connection, connection.makefile("r") as replies:
        connection.sendall(b"slow 2 25\n")
        assert replies.readline() == "2\n"
