# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that both executors of a host's runs use: its end, its lines, a host that is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign.definition import StopRule
from joulerig.rig.campaign.execution.host_channel import NOTE, HostGoneError
from joulerig.rig.campaign.execution.host_loop import HostLoop, NotBackError, results_kept
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.errors import UserError

RUNS = [{"ordinal": number, "cell": f"cell-{number}"} for number in (1, 2, 3)]


class FixedJournal:
    asked = None

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


def loop(channel: Channel, failures_in_a_row: int = 5) -> HostLoop:
    clock = Clock()
    rule = StopRule(failures_in_a_row=failures_in_a_row)
    journal = cast(Journal, FixedJournal())
    return HostLoop(journal, rule, "bench1", channel, clock=clock, sleep=clock.sleep)


def blocks(*blocks: list[dict[str, Any]]) -> Callable[[], list[dict[str, Any]]]:
    left = iter([*blocks, []])
    return lambda: next(left)


def test_it_executes_until_nothing_is_taken_and_counts_runs_not_blocks() -> None:
    executed: list[Sequence[Mapping[str, Any]]] = []

    def execute(runs: Sequence[Mapping[str, Any]]) -> Status:
        executed.append(runs)
        return Status.OK

    assert loop(Channel()).execute(blocks(RUNS[:2], RUNS[2:]), execute) == 3
    assert executed == [RUNS[:2], RUNS[2:]]


def test_failures_in_a_row_end_it_before_the_next_is_taken() -> None:
    taken = blocks(RUNS[:1], RUNS[1:2], RUNS[2:])
    with pytest.raises(UserError, match="bench1: stopped after 2 failed runs in a row"):
        loop(Channel(), 2).execute(taken, lambda runs: Status.FAILED)
    assert taken() == RUNS[2:]


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


def test_a_host_that_comes_back_is_waited_for() -> None:
    loop(Channel(absent=3)).await_return(60)


def test_a_host_that_stays_away_ends_the_loop() -> None:
    with pytest.raises(NotBackError, match=r"bench1: gone for 7\.5 s; its remaining runs stay planned"):
        loop(Channel(absent=100)).await_return(7.5)


def test_the_reason_why_results_are_not_kept_is_given_and_the_error_goes_on() -> None:
    reasons: list[str] = []
    with pytest.raises(OSError, match="disk full"), results_kept(reasons.append):
        raise OSError("disk full")
    assert reasons == ["its results could not be kept: disk full"]
