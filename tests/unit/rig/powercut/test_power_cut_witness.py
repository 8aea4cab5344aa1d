# SPDX-License-Identifier: GPL-3.0-or-later
"""The witness: whom it serves, its log when it replies, and its behaviour from the cut on."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from joulerig.analysis.powercut import witness_log
from joulerig.rig.common.errors import UserError
from joulerig.rig.powercut import witness as witnesses
from joulerig.rig.powercut.moment import AtWork
from joulerig.rig.powercut.witness import Choice, Witness, WitnessLog, introduction
from tests.support import hostile_text

SECRET = "0123456789abcdef"
REPORT = b'{"event":"acknowledged","sequence":1}\n'


class AfterLines:
    """Chooses at the given line."""

    def __init__(self, count, choice):
        self.left, self.choice = count, choice

    def saw(self, line):
        self.left -= 1
        return self.choice if self.left == 0 else None


class Bench:
    """A writer's end of the wire, and the log's file."""

    def __init__(self, folder, trigger, cut):
        self.path = folder / "ledger.jsonl"
        self.log = WitnessLog(self.path)
        self.log.write({"event": "begin", "campaign": "00", "generation": 1})
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.witness = Witness(self.listener, SECRET, self.log, trigger, cut)

    def connect(self, said):
        connection = socket.create_connection(self.listener.getsockname(), timeout=5)
        connection.sendall(said)
        return connection

    def __enter__(self):
        self.witness.__enter__()
        self.writer = self.connect(introduction(SECRET))
        self.answers = self.writer.makefile()
        return self

    def __exit__(self, *error):
        self.answers.close()
        self.writer.close()
        self.witness.end(5)
        self.listener.close()
        self.log.close()

    def tell(self, **line):
        self.writer.sendall(json.dumps(line).encode() + b"\n")

    def write(self, sequence):
        self.tell(
            event="issued",
            sequence=sequence,
            operation="write",
            target="",
            offset=0,
            bytes=512,
            call="pwrite",
        )
        self.tell(event="acknowledged", sequence=sequence)

    def events(self):
        return [json.loads(line)["event"] for line in self.path.read_text().splitlines()]


@pytest.fixture
def cuts():
    return []


@pytest.fixture
def allowed():
    """Set when the power may be cut: a cut that has been asked for waits for it."""
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def bench(tmp_path, cuts, allowed):
    def cut():
        assert allowed.wait(30)
        cuts.append(time.monotonic())
        return {"means": "none"}

    return lambda trigger: Bench(tmp_path, trigger, cut)


def test_an_acknowledgement_is_on_disk_when_it_is_answered(bench):
    with bench(AfterLines(99, None)) as at:
        at.write(1)
        assert at.answers.readline() == "ok\n"
        assert at.events() == ["begin", "issued", "acknowledged"]


def test_from_the_choice_on_nothing_is_answered_until_the_cut_and_then_only_with_stop(bench, cuts, allowed):
    allowed.clear()
    with bench(AfterLines(2, Choice(0.2, hold=True))) as at:
        at.write(1)
        at.writer.settimeout(0.1)
        with pytest.raises(TimeoutError):
            at.writer.recv(1)
        assert not cuts
        allowed.set()
        at.writer.settimeout(5)
        assert at.witness.await_cut(5)
        assert at.writer.recv(10) == b"stop\n"
        at.write(2)
        assert at.writer.recv(10) == b"stop\n"
    assert len(cuts) == 1


def test_without_holding_the_writer_goes_on_until_the_cut(bench, cuts, allowed):
    allowed.clear()
    with bench(AfterLines(1, Choice(0.2, hold=False))) as at:
        at.write(1)
        assert at.answers.readline() == "ok\n"
        assert not cuts
        allowed.set()
        assert at.witness.await_cut(5)


def test_what_was_acknowledged_before_the_cut_counts_though_it_was_reported_after_it(bench):
    with bench(AfterLines(1, Choice(0.0, hold=True))) as at:
        at.tell(event="issued", sequence=1, operation="write", target="", offset=0, bytes=512, call="pwrite")
        assert at.witness.await_cut(5)
        at.tell(event="acknowledged", sequence=1)
    assert at.events() == ["begin", "issued", "cut", "acknowledged"]
    assert witness_log.read(at.path).operations[0].acknowledged == 3


def test_a_writer_whose_host_dies_in_the_middle_of_a_line_has_not_reported_it(bench):
    with bench(AfterLines(99, None)) as at:
        at.write(1)
        at.answers.readline()
        at.writer.sendall(b'{"event":"acknowledged","sequ')
    assert at.events() == ["begin", "issued", "acknowledged"]


def test_a_writer_that_goes_before_the_moment_has_come_ends_the_wait(bench):
    with bench(AfterLines(99, None)) as at:
        at.writer.close()
        at.answers.close()
        began = time.monotonic()
        assert not at.witness.await_cut(30)
        assert time.monotonic() - began < 5


def test_a_cut_that_fails_is_not_passed_over(tmp_path):
    def fail():
        raise RuntimeError("the switch does not answer")

    with Bench(tmp_path, AfterLines(1, Choice(0.0, hold=True)), fail) as at:
        at.write(1)
        with pytest.raises(RuntimeError, match="does not answer"):
            at.witness.await_cut(5)


def test_a_ledger_is_never_written_over(tmp_path):
    WitnessLog(tmp_path / "ledger.jsonl").close()
    with pytest.raises(FileExistsError):
        WitnessLog(tmp_path / "ledger.jsonl")


# --- who is served


class Listening(Bench):
    """A witness that no writer has come to yet."""

    def __enter__(self):
        self.witness.__enter__()
        return self

    def __exit__(self, *error):
        self.witness.end()
        self.listener.close()
        self.log.close()

    def is_dropped(self, connection):
        try:
            return connection.recv(10) == b""
        except ConnectionResetError:
            return True

    def serves_the_writer(self):
        with self.connect(introduction(SECRET)) as writer:
            writer.sendall(REPORT)
            return writer.recv(10) == b"ok\n"


STRANGERS = {
    "says nothing of itself": REPORT * 10,
    "has another secret": introduction("0123456789abcdee") + REPORT,
    "has a part of the secret": introduction("0123456789abcde") + REPORT * 2,
    "has an empty secret": introduction("") + REPORT * 2,
    "says more before it": b"\n" + introduction(SECRET) + REPORT,
    "says no line at all": b"x" * 100_000,
    "says other bytes": bytes(range(256)),
}


@pytest.mark.parametrize("said", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_is_dropped_and_neither_logged_nor_cuts_nor_keeps_the_writer_out(tmp_path, cuts, said):
    with Listening(tmp_path, AfterLines(2, Choice(0.0, hold=False)), lambda: cuts.append(1) or {}) as at:
        with socket.create_connection(at.listener.getsockname(), timeout=5) as stranger:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # dropped meanwhile
                stranger.sendall(said)
            assert at.is_dropped(stranger)
        assert at.serves_the_writer()
        assert at.events() == ["begin", "acknowledged"]
    assert cuts == []


def test_silent_strangers_do_not_keep_the_writer_out(tmp_path):
    with Listening(tmp_path, AtWork(), dict) as at:
        strangers = [at.connect(introduction(SECRET)[:20]) for _ in range(3 * witnesses.MOST_STRANGERS)]
        assert at.is_dropped(strangers[0])  # the oldest gave way
        assert at.serves_the_writer()
        for stranger in strangers:
            stranger.close()


def test_a_stranger_has_a_few_seconds_to_introduce_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(witnesses, "INTRODUCTION_SECONDS", 0.1)
    monkeypatch.setattr(witnesses, "LOOK_SECONDS", 0.05)
    with Listening(tmp_path, AtWork(), dict) as at, at.connect(introduction(SECRET)[:20]) as stranger:
        assert at.is_dropped(stranger)


def test_a_second_writer_is_not_served(bench):
    with bench(AfterLines(99, None)) as at:
        at.write(1)
        assert at.answers.readline() == "ok\n"
        with at.connect(introduction(SECRET) + REPORT) as second:
            second.settimeout(0.2)
            with pytest.raises(TimeoutError):
                second.recv(1)
        assert at.events() == ["begin", "issued", "acknowledged"]


def test_the_secret_is_in_no_log(bench):
    with bench(AfterLines(99, None)) as at:
        at.write(1)
        at.answers.readline()
    assert SECRET not in at.path.read_text()


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b'{"event":"issued","target":"' + b"a" * 5000, "line is longer than 4096 bytes"),
        (b'{"event":"issued","target":"' + b"a" * 5000 + b'"}\n', "line is longer than 4096 bytes"),
        (b"ok\n", "the writer said b'ok"),
        (b"[]\n", "allowed: a JSON object with an event"),
        (b'{"event":1}\n', "allowed: a JSON object with an event"),
        (b"[" * 4000 + b"\n", "allowed: a JSON object with an event"),
        (b"\xff\n", "allowed: a JSON object with an event"),
        *((text.encode() + b"\n", "the writer said") for text in hostile_text.NAMES.values()),
    ],
)
def test_a_line_that_no_writer_sends_ends_the_cut(tmp_path, said, complaint):
    with Listening(tmp_path, AtWork(), dict) as at, at.connect(introduction(SECRET) + said):
        with pytest.raises(UserError, match=complaint):
            at.witness.await_cut(5)
        assert at.events() == ["begin"]


def test_a_witness_that_no_writer_comes_to_ends_at_once(tmp_path):
    began = time.monotonic()
    with Listening(tmp_path, AtWork(), dict):
        pass
    assert time.monotonic() - began < 2


def test_a_witness_listens_on_the_first_free_port_of_its_range():
    with witnesses.listen("127.0.0.1") as first:
        port = first.getsockname()[1]
        with pytest.raises(UserError, match=f"witness_ports: {port}-{port}: none is free at 127.0.0.1"):
            witnesses.listen("127.0.0.1", f"{port}-{port}")
        with witnesses.listen("127.0.0.1", f"{port}-{port + 50}") as second:
            assert port < second.getsockname()[1] <= port + 50


def test_a_witness_listens_on_ipv6_too():
    with witnesses.listen("::1") as listener:
        assert listener.family == socket.AF_INET6
