# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign keeps its hosts while it executes, by few calls, and stops where another has one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from joulerig.analysis.results.schema import Asked
from joulerig.rig.campaign.definition import StopRule
from joulerig.rig.campaign.execution.host_channel import HostGoneError
from joulerig.rig.campaign.execution.host_loop import HostLoop, HostTakenError
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.reservations import asking
from joulerig.rig.campaign.reservations.lease import LEASE_SECONDS, RENEW_SECONDS, HostLease
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from tests.support.planned_runs import CAMPAIGN, row

ENTRY = {
    "owner": "bob@lab2", "machine": "m2", "purpose": "x", "campaign": "", "created_ns": 0, "process": "",
    "made": 1.0, "expires": 2.0, "over": False,
}  # fmt: skip


class Host:
    """A test host that keeps a reservation; `reply` is given, or an error that a call raises."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.reply: Any = {"now": 1.0, "held": [], "changed": False}
        self.said: list[str] = []
        self.seconds = 0.0
        self.takes = 0.0  # seconds to answer
        self.called = 0.0

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        assert module == "joulerig_reservation"
        self.asked.append(arguments)
        self.called = self.seconds
        self.seconds += self.takes
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    def reconnect(self) -> None:
        pass

    def say(self, text: str, mark: str = "note") -> None:
        self.said.append(text)

    def clock(self) -> float:
        return self.seconds

    def refuse(self, **entry: Any) -> None:
        by = {**ENTRY, **entry}
        self.reply = {"now": 1.0, "held": [by], "refused": "bench1: is reserved by bob@lab2", "by": by}


@pytest.fixture
def journal(state):
    made = Journal.create(paths.results() / "study-1", CAMPAIGN, [row(1, "bench1"), row(2, "bench1")])
    made.claim(process.identity(os.getpid()))
    return made


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def lease(journal, host):
    return HostLease(journal, "bench1", host, host.clock)


def test_a_campaign_asks_by_its_id_its_start_its_process_and_its_question(journal, host, lease):
    lease.keep()
    [asked] = host.asked
    campaign = journal.campaign
    assert asked == {
        "owner": asking.owner(), "machine": process.machine(), "host": "bench1", "campaign": campaign["id"],
        "created_ns": campaign["created_ns"], "process": process.identity(os.getpid()),
        "purpose": campaign["question"], "state": "reserve", "seconds": LEASE_SECONDS,
    }  # fmt: skip


def test_short_runs_ask_once_a_minute(host, lease):
    for _ in range(30):
        lease.keep()
        lease.keep(5)
        host.seconds += 4
    assert [asked["state"] for asked in host.asked] == ["reserve", "renew"]


def test_a_slow_host_is_asked_for_a_hundredth_of_the_time(host, lease):
    host.takes = 6.0
    while host.seconds < 2500:
        lease.keep()
        host.seconds += 25
    assert len(host.asked) == 5  # 6 s of each 600


def test_a_host_that_is_very_slow_is_asked_before_its_reservation_may_end(host, lease):
    host.takes = 60.0
    while host.seconds < 2 * LEASE_SECONDS:
        lease.keep()
        assert host.seconds < lease_ends(host)
        host.seconds += 25


def lease_ends(host):
    """Return when the reservation of the last call, which began a while before, is over."""
    return host.called + host.asked[-1]["seconds"]


def test_a_long_run_has_the_host_for_its_length_and_an_hour(host, lease):
    lease.keep()
    lease.keep(86400)
    assert [asked["seconds"] for asked in host.asked] == [LEASE_SECONDS, 86400 + LEASE_SECONDS]


def test_a_host_that_is_away_is_reserved_once_it_is_back(host, lease):
    host.reply, there = HostGoneError("ssh: no route"), host.reply
    lease.keep()
    host.reply = there
    lease.keep()
    assert [asked["state"] for asked in host.asked] == ["reserve", "reserve"]


def test_another_who_has_the_host_ends_the_campaign_there(host, lease):
    host.refuse()
    expected = r"^bench1: is reserved by bob@lab2; the remaining runs stay planned$"
    with pytest.raises(UserError, match=expected):
        lease.keep()


def test_a_module_that_fails_is_an_error_that_names_the_host(host, lease):
    host.reply = {"failed": True, "msg": "reservation.json: cannot be read"}
    with pytest.raises(UserError, match=r"^bench1: reservation\.json: cannot be read$"):
        lease.keep()


def ended() -> str:
    return f"{process.identity(os.getpid())}0"


def test_a_campaign_of_ones_own_whose_process_ended_is_replaced(host):
    person = asking.in_the_name_of("bench1")
    host.refuse(owner=person["owner"], machine=person["machine"], campaign="old-1", process=ended())
    asking.ask(lambda asked: host.call(asking.MODULE, asked), {**person, "state": "reserve"})
    assert [asked.get("gone") for asked in host.asked] == [None, [ended()]]


def test_that_a_process_of_another_user_here_ended_is_said_and_it_is_not_replaced(host):
    person = asking.in_the_name_of("bench1")
    host.refuse(owner="eve@here", machine=person["machine"], campaign="old-1", process=ended())
    reply = asking.ask(lambda asked: host.call(asking.MODULE, asked), {**person, "state": "check"})
    assert len(host.asked) == 1
    assert reply.reason.endswith(
        f"; process {os.getpid()} of {os.uname().nodename}, which executed it, has ended"
    )


def test_of_a_process_elsewhere_nothing_is_known(host):
    host.refuse(campaign="old-1", process=f"lab2 {'2' * 16} {ended().split(' ', 2)[2]}")
    reply = asking.ask(lambda asked: host.call(asking.MODULE, asked), asking.in_the_name_of("bench1"))
    assert reply.reason == "bench1: is reserved by bob@lab2"


# --- in the loop of a host's runs


def test_no_run_is_taken_of_a_host_that_another_has(journal, host, lease):
    host.refuse()
    loop = HostLoop(journal, StopRule(), "bench1", host, reserve=lease.keep, clock=host.clock)
    with pytest.raises(UserError, match="the remaining runs stay planned"):
        loop.execute(lambda: [journal.take("bench1")], lambda runs: pytest.fail("a run was executed"))
    assert journal.counts() == {"planned": 2}


def test_a_paused_campaign_keeps_its_host(journal, host, lease):
    journal.ask(Asked.PAUSE)

    def sleep(seconds: float) -> None:
        host.seconds += seconds
        if host.seconds > 3 * RENEW_SECONDS:
            journal.ask(None)

    loop = HostLoop(journal, StopRule(), "bench1", host, reserve=lease.keep, clock=host.clock, sleep=sleep)
    loop.execute(list, lambda runs: pytest.fail("there is none"))
    assert len(host.asked) == 4


def test_a_host_that_another_has_is_set_aside(journal, host, lease):
    """Its runs can go to an equivalent host, and its kernel is left alone."""
    host.refuse()
    loop = HostLoop(journal, StopRule(), "bench1", host, reserve=lease.keep, clock=host.clock)
    with pytest.raises(HostTakenError):
        loop.execute(lambda: [journal.take("bench1")], lambda runs: pytest.fail("a run was executed"))
    assert not journal.is_at_work(["bench1"])
