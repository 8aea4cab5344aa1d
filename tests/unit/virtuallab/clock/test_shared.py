# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that the programs of a lab share: who has it, and how the lab's time went."""

import time

import pytest

from joulerig.rig.common import supervisor
from joulerig.virtuallab.clock import shared
from joulerig.virtuallab.clock.page import ENVIRONMENT, LabClock

S = 1_000_000_000


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.setattr(supervisor, "states", dict)


def test_without_a_page_the_time_is_the_machines_and_programs_get_nothing():
    assert shared.environment() == {}
    assert abs(shared.now_ns() - time.time_ns()) < S


def test_programs_are_given_library_and_page():
    shared.prepare()
    found = shared.environment()
    assert found["LD_PRELOAD"].endswith("lab_clock.so")
    LabClock(shared.page()).close()
    assert found[ENVIRONMENT] == str(shared.page())


def slow_down():
    clock = LabClock(shared.page(), write=True)
    clock.set_slowness(1000.0)
    clock.close()


@pytest.mark.parametrize("name", ["host-vhost1", "tap-tap1", "twin-vhost1-nvme-plp", "powerd"])
def test_a_page_that_a_program_has_is_kept(monkeypatch, name):
    shared.prepare()
    slow_down()
    monkeypatch.setattr(supervisor, "states", lambda: {name: "RUNNING"})
    shared.prepare()
    assert LabClock(shared.page()).slowness == 1000.0


@pytest.mark.parametrize("states", [{}, {"host-vhost1": "EXITED"}, {"influxd": "RUNNING"}])
def test_a_page_that_no_program_has_is_replaced(monkeypatch, states):
    shared.prepare()
    slow_down()
    monkeypatch.setattr(supervisor, "states", lambda: states)
    shared.prepare()
    assert LabClock(shared.page()).slowness == 1.0


def test_a_page_that_was_removed_is_given_to_no_program():
    shared.prepare()
    shared.remove()
    assert shared.environment() == {}


# --- how slowly it went


def history(*changes):
    for at, slowness in changes:
        shared.note(at * S, slowness)


def mean_slowness(start_ns, end_ns):
    [found] = shared.mean_slowness([(start_ns, end_ns)])
    return found


def test_a_stretch_without_a_change_has_the_slowness_before_it():
    history((100, 1.0), (110, 20.0), (120, 1.0))
    assert mean_slowness(111 * S, 119 * S) == 20.0
    assert mean_slowness(121 * S, 130 * S) == 1.0


def test_a_change_within_counts_by_time():
    history((100, 1.0), (110, 20.0), (120, 1.0))
    assert mean_slowness(105 * S, 115 * S) == pytest.approx((5 * 1 + 5 * 20) / 10)
    assert mean_slowness(105 * S, 125 * S) == pytest.approx((5 * 1 + 10 * 20 + 5 * 1) / 20)


def test_nothing_is_known_of_the_time_before_the_first_change():
    assert mean_slowness(1 * S, 2 * S) is None
    history((100, 1.0))
    assert mean_slowness(99 * S, 101 * S) is None


def test_a_line_that_was_cut_off_is_not_read():
    history((100, 1.0), (110, 20.0))
    with shared.history().open("a") as file:
        file.write("120000")
    assert mean_slowness(111 * S, 119 * S) == 20.0
