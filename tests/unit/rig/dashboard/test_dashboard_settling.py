# SPDX-License-Identifier: GPL-3.0-or-later
"""The page's view of drives in preconditioning: steps, rounds, and the time left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from joulerig.rig.dashboard.campaign import eta, state
from joulerig.rig.dashboard.campaign.journal import Journal
from joulerig.rig.dashboard.feed import Rounds
from tests.support.dashboard_journal import WritableJournal

SECOND = 1_000_000_000
T0 = 1_794_600_000 * SECOND
BEGUN = {"precondition": "begun", "why": "never", "at_most_seconds": 100.0, "at_most_rounds": 8}
ENDED = {"precondition": "ended", "steady": True, "reason": "steady at round 5"}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[WritableJournal]:
    journal = WritableJournal(tmp_path, "demo-20261113-120000", T0)
    yield journal
    journal.close()


def state_message(journal: WritableJournal, now_ns: int) -> dict[str, Any]:
    reader = Journal(journal.folder / "journal.sqlite")
    try:
        content = reader.read()
        assert content
        return state.campaign(content, now_ns)
    finally:
        reader.close()


def time_ns(seconds: float) -> int:
    return T0 + int(seconds * SECOND)


def test_a_run_reports_that_its_drive_is_on_its_way(journal: WritableJournal):
    run, *_ = journal.plan()
    journal.begin(run, time_ns(0))
    journal.event("preconditioning", time_ns(1), run, **BEGUN)
    message = state_message(journal, time_ns(11))
    expected = {"began_ns": time_ns(1), "ended_ns": None, "at_most_seconds": 100.0, "at_most_rounds": 8}
    assert message["hosts"][0]["run"]["settling"] == expected
    assert message["settling_phases"] == ("purge", "passes", "rounds")
    assert (message["eta_at_most"], message["eta_ns"]) == (True, None)  # no run has been measured yet


@pytest.mark.parametrize("last", [ENDED, {"precondition": "reused", "why": "as it was left"}])
def test_a_run_whose_drive_is_ready_reports_nothing(journal: WritableJournal, last: dict[str, Any]):
    run, *_ = journal.plan()
    journal.begin(run, time_ns(0))
    if last is ENDED:
        journal.event("preconditioning", time_ns(1), run, **BEGUN)
    journal.event("preconditioning", time_ns(50), run, **last)
    message = state_message(journal, time_ns(60))
    assert message["hosts"][0]["run"]["settling"] is None
    assert not message["eta_at_most"]


def test_other_notes_are_none(journal: WritableJournal):
    run, *_ = journal.plan()
    journal.begin(run, time_ns(0))
    journal.event("note", time_ns(1), run, waveforms="recorded")
    assert state_message(journal, time_ns(2))["hosts"][0]["run"]["settling"] is None


def test_a_run_that_is_over_is_not_settling_whatever_its_notes_say(journal: WritableJournal):
    run, *_ = journal.plan()
    journal.begin(run, time_ns(0))
    journal.event("preconditioning", time_ns(1), run, **BEGUN)
    journal.end(run, time_ns(5), "failed", "precondition: blkdiscard: exit 1")
    assert not state_message(journal, time_ns(6))["eta_at_most"]


def a_run(name: str, status: str, start: float | None = None, end: float | None = None) -> dict[str, Any]:
    return {
        "id": name,
        "host": "vhost1",
        "workload": "randwrite",
        "status": status,
        "started_ns": None if start is None else time_ns(start),
        "ended_ns": None if end is None else time_ns(end),
        "slow_seconds": 0.0,
    }


def settled(began: float, ended: float | None, at_most: float = 100.0) -> dict[str, Any]:
    return {"began_ns": time_ns(began), "ended_ns": ended and time_ns(ended), "at_most_seconds": at_most}


@pytest.mark.parametrize(
    ("runs", "settlings", "now", "left"),
    [
        pytest.param(
            [a_run("a", "ok", 0, 130), a_run("b", "planned")],
            {"a": settled(0, 100)},
            130,
            30,
            id="a precondition is in no run's time",
        ),
        pytest.param(
            [a_run("a", "ok", 0, 30), a_run("b", "running", 30)],
            {"b": settled(30, None)},
            70,
            60 + 30,
            id="one on its way takes as long as it may, and its run comes after",
        ),
        pytest.param(
            [a_run("a", "ok", 0, 30), a_run("b", "running", 30)],
            {"b": settled(30, None)},
            200,
            30,
            id="one that takes longer than it may is as good as over",
        ),
        pytest.param(
            [a_run("a", "ok", 0, 30), a_run("b", "running", 30)],
            {"b": settled(30, 110)},
            120,
            20,
            id="after it the run has only begun",
        ),
    ],
)
def test_time_left(runs, settlings, now, left):
    assert eta.remaining_seconds(runs, time_ns(now), settlings) == pytest.approx(left)


class Answers:
    """InfluxDB as far as `Rounds` asks it; counts questions for power."""

    def __init__(self, rounds: list[dict[str, Any]], watts: list[float]) -> None:
        self.rounds, self.watts, self.asked = rounds, watts, 0

    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame:
        if "FROM precondition" in influxql:
            return pl.DataFrame(self.rounds)
        self.asked += 1
        return pl.DataFrame({"watts": self.watts}) if self.watts else pl.DataFrame()


def point(number: int, **more: Any) -> dict[str, Any]:
    times = {"start_ns": time_ns(10 * number), "end_ns": time_ns(10 * number + 2)}
    return {"host": "vhost1", "drive": "nvme-plp", "number": number, "ops": 4000, **times, **more}


def test_a_round_has_its_operations_a_second_and_the_watts_of_all_rails():
    rounds = Rounds()
    rounds.poll(Answers([point(2), point(1)], [3.0, 1.25]), ["a"])
    assert rounds.by_run == {
        "a": [{"number": n, "iops": 2000.0, "watts": pytest.approx(4.25)} for n in (1, 2)],
    }


def test_only_missing_watts_are_queried_again():
    rounds, answers = Rounds(), Answers([point(1)], [])
    rounds.poll(answers, ["a"])
    assert rounds.by_run["a"][0]["watts"] is None
    answers.watts = [4.0]
    for _ in range(3):
        rounds.poll(answers, ["a"])
    assert rounds.by_run["a"][0]["watts"] == 4.0
    assert answers.asked == 2


def test_a_run_that_no_longer_settles_is_forgotten():
    rounds = Rounds()
    rounds.poll(Answers([point(1)], [4.0]), ["a"])
    rounds.poll(Answers([], []), [])
    assert rounds.by_run == {}
