# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of a test host's drives: which rails are switched, and in which order what follows."""

from __future__ import annotations

import threading

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import tap
from joulerig.rig.powercut import power
from joulerig.rig.powercut.power import Power
from joulerig.virtuallab import qmp


@pytest.fixture
def events(monkeypatch):
    """What was switched and said, in order; nothing is."""
    found = []
    lock = threading.Lock()

    def switch(lab, host, drive, on):
        with lock:
            found.append((drive, on))
        return {f"{drive}/12v": 1}

    monkeypatch.setattr(tap, "switch_drive", switch)
    monkeypatch.setattr(qmp, "execute", lambda path, *commands: found.append(commands))
    return found


@pytest.fixture
def virtual(lab_files):
    for drive in lab_files.drives.values():
        drive["profile"] = "hdd-7200"
    lab_files.host["virtual"] = {}
    return lab_files.load()


def test_a_virtual_host_is_stopped_when_every_rail_is_off(virtual, events, state):
    Power(virtual, "bench1", ["fast", "hdd-1", "hdd-2"], lambda: None).off()
    assert sorted(events[:3]) == [("fast", False), ("hdd-1", False), ("hdd-2", False)]
    assert events[3:] == [("stop",)]


def test_a_virtual_host_restarts_when_every_rail_is_on(virtual, events, state):
    Power(virtual, "bench1", ["fast", "hdd-2"], lambda: None).on()
    assert events == [("fast", True), ("hdd-2", True), ("system_reset", "cont")]


def test_a_physical_host_resets_itself_before_its_drives_come_back(bench, events):
    Power(bench, "bench1", ["fast"], lambda: events.append("reset")).on()
    assert events == ["reset", ("fast", True)]


def test_drives_on_one_meter_are_switched_one_after_the_other(bench):
    lists = Power(bench, "bench1", ["fast", "hdd-2", "hdd-1"], lambda: None)._without_a_meter_in_common()
    assert sorted(map(sorted, lists)) == [["fast", "hdd-1"], ["hdd-2"]]


def test_every_rail_is_tried_when_one_does_not_come_back(bench, monkeypatch):
    tried = []

    def switch(lab, host, drive, on):
        tried.append(drive)
        if drive == "fast":
            raise UserError("tap1: does not answer")
        return {}

    monkeypatch.setattr(power.tap, "switch_drive", switch)
    with pytest.raises(UserError, match="does not answer"):
        Power(bench, "bench1", ["fast", "hdd-2"], lambda: None).restore_rails()
    assert tried == ["fast", "hdd-2"]
