# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that are cut together: the cut waits for a writer that takes long to begin."""

from __future__ import annotations

import json
import socket
import threading
from types import SimpleNamespace

import pytest

from joulerig.analysis.powercut.folder import WITNESS_LOG, Subject
from joulerig.rig.campaign.powercut import cut as cuts
from joulerig.rig.campaign.powercut.host import Reply
from joulerig.rig.powercut.witness import introduction

SLOW_SECONDS = 2.0


class Host:
    """Its writers promise transaction after transaction until the answer is to stop."""

    name = "bench1"

    def __init__(self, slow):
        spec = SimpleNamespace(controller_in_url="127.0.0.1")
        controller = SimpleNamespace(clock_listen="127.0.0.1:0", witness_ports=None)
        self.lab = SimpleNamespace(hosts={self.name: spec}, controller=controller, virtual=False)
        self._slow = slow
        self._writers = []
        self._is_over = threading.Event()

    def options(self, subject, token, number):
        return []

    def ask(self, subject, action, *, witness, secret, **more):
        delay = self._slow.get(subject.name, 0.0)
        writer = threading.Thread(target=self._write, args=(witness, secret, delay), daemon=True)
        writer.start()
        self._writers.append(writer)
        return Reply(boot_id="one")

    def end(self):
        self._is_over.set()
        for writer in self._writers:
            writer.join(10)
            assert not writer.is_alive()

    def _write(self, witness, secret, delay):
        address, _, port = witness.removeprefix("tcp:").rpartition(":")
        with socket.create_connection((address, int(port))) as connection, connection.makefile("rb") as said:
            connection.sendall(introduction(secret))
            if self._is_over.wait(delay):
                return
            for number in range(1, 100_000):
                for event in ("issued", "acknowledged"):
                    line = {"event": event, "sequence": number, "operation": "transaction"}
                    connection.sendall(json.dumps(line).encode() + b"\n")
                if said.readline() != b"ok\n":
                    return


class Power:
    def check(self):
        pass

    def off(self):
        return {"means": "none"}

    def hold_up(self, drive):
        return {}

    def on(self):
        pass

    def restore_rails(self):
        pass


@pytest.fixture
def promised(tmp_path, monkeypatch):
    """promised({SUBJECT: SECONDS}): how many promises of each subject there were before the cut."""
    monkeypatch.setattr(cuts, "ANY_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(cuts, "OPERATIONS", (3, 3))

    def cut(slow):
        host = Host(slow)
        group = [
            cuts.Prepared(Subject(name, host.name, name, application="sqlite"), "token", tmp_path / name)
            for name in ("fast", "late")
        ]
        one = cuts.Cut(host, group, 1, cuts.Aim("fast", "any", 1), Power(), None)
        one.execute(0.0)
        host.end()
        return {prepared.subject.name: before_the_cut(prepared.folder / WITNESS_LOG) for prepared in group}

    return cut


def before_the_cut(log):
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    return events[: events.index("cut")].count("acknowledged")


def test_a_writer_that_begins_late_has_promised_something_when_the_power_goes(promised):
    found = promised({"late": SLOW_SECONDS})
    assert found["late"] >= 2
    assert found["fast"] >= 3


def test_one_that_never_promises_is_cut_all_the_same(promised, monkeypatch):
    monkeypatch.setattr(cuts, "AT_WORK_SECONDS", 0.2)
    assert promised({"late": 60.0})["late"] == 0
