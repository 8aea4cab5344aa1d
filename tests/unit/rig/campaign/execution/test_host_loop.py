# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that both executors of a host's runs use: its end, its lines, a host that is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from joulerig.analysis.results.schema import Attempt, Cause, Status
from joulerig.rig.campaign.definition import StopRule
from joulerig.rig.campaign.execution.host_channel import NOTE, HostGoneError
from joulerig.rig.campaign.execution.host_loop import HostLoop, NotBackError, keep_results
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.errors import UserError

RUNS = [
    {
        "id": str(number),
        "ordinal": number,
        "cell": f"cell-{number}",
        "drive": "fast",
        "factors": {"scheduler": f"s{number}"},
    }
    for number in (1, 2, 3)
]


class FixedJournal:
    asked = None

    def __init__(self) -> None:
        self.aside: list[str] = []

    def begin_host(self, host: str, process: str) -> None: ...

    def set_aside(self, host: str, why: str) -> None:
        self.aside.append(why)

    def run(self, run: str) -> dict[str, Any]:
        return {"status": Status.NOT_RUN}

    def size(self) -> int:
        return len(RUNS)


class Channel:
    """A channel to a host that answers after `absent` attempts."""

    def __init__(self, absent: int = 0) -> None:
        self.absent, self.lines = absent, list[str]()

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.absent:
            self.absent -= 1
            raise HostGoneError("away")
        return {}

    def reconnect(self) -> None: ...

    def say(self, text: str, mark: str = NOTE) -> None:
        self.lines.append(f"{mark}: {text}")


