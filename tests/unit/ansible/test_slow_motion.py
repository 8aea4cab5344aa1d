# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test host asks of the virtual lab's clock, at a terminal that stands in for its port."""

import os
import re
import select
import threading
import tty

import pytest

from ansible.module_utils.joulerig.clocks import slow_motion
from ansible.module_utils.joulerig.clocks.slow_motion import SlowMotion
from ansible.module_utils.joulerig.tools import Failed
from tests.support.programs import wait_for


class OtherEnd:
    """The other end of a port: replies by `answer`, and keeps what it was asked."""

    def __init__(self, answer):
        self._file, self._host = os.openpty()
        tty.setraw(self._host)
        self.path = os.ttyname(self._host)
        self.asked, self._answer, self._over = [], answer, threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        text = b""
        while not self._over.is_set():
            if select.select([self._file], [], [], 0.01)[0]:
                text += os.read(self._file, 1000)
            while b"\n" in text:
                line, _, text = text.partition(b"\n")
                self.asked.append(line.decode())
                if (reply := self._answer(line.decode())) is not None:
                    self.write(reply)

    def write(self, text):
        os.write(self._file, text.encode())

    def close(self):
        self._over.set()
        self._thread.join()
        os.close(self._file)
        os.close(self._host)


def obedient(line):
    return f"{float(line.split()[1]):g}\n"


@pytest.fixture
def port():
    ends = []

    def make(answer=obedient):
        ends.append(OtherEnd(answer))
        return ends[-1]

    yield make
    for end in ends:
        end.close()


def test_it_asks_between_begin_and_end(port):
    other = port()
    with SlowMotion(20.0, other.path) as slow:
        assert other.asked == ["slow 1 0"]  # what a run that was killed asked for
        slow.begin()
        assert other.asked == ["slow 1 0", f"slow 20 {slow_motion.LEASE_SECONDS}"]
        slow.end()
    assert other.asked == ["slow 1 0", f"slow 20 {slow_motion.LEASE_SECONDS}", "slow 1 0"]


def test_an_error_in_between_ends_it(port):
    other = port()

    def fail():
        with SlowMotion(20.0, other.path) as slow:
            slow.begin()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert other.asked[-1] == "slow 1 0"


def test_it_asks_again_before_what_it_asked_for_ends(port, monkeypatch):
    monkeypatch.setattr(slow_motion, "AGAIN_SECONDS", 0.01)
    other = port()
    with SlowMotion(20.0, other.path) as slow:
        slow.begin()
        wait_for(lambda: len(other.asked) > 4, 10, "it has asked again")
    assert slow_motion.LEASE_SECONDS > 2 * 10
    assert len(set(other.asked)) == 2


def test_without_slow_motion_it_needs_no_port():
    with SlowMotion(1.0, "/nowhere") as slow:
        slow.begin()
        slow.end()


def test_a_host_without_the_port_says_so():
    with pytest.raises(Failed, match="slow motion: /nowhere: No such file"), SlowMotion(2.0, "/nowhere"):
        pass


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda line: "error 'slow'\n", "error 'slow'"),
        (lambda line: "4\n", "4"),  # less than was asked for
        (lambda line: None, "no answer"),
    ],
)
def test_a_clock_that_does_not_obey_is_an_error(port, monkeypatch, answer, said):
    monkeypatch.setattr(slow_motion, "REPLY_SECONDS", 0.2)
    replies = port(lambda line: "1\n" if line == "slow 1 0" else answer(line))
    with SlowMotion(20.0, replies.path) as slow, pytest.raises(Failed, match=re.escape(said)):
        slow.begin()


def test_another_host_may_have_asked_for_more(port):
    with SlowMotion(20.0, port(lambda line: "32.6\n").path) as slow:
        slow.begin()


def test_a_reply_that_came_too_late_is_not_taken_for_another(port, monkeypatch):
    monkeypatch.setattr(slow_motion, "REPLY_SECONDS", 0.2)
    replies = iter(["1\n", None, "4\n"])
    other = port(lambda line: next(replies))
    with SlowMotion(20.0, other.path) as slow:
        with pytest.raises(Failed, match="no answer"):
            slow.begin()
        other.write("20\n")
        with pytest.raises(Failed, match=r"4$"):
            slow.begin()
