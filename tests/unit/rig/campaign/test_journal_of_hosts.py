# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal's words on hosts: whose runs come next, who is at work, what waits for what."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.analysis.results.schema import Cause, EventKind
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process
from tests.support.planned_runs import CAMPAIGN, row

HERE = process.identity(os.getpid())


def opened(folder: Path, *rows: dict[str, Any], **campaign: Any) -> Journal:
    return Journal.create(folder / "study-1", {**CAMPAIGN, **campaign}, list(rows))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """Runs of two hosts, whose drives come up in an order that is not theirs by name."""
    rows = [
        {**row(1), "drive": "slow"}, row(2, "h2"), row(3), {**row(4, "h2"), "drive": "other"},
        {**row(5), "block": 2}, {**row(6, "h2"), "block": 2},
    ]  # fmt: skip
    found = opened(tmp_path, *rows)
    yield found
    found.close()


def ids(*ordinals: int) -> list[str]:
    return [f"study-1-{one:04d}" for one in ordinals]


def details(journal: Journal, kind: EventKind) -> list[dict[str, Any]]:
    rows = journal._db.execute("SELECT detail FROM event WHERE event = ? ORDER BY seq", (kind,))
    return [json.loads(detail) for (detail,) in rows]


def test_a_hosts_drives_are_its_own_in_the_order_of_its_runs(journal):
    assert journal.drives("h1") == ["slow", "fast"]
    assert journal.drives("h2") == ["fast", "other"]


def test_a_block_is_taken_for_one_host_without_what_has_ended(journal):
    journal.race_out({ids(1)[0]: "certainly behind"}, [])
    taken = journal.take_block("h1")
    assert [run["id"] for run in taken] == ids(3)
    assert [run["id"] for run in journal.take_block("h1")] == ids(5)
    assert journal.take_block("h1") == []


# --- the next run


def test_a_run_that_began_before_comes_first(journal):
    """The one before it was planned again, and nothing of it is on the host."""
    for _ in (1, 3):
        journal.take("h1")
    journal.finish(ids(1)[0], "failed", "why", {})
    assert journal.give_back(goes_on=True) == ids(3)
    journal.retry(ids(1))
    assert journal.upcoming("h1")["id"] == ids(3)[0]
    assert [journal.take("h1")["id"] for _ in range(2)] == ids(3, 1)


def test_of_runs_that_began_before_the_first_comes_first(journal):
    for _ in (1, 3):
        journal.take("h1")
    journal.give_back(goes_on=True)
    assert [journal.take("h1")["id"] for _ in range(3)] == ids(1, 3, 5)


def test_a_run_whose_attempt_has_ended_waits_for_its_turn(journal):
    for _ in (1, 3):
        journal.take("h1")
    journal.finish(ids(3)[0], "failed", "why", {})
    journal.retry(ids(1, 3), goes_on=False)
    assert journal.upcoming("h1")["begun"] is False
    assert [journal.take("h1")["id"] for _ in range(2)] == ids(1, 3)


def test_an_attempt_that_goes_on_is_the_last_one_as_it_was(journal):
    first = journal.take("h1")
    journal.finish(first["id"], "failed", "no space", {})
    journal.retry([first["id"]])
    second = journal.take("h1")
    journal.finish(second["id"], "lost", "host gone", {})
    journal.give_back(goes_on=True)
    again = journal.take("h1")
    assert (again["begun"], again["attempt"]) == (True, 2)
    assert again["started_ns"] == second["started_ns"] == journal.run(first["id"])["started_ns"]
    attempts = journal._db.execute("SELECT number, status, cause, reason FROM attempt ORDER BY number")
    assert [tuple(one) for one in attempts] == [
        (1, "failed", "error", "no space"), (2, "running", None, ""),
    ]  # fmt: skip


def test_a_new_attempt_has_the_next_number(journal):
    run = journal.take("h1")["id"]
    for number in (2, 3):
        journal.finish(run, "failed", "why", {})
        journal.retry([run])
        taken = journal.take("h1")
        assert (taken["id"], taken["attempt"], taken["begun"]) == (run, number, False)
        assert journal.run(run)["started_ns"] == journal.last_attempt(run).started_ns


# --- who is at work


