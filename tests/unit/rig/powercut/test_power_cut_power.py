# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of a test host's drives: which rails are switched, and in which order what follows."""

from __future__ import annotations

import threading

import pytest

from joulerig.rig import power as switches
from joulerig.rig.campaign.execution.host_channel import HostGoneError
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import tap
from joulerig.rig.powercut import reach
from joulerig.rig.powercut.power import Power, SpoiledError
from joulerig.virtuallab import qmp

COMMAND = {"by": "command", "off": ["relay", "off"], "on": ["relay", "on"]}


@pytest.fixture
def events(monkeypatch):
    """What was switched and said, in order; nothing is."""
    found = []
    lock = threading.Lock()

    def note(*event):
        with lock:
            found.append(event)

    def switch(lab, host, drive, on):
        note(drive, on)
        return {f"{drive}/12v": 1}

    monkeypatch.setattr(tap, "switch_drive", switch)
    monkeypatch.setattr(qmp, "execute", lambda path, *commands: note(*commands))
    monkeypatch.setattr(switches.program, "run", lambda command, where: note(where, *command) or "")
    return found


class Near:
    """A host that answers as long as it is up, as its network shows it: by the events.

    `takes`: the seconds that its kernel takes to go down; None: it never does.
    """

    def __init__(self, events, takes=1.0):
        self.events, self.takes, self.now = events, takes, 0.0
        self.down_since = None
        self.first = []  # what it answers before that

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def answers(self):
        if self.first:
            return self.first.pop(0)
        goes = [at for at, event in enumerate(self.events) if event[0] in ("reset", "bench1: switch.off")]
        if not goes or self.takes is None:
            return "ping"
        if self.down_since is None:
            self.down_since = self.now + self.takes
        if self.now < self.down_since:
            return "ping"
        if self.events[-1] != ("down",):
            self.events.append(("down",))
        return ""


@pytest.fixture
def virtual(lab_files):
    for drive in lab_files.drives.values():
        drive["profile"] = "hdd-7200"
    lab_files.host["virtual"] = {}
    return lab_files.load()


def resets(events, back=()):
    def reset():
        events.append(("reset",))
        return list(back)

    return reset


def test_a_virtual_host_is_stopped_when_every_rail_is_off(virtual, events, state):
    how = Power(virtual, "bench1", ["fast", "hdd-1", "hdd-2"], list).off()
    assert sorted(events[:3]) == [("fast", False), ("hdd-1", False), ("hdd-2", False)]
    assert events[3:] == [("stop",)]
    assert how["means"] == "switched off by the tap, host stopped"
    assert how["samples"] == {"fast/12v": 1, "hdd-1/12v": 1, "hdd-2/12v": 1}


def test_a_virtual_host_restarts_when_every_rail_is_on(virtual, events, state):
    Power(virtual, "bench1", ["fast", "hdd-2"], list).on()
    assert events == [("fast", True), ("hdd-2", True), ("system_reset", "cont")]


# ---------------------------------------------------------------- a physical host


def switched(lab, drives, reset, near):
    return Power(lab, "bench1", drives, reset, near=near, clock=near.clock, sleep=near.sleep)


def test_drives_have_no_power_until_the_host_that_resets_itself_is_down(bench, events):
    near = Near(events)
    power = switched(bench, ["fast"], resets(events), near)
    power.off()
    power.on()
    assert events == [("fast", False), ("reset",), ("down",), ("fast", True)]


def test_a_host_that_is_silent_for_a_moment_is_not_taken_for_down(bench, events):
    near = Near(events)
    near.first = ["ping", *[""] * 12, "ping", "", "ping"]
    switched(bench, ["fast"], resets(events), near).on()
    assert not near.first
    assert events == [("reset",), ("down",), ("fast", True)]
    assert near.now - near.down_since >= reach.SILENT_SECONDS