class Clock:
    """Seconds that pass only by sleeping."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def loop(channel: Channel, varied: Sequence[str] = (), **rule: int) -> HostLoop:
    clock = Clock()
    journal = cast(Journal, FixedJournal())
    return HostLoop(
        journal, StopRule(**rule), "bench1", channel, varied=varied, clock=clock, sleep=clock.sleep
    )


def end(status: Status, cause: Cause | None = None, reason: str = "") -> Attempt:
    return Attempt(1, 0, 1, status, cause, reason)


def refusals(*ends: Attempt, runs: Sequence[dict[str, Any]] = RUNS, varied: Sequence[str] = ()) -> int:
    """Return how many runs were executed until two alike, one after the other, ended the loop."""
    left = iter(ends)
    executed = 0

    def execute(taken: Sequence[Mapping[str, Any]]) -> Attempt:
        nonlocal executed
        executed += 1
        return next(left)

    with contextlib.suppress(UserError):
        loop(Channel(), varied, same_cause_in_a_row=2).execute(blocks(*([run] for run in runs)), execute)
    return executed


def blocks(*blocks: list[dict[str, Any]]) -> Callable[[], list[dict[str, Any]]]:
    left = iter([*blocks, []])
    return lambda: next(left)


def test_it_executes_until_nothing_is_taken_and_counts_runs_not_blocks() -> None:
    executed: list[Sequence[Mapping[str, Any]]] = []

    def execute(runs: Sequence[Mapping[str, Any]]) -> Attempt:
        executed.append(runs)
        return end(Status.OK)

    assert loop(Channel()).execute(blocks(RUNS[:2], RUNS[2:]), execute) == 3
    assert executed == [RUNS[:2], RUNS[2:]]


def test_failures_in_a_row_end_it_before_the_next_is_taken() -> None:
    taken = blocks(RUNS[:1], RUNS[1:2], RUNS[2:])
    with pytest.raises(UserError, match="bench1: stopped after 2 failed runs in a row"):
        loop(Channel(), failures_in_a_row=2).execute(taken, lambda runs: end(Status.FAILED))
    assert taken() == RUNS[2:]


BUSY = end(Status.NOT_RUN, Cause.BUSY, "another run is in progress on this host")


def test_runs_that_end_for_the_same_cause_in_a_row_end_it_and_it_says_which() -> None:
    taken = blocks(RUNS[:1], RUNS[1:2], RUNS[2:])
    with pytest.raises(UserError) as ended:
        loop(Channel(), same_cause_in_a_row=2).execute(taken, lambda runs: BUSY)
    assert str(ended.value) == (
        "bench1: stopped after 2 runs in a row that ended for the same cause"
        " (busy: another run is in progress on this host); the remaining runs stay planned"
    )
    assert taken() == RUNS[2:]


def test_five_like_ends_in_a_row_end_it_by_default() -> None:
    assert StopRule().same_cause_in_a_row == 5


@pytest.mark.parametrize(
    ("between", "executed"),
    [
        (end(Status.OK), 3),
        (end(Status.REFUSED, Cause.REFUSED, "fast: mounted"), 3),
        (end(Status.NOT_RUN, Cause.BUSY, "dpkg holds its lock"), 3),
        (BUSY, 2),
    ],
)
def test_ends_are_alike_by_cause_and_reason_and_in_a_row(between: Attempt, executed: int) -> None:
    assert refusals(BUSY, between, BUSY) == executed


def test_numbers_and_the_drive_of_a_reason_make_no_difference() -> None:
    first, second = ({**RUNS[0], "drive": drive} for drive in ("fast", "slower"))
    ends = [
        end(Status.REFUSED, Cause.REFUSED, f"{one}: held by process {len(one)}") for one in ("fast", "slower")
    ]
    assert refusals(*ends, BUSY, runs=[first, second, RUNS[2]]) == 2


UNABLE = end(Status.NOT_RUN, Cause.UNABLE, "no such scheduler")


def test_a_level_that_the_host_cannot_do_does_not_end_it() -> None:
    alike = [{**run, "factors": {"scheduler": "bfq"}} for run in RUNS]
    assert refusals(UNABLE, UNABLE, UNABLE, runs=alike, varied=["scheduler"]) == 3


def test_a_level_explains_no_other_cause() -> None:
    alike = [{**run, "factors": {"scheduler": "bfq"}} for run in RUNS]
    assert refusals(BUSY, BUSY, BUSY, runs=alike, varied=["scheduler"]) == 2


@pytest.mark.parametrize("status", [Status.REFUSED, Status.NOT_RUN])
def test_a_run_that_was_not_begun_is_no_failure_and_no_success(status: Status) -> None:
    not_begun = [end(status, Cause.REFUSED, reason) for reason in ("mounted", "swapped to")]
    left = iter([*not_begun, end(Status.FAILED), end(status), end(Status.FAILED)])
    with pytest.raises(UserError, match="stopped after 2 failed runs in a row"):
        loop(Channel(), failures_in_a_row=2).execute(lambda: RUNS[:1], lambda runs: next(left))
    assert list(left) == []


def test_what_the_host_cannot_do_whatever_the_level_ends_it() -> None:
    assert refusals(UNABLE, UNABLE, UNABLE, varied=["scheduler"]) == 2
    assert refusals(UNABLE, UNABLE, UNABLE, varied=["drive"], runs=RUNS) == 3


@pytest.mark.parametrize(
    ("detail", "reason", "line"),
    [
        ("", "", "ok: [bench1] 2/3 cell-2: ok"),
        (" cut 7", "torn", "ok: [bench1] 2/3 cell-2 cut 7: ok (torn)"),
    ],
)
def test_a_run_that_ended_is_a_line_marked_with_its_status(detail: str, reason: str, line: str) -> None:
    channel = Channel()
    loop(channel).say(RUNS[1], Status.OK, reason, detail)
    assert channel.lines == [line]


def test_a_host_that_is_given_up_is_set_aside_with_the_reason() -> None:
    given_up, journal = loop(Channel(), failures_in_a_row=1), FixedJournal()
    given_up._journal = cast(Journal, journal)
    with pytest.raises(UserError):
        given_up.execute(blocks(RUNS[:1], RUNS[1:]), lambda runs: end(Status.FAILED))
    assert journal.aside == ["bench1: stopped after 1 failed run in a row; the remaining runs stay planned"]


def test_the_hours_of_a_campaign_say_nothing_of_the_host() -> None:
    over, journal = loop(Channel(), hours=1), FixedJournal()
    over._journal = cast(Journal, journal)

    def execute(runs: Sequence[Mapping[str, Any]]) -> Attempt:
        over._sleep(3601)
        return end(Status.OK)

    with pytest.raises(UserError, match="stopped after 1 hour"):
        over.execute(blocks(RUNS[:1], RUNS[1:]), execute)
    assert journal.aside == []


def test_a_host_that_comes_back_is_waited_for() -> None:
    loop(Channel(absent=3)).await_return(60)


def test_a_host_that_stays_away_ends_the_loop() -> None:
    with pytest.raises(NotBackError, match=r"bench1: gone for 7\.5 s; its remaining runs stay planned"):
        loop(Channel(absent=100)).await_return(7.5)


def test_the_reason_why_results_are_not_kept_is_given_and_the_error_goes_on() -> None:
    given: list[tuple[str, Cause]] = []

    def keep() -> Status:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        keep_results(keep, lambda *one: given.append(one))
    assert given == [("its results could not be kept: disk full", Cause.UNRECORDED)]