def test_runs_and_hosts_at_work_are_those_of_open_attempts(journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "failed", "why", {})
    journal.retry([run])
    journal.take("h1")
    ended = journal.take("h2")["id"]
    journal.finish(ended, "ok", "", {})
    assert [(one["id"], one["attempt"]) for one in journal.running()] == [(run, 2)]
    assert journal.hosts_at_work() == ["h1"]
    journal.finish(run, "lost", "host gone", {})
    assert (journal.running(), journal.hosts_at_work()) == ([], ["h1"])


def test_a_host_is_set_aside_until_its_runs_are_begun_again(journal):
    journal.begin_host("h1", HERE)
    journal.set_aside("h1", "gone")
    journal.set_aside("h2", "refused")
    assert journal.hosts_set_aside() == {"h1": "gone", "h2": "refused"}
    journal.begin_host("h1", HERE)
    assert journal.hosts_set_aside() == {"h2": "refused"}


def test_a_process_is_at_work_while_it_lives_and_runs_are_left(journal):
    with subprocess.Popen(["sleep", "60"]) as other:
        identity = process.identity(other.pid)
        journal.begin_host("h2", identity)
        assert journal.is_at_work(["h1", "h2"])
        assert not journal.is_at_work(["h1"])
        other.kill()
    assert not journal.is_at_work(["h1", "h2"])
    journal.begin_host("h1", HERE)
    for _ in (1, 3, 5):
        run = journal.take("h1")["id"]
        assert journal.is_at_work(["h1"])  # in its last run, too
        journal.finish(run, "ok", "", {})
    assert not journal.is_at_work(["h1"])


def test_a_host_that_is_set_aside_is_not_at_work(journal):
    journal.begin_host("h1", HERE)
    journal.set_aside("h1", "gone")
    assert not journal.is_at_work(["h1"])


def test_power_cycles_are_counted_by_host(journal):
    for host in ("h1", "h2", "h1"):
        journal.note(None, {"host": host, "number": 1}, EventKind.POWER_CYCLED)
    assert (journal.power_cycles("h1"), journal.power_cycles("h2")) == (2, 1)


# --- runs of a host that is set aside


def take_over(journal: Journal, host: str = "h1", may: str = "") -> str | None:
    taken = journal.take_over(host, lambda run: may in run["drive"], lambda host, drive: f"{host}'s {drive}")
    return taken and taken["id"]


def test_runs_of_a_host_that_is_set_aside_are_taken_over_in_order(journal):
    assert take_over(journal) is None
    journal.set_aside("h2", "gone")
    assert [take_over(journal) for _ in range(4)] == [*ids(2, 4, 6), None]
    assert {journal.run(one)["host"] for one in ids(2, 4, 6)} == {"h1"}
    assert journal.moved() == 3


def test_a_run_that_is_taken_over_keeps_its_cell_and_notes_both_serials(journal):
    before = journal.run(ids(4)[0])
    journal.set_aside("h2", "gone")
    assert take_over(journal, may="other") == ids(4)[0]
    after = journal.run(ids(4)[0])
    assert [after[key] for key in ("cell", "block", "ordinal")] == [
        before[key] for key in ("cell", "block", "ordinal")
    ]
    assert details(journal, EventKind.MOVED) == [
        {"from": "h2", "to": "h1", "serials": ["h2's other", "h1's other"]}
    ]


def test_a_host_takes_over_no_run_that_it_has(journal):
    journal.set_aside("h1", "gone")
    assert take_over(journal, "h1") is None


def test_a_run_that_its_host_may_have_an_outcome_of_stays_there(journal):
    journal.take("h2")
    journal.give_back(goes_on=True)
    journal.set_aside("h2", "gone")
    assert [take_over(journal) for _ in range(3)] == [*ids(4, 6), None]


# --- what the next runs wait for


def hold(journal: Journal, ordinal: int, condition: str, why: str) -> None:
    journal.note(ids(ordinal)[0], {"condition": condition, "why": why}, EventKind.HOLD)


def test_conditions_hold_until_they_are_noted_as_over(journal):
    hold(journal, 1, "disk", "full")
    hold(journal, 1, "meters", "silent")
    hold(journal, 2, "disk", "full")
    assert journal.held() == {"h1": ["full", "silent"], "h2": ["full"]}
    hold(journal, 1, "disk", "nearly full")
    hold(journal, 2, "disk", "")
    assert journal.held() == {"h1": ["nearly full", "silent"]}