def test_a_host_that_does_not_go_down_spoils_the_cut_and_its_drives_get_their_power(bench, events):
    near = Near(events, takes=None)
    with pytest.raises(SpoiledError) as spoiled:
        switched(bench, ["fast"], resets(events), near).on()
    assert str(spoiled.value) == (
        "the cut does not count: bench1: ping still answers 60 s after it was to be down"
    )
    assert events == [("reset",), ("fast", True)]


def test_a_drive_that_answers_in_the_old_boot_spoils_the_cut(bench, events):
    near = Near(events)
    with pytest.raises(SpoiledError, match="bench1: fast answered a read while off: its switch does not cut"):
        switched(bench, ["fast"], resets(events, ["fast"]), near).on()
    assert events == [("reset",), ("down",), ("fast", True)]


def test_a_host_that_cannot_be_asked_to_reset_leaves_its_drives_with_power(bench, events):
    def gone():
        raise HostGoneError("ssh: no answer")

    with pytest.raises(HostGoneError):
        switched(bench, ["fast"], gone, Near(events)).on()
    assert events == [("fast", True)]


@pytest.fixture
def plugged(lab_files):
    """A host whose own power a program switches."""
    lab_files.host["switch"] = COMMAND
    return lab_files


def test_a_host_with_a_switch_is_cut_after_its_drives_and_started_after_them(plugged, events):
    near = Near(events)
    power = switched(plugged.load(), ["fast"], resets(events), near)
    how = power.off()
    assert how["means"] == "switched off by the tap, then the host's"
    power.on()
    assert events == [
        ("fast", False),
        ("bench1: switch.off", "relay", "off"),
        ("down",),
        ("fast", True),
        ("bench1: switch.on", "relay", "on"),
    ]


def test_a_drive_that_its_host_feeds_is_cut_with_the_host(plugged, events):
    plugged.drives["bare"]["switch"] = {"by": "host"}
    power = switched(plugged.load(), ["bare"], resets(events), Near(events))
    assert power.off() == {"means": "switched off by the host's power, then the host's", "samples": {}}
    power.on()
    assert [event[0] for event in events] == ["bench1: switch.off", "down", "bench1: switch.on"]
    assert power.hold_up("bare") == {}


def test_an_outlet_that_is_another_hosts_spoils_the_cut_and_is_switched_on(plugged, events):
    near = Near(events, takes=None)
    power = switched(plugged.load(), ["fast"], resets(events), near)
    power.off()
    with pytest.raises(SpoiledError, match="ping still answers"):
        power.on()
    assert events[-2:] == [("fast", True), ("bench1: switch.on", "relay", "on")]


def test_a_drive_that_has_its_own_switch_needs_no_tap(lab_files, events):
    lab_files.drives["bare"]["switch"] = COMMAND
    switched(lab_files.load(), ["bare"], resets(events), Near(events)).off()
    assert events == [("bench1: drives.bare.switch.off", "relay", "off")]


def test_a_host_that_was_never_seen_to_answer_is_not_cut(bench, events):
    class Silent:
        def answers(self):
            return ""

    with pytest.raises(UserError, match="bench1: answers neither ping nor a connection to SSH's port"):
        Power(bench, "bench1", ["fast"], resets(events), near=Silent()).check()
    assert events == []


def test_drives_on_one_meter_are_switched_one_after_the_other(bench):
    lists = Power(bench, "bench1", ["fast", "hdd-2", "hdd-1"], list)._without_a_unit_in_common()
    assert sorted(map(sorted, lists)) == [["fast", "hdd-1"], ["hdd-2"]]


def test_every_rail_is_tried_when_one_does_not_come_back(bench, monkeypatch):
    tried = []

    def switch(lab, host, drive, on):
        tried.append(drive)
        if drive == "fast":
            raise UserError("tap1: does not answer")
        return {}

    monkeypatch.setattr(tap, "switch_drive", switch)
    with pytest.raises(UserError, match="does not answer"):
        Power(bench, "bench1", ["fast", "hdd-2"], list).restore_rails()
    assert tried == ["fast", "hdd-2"]