def test_a_hold_is_over_with_the_begin_of_a_run_of_its_host(journal, monkeypatch):
    now = 1000
    monkeypatch.setattr(journal, "_now", lambda: now)
    hold(journal, 1, "disk", "full")
    journal.take("h2")
    assert journal.held() == {"h1": ["full"]}
    journal.take("h1")  # at the very instant
    assert journal.held() == {}
    now = 1001
    hold(journal, 3, "disk", "full")
    assert journal.held() == {"h1": ["full"]}
    now = 1002
    journal.take("h1")
    assert journal.held() == {}


def test_of_drives_side_by_side_each_waits_for_itself(tmp_path):
    rows = [row(1), {**row(2), "drive": "slow"}, row(3), {**row(4), "drive": "slow"}]
    journal = opened(tmp_path, *rows, definition=json.dumps({"side_by_side": True}))
    hold(journal, 1, "temperature", "fast: hot")
    hold(journal, 2, "temperature", "slow: hot")
    assert journal.held() == {"h1": ["fast: hot", "slow: hot"]}
    journal.take("h1", "fast")
    assert journal.held() == {"h1": ["slow: hot"]}
    journal.close()


# --- races


def look(race: str, number: int) -> dict[str, Any]:
    return {"race": race, "look": number, "dropped": [], "verdict": "goes on"}


def test_each_look_of_each_race_is_noted_once(journal):
    assert journal.race_out({}, [look("a", 1)]) == [look("a", 1)]
    assert journal.race_out({}, [look("a", 1), look("a", 2), look("b", 1)]) == [look("a", 2), look("b", 1)]
    assert details(journal, EventKind.LOOK) == [look("a", 1), look("a", 2), look("b", 1)]


def test_runs_that_a_race_decided_against_are_not_run(journal):
    journal.race_out(dict.fromkeys(ids(1, 3), "certainly behind"), [])
    assert journal.counts() == {"not-run": 2, "planned": 4}
    assert journal.run(ids(3)[0])["reason"] == "certainly behind"


# --- a resumption


@pytest.mark.parametrize(
    ("status", "cause", "comes_back"),
    [
        ("partial", Cause.CLOCK, True),
        ("partial", Cause.COMPLETED, False),
        ("failed", Cause.BOOTED, True),
        ("failed", Cause.ERROR, False),
        ("refused", Cause.REFUSED, True),
        ("not-run", Cause.BUSY, True),
        ("not-run", Cause.UNABLE, False),
        ("lost", Cause.HOST_GONE, True),
        ("ok", Cause.COMPLETED, False),
    ],
)
def test_what_ended_for_a_cause_that_passes_is_planned_again(journal, status, cause, comes_back):
    run = journal.take("h1")["id"]
    journal.finish(run, status, "why", {}, cause)
    assert journal.give_back() == ([run] if comes_back else [])
    assert journal.run(run)["status"] == ("planned" if comes_back else status)


def test_the_cause_of_the_last_attempt_decides(journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "failed", "why", {}, Cause.BOOTED)
    assert journal.give_back() == [run]
    journal.take("h1")
    journal.finish(run, "failed", "why", {}, Cause.ERROR)
    assert journal.give_back() == []


def test_a_run_that_an_earlier_version_lost_is_planned_again(journal):
    """It kept no cause."""
    run = journal.take("h1")["id"]
    journal.finish(run, "lost", "why", {})
    journal._db.execute("UPDATE attempt SET cause = NULL")
    assert journal.give_back() == [run]


def test_an_interrupted_attempt_ends_with_its_controller_unless_it_goes_on(journal):
    run = journal.take("h1")["id"]
    journal.give_back(goes_on=True)
    assert journal.last_attempt(run).ended_ns is None
    journal.take("h1")
    journal.give_back()
    last = journal.last_attempt(run)
    assert (last.number, last.status, last.cause) == (1, "lost", Cause.CONTROLLER)
    assert last.ended_ns


@pytest.mark.parametrize(("goes_on", "has_ended"), [(False, True), (True, False)])
def test_an_attempt_of_a_host_that_is_gone_ends_where_its_run_is_tried_again(journal, goes_on, has_ended):
    run = journal.take("h1")["id"]
    journal.finish(run, "lost", "host gone", {})
    assert journal.last_attempt(run).ended_ns is None
    journal.retry([run], goes_on=goes_on)
    last = journal.last_attempt(run)
    assert (last.ended_ns is not None, last.cause) == (has_ended, Cause.HOST_GONE)


def test_attempts_that_have_ended_end_once(journal, monkeypatch):
    run = journal.take("h1")["id"]
    journal.finish(run, "failed", "why", {})
    ended = journal.last_attempt(run).ended_ns
    journal.retry([run])
    journal.take("h1")
    journal.give_back()
    first, last = (
        tuple(one)
        for one in journal._db.execute("SELECT status, cause, ended_ns FROM attempt ORDER BY number")
    )
    assert (first, last[:2]) == (("failed", "error", ended), ("lost", "controller"))


def test_only_the_last_attempt_at_a_run_ends_with_it(journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "failed", "no space", {})
    journal.retry([run])
    journal.take("h1")
    journal.finish(run, "ok", "", {})
    attempts = journal._db.execute("SELECT status, cause, reason FROM attempt ORDER BY number")
    assert [tuple(one) for one in attempts] == [("failed", "error", "no space"), ("ok", "completed", "")]
    assert journal.last_attempts()[run] == journal.last_attempt(run)
    assert journal.last_attempt(run).number == 2


@pytest.mark.parametrize(
    ("status", "cause", "has_end"),
    [
        ("lost", None, False),
        ("failed", Cause.HOST_GONE, False),
        ("lost", Cause.BOOTED, True),
        ("ok", None, True),
    ],
)
def test_an_attempt_has_no_end_while_its_host_is_gone(journal, status, cause, has_end):
    run = journal.take("h1")["id"]
    journal.finish(run, status, "why", {}, cause)
    last = journal.last_attempt(run)
    assert (last.ended_ns is not None, last.reason) == (has_end, "why")
    assert journal.run(run)["ended_ns"]


PHASE = {"start_ns": 1, "end_ns": 2, "clock_offset_ns": 0, "clock_error_ns": 0, "slowness": 1.0}


def test_of_a_run_that_is_planned_again_nothing_stays_but_its_attempts(journal):
    first, other = journal.take("h1")["id"], journal.take("h2")["id"]
    for run in (first, other):
        journal.finish(run, "failed", "why", {"phase": [{"phase": "idle", **PHASE}]})
    journal.plan_again(first, "retry 1 of 3")
    found = journal.run(first)
    assert [found[key] for key in ("status", "reason", "started_ns", "ended_ns")] == [
        "planned",
        "",
        None,
        None,
    ]
    assert (journal.rows("phase", first), len(journal.rows("phase", other))) == ([], 1)
    assert details(journal, EventKind.RESUMED) == [{"was": "failed", "by": "retry 1 of 3"}]
    assert journal.last_attempt(first).number == 1


def test_a_campaign_is_finished_until_runs_are_given_back_or_tried_again(journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "failed", "why", {})
    journal.conclude()
    assert journal.give_back() == []
    assert journal.campaign["finished_ns"]
    journal.retry([])
    assert journal.campaign["finished_ns"]
    journal.retry([run])
    assert journal.campaign["finished_ns"] is None


# --- what arrives later


RESULT = {"joules": 1.5, "true_joules": None, "error_percent": None, "mean_watts": 1.0}


def test_what_arrived_later_takes_the_place_of_a_partial_runs_results(journal):
    run = journal.take("h1")["id"]
    journal.finish(run, "partial", "no energy", {"result": [{**RESULT, "joules": None}]})
    journal.settle(run, "ok", "", {"result": [RESULT]})
    assert [one["joules"] for one in journal.rows("result", run)] == [1.5]
    assert (journal.run(run)["status"], journal.last_attempt(run).status) == ("ok", "ok")
    assert journal.last_attempt(run).reason == ""
    assert details(journal, EventKind.SETTLED) == [{"from": "partial", "to": "ok", "reason": ""}]


@pytest.mark.parametrize(("was", "becomes"), [("failed", "ok"), ("partial", "failed"), ("lost", "partial")])
def test_what_arrived_later_makes_nothing_of_a_run_that_did_not_work(journal, was, becomes):
    run = journal.take("h1")["id"]
    journal.finish(run, was, "why", {})
    with pytest.raises(ValueError, match=f"{was} cannot become {becomes} by what arrived later"):
        journal.settle(run, becomes, "", {})
    assert journal.run(run)["status"] == was


# --- what a person asks


def test_what_is_asked_and_by_whom_is_noted_until_it_goes_on(journal):
    journal.ask("pause", "a person")
    assert journal.asked == "pause"
    journal.ask(None)
    assert journal.asked is None
    journal.note_asked("stop", "another")
    assert journal.asked is None
    assert details(journal, EventKind.ASKED) == [
        {"to": "pause", "by": "a person"}, {"to": "go on"}, {"to": "stop", "by": "another"},
    ]  # fmt: skip
