# SPDX-License-Identifier: GPL-3.0-or-later
"""What all executors of one host's runs share: the loop, the lines for the user, the lost host."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from joulerig.analysis.results.schema import (
    WORKED,
    Asked,
    Attempt,
    Cause,
    EventKind,
    Status,
    is_control,
)
from joulerig.plural import counted
from joulerig.rig.campaign.definition import StopRule
from joulerig.rig.campaign.execution import host_channel
from joulerig.rig.campaign.execution.holds import Condition, Holds
from joulerig.rig.campaign.execution.host_channel import HostChannel
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.lanes.gate import Gate
from joulerig.rig.campaign.policies.failures import Action, Failures
from joulerig.rig.common import process
from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError

Run = Mapping[str, Any]
Taken = TypeVar("Taken")
Kept = TypeVar("Kept")
# Errors that data of another shape than expected raise in a reader, and in the journal.
ODD_SHAPE = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError),
)
LOOK_SECONDS = 2.0  # between looks whether a pause is over


class SetAsideError(UserError):
    """No further run is begun on the host; those of other hosts are."""


class NotBackError(SetAsideError):
    """The host did not come back: nothing more can be done with it."""


class GivenUpError(SetAsideError):
    """The stop rule gives up the runs that it counted."""


class ClosedError(UserError):
    """Something ended the host's other lanes, and this one with them."""


class HostTakenError(SetAsideError):
    """Another has the host, or ended the campaign's reservation of it."""


@dataclass(frozen=True)
class Lane:
    """A drive of a host whose runs go alongside those of others, as the gate lets them in."""

    drive: str
    gate: Gate


@contextmanager
def executing(journal: Journal, host: str) -> Iterator[None]:
    """Note that the body executes a host's runs, and that it sets the host aside, if it does."""
    journal.begin_host(host, process.identity(os.getpid()))
    try:
        yield
    except SetAsideError as error:
        journal.set_aside(host, str(error))
        raise


class HostLoop:
    """The runs of one host of a campaign, or of one of its lanes, taken one after the other.

    `varied`: the factors of which the campaign has several levels. `on_failure`: its policies by
    cause. `may_come`: whether runs of other hosts may still become this one's. `holds`: what the
    next run waits for; one that its host has begun already waits for nothing. `reserve`: has the
    host for the campaign, and raises HostTakenError where another has it. `lane`: whose runs they
    are; None: all of the host's. `clock` and `sleep` are time.monotonic and time.sleep.
    """

    def __init__(
        self,
        journal: Journal,
        rule: StopRule,
        host: str,
        channel: HostChannel,
        *,
        varied: Collection[str] = (),
        on_failure: Mapping[str, str] = {},
        may_come: Callable[[], bool] = lambda: False,
        holds: Sequence[Condition] = (),
        reserve: Callable[[], None] = lambda: None,
        lane: Lane | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lane, self._drive = lane, lane.drive if lane else None
        self._holds = Holds(holds, self._note_hold, clock=clock, sleep=self._wait) if holds else None
        self._reserve = reserve
        self._journal, self._rule, self._host, self._channel = journal, rule, host, channel
        self._varied, self._clock, self._sleep = varied, clock, sleep
        self._failures, self._may_come = Failures(on_failure), may_come

    def execute(self, take: Callable[[], Sequence[Run]], execute: Callable[[Sequence[Run]], Attempt]) -> int:
        """Execute what `take` gives, together, until it gives nothing; return the number of runs.

        `execute` returns the attempt that counts for the campaign's stop rule and policies. Raises
        UserError where these end the campaign.
        """
        if self._lane:  # the host is noted for all of its lanes
            return self._execute(take, execute)
        with executing(self._journal, self._host):
            return self._execute(take, execute)

    def _execute(self, take: Callable[[], Sequence[Run]], execute: Callable[[Sequence[Run]], Attempt]) -> int:
        of = f"{self._host}, {self._drive}" if self._drive else self._host
        stopping = Stopping(self._rule, of, self._clock, self._varied)
        done = 0
        while runs := stopping.next(partial(self._take, take)):
            try:
                end = execute(runs)
            finally:
                self._leave()
            stopping.count(runs[0], end)
            self._follow(runs[0], end)
            done += len(runs)
        return done

    def _follow(self, run: Run, end: Attempt) -> None:
        """Do what the campaign's policies say of an attempt that ended. Raises UserError."""
        if end.cause in (None, Cause.COMPLETED):
            return
        if self._journal.asked == Asked.STOP or self._journal.run(run["id"])["status"] == Status.PLANNED:
            return  # a person decided, or a resumption
        decision = self._failures.decide(run["id"], end.cause)
        why = f"run {run['ordinal']} ended ({decision.shown})"
        if decision.action == Action.RETRY:
            self._journal.plan_again(run["id"], decision.shown)
            self._channel.say(f"[{self._host}] {why}: it is attempted again")
            self._pause(decision.pause_seconds)
        elif decision.action == Action.HOLD:
            raise SetAsideError(f"{self._host}: set aside, {why}; the remaining runs stay planned")
        elif decision.action == Action.STOP:
            self._journal.ask(Asked.STOP)
            raise UserError(f"{self._host}: {why}; the campaign stops, and the remaining runs stay planned")

    def _pause(self, seconds: float) -> None:
        end = self._clock() + seconds
        while self._clock() < end and self._journal.asked != Asked.STOP and not self._is_closed():
            self._wait(LOOK_SECONDS)

    def _take(self, take: Callable[[], Sequence[Run]]) -> Sequence[Run]:
        """Take runs once the campaign is not paused.

        Where none is left, wait for those of other hosts that may still come. Raises UserError
        where it is stopped, or another has the host.
        """
        waits = False
        while True:
            self._await_asked()
            self._wait_for_conditions()
            if not self._enter():
                continue
            self._reserve()
            if self._is_interrupted():
                self._leave()
                continue
            may_come = self._may_come()  # before: what comes in between is taken then
            if (runs := take()) or not may_come:
                return runs
            if not waits:
                self._channel.say(f"[{self._host}] done; it waits for runs of hosts that are set aside")
                waits = True
            self._wait(LOOK_SECONDS)

    def _await_asked(self) -> None:
        """Wait until the campaign is not paused. Raises UserError where it is stopped."""
        said = False
        self._raise_if_closed()
        while asked := self._journal.asked:
            if asked == Asked.STOP:
                raise UserError(f"{self._host}: stopped by 'rig stop'; the remaining runs stay planned")
            if not said:
                self._channel.say(f"[{self._host}] paused; 'rig pause --off' goes on")
                said = True
            self._wait(LOOK_SECONDS)
            self._raise_if_closed()

    def _wait_for_conditions(self) -> None:
        """Wait for what the next run is held for, unless its host has begun it already."""
        run = self._journal.upcoming(self._host, self._drive) if self._holds else None
        if self._holds and run and not run["begun"]:
            self._holds.wait(
                run, lambda text: self._channel.say(f"[{self._host}] {text}"), self._is_interrupted
            )

    def _is_interrupted(self) -> bool:
        """Return whether no run is to begin now."""
        return self._journal.asked is not None or self._is_closed()

    def _is_closed(self) -> bool:
        return self._lane is not None and self._lane.gate.closed

    def _raise_if_closed(self) -> None:
        if self._is_closed():
            raise ClosedError(f"{self._host}: another drive's runs ended; the remaining runs stay planned")

    def _enter(self) -> bool:
        """Wait until the lane may begin its next run; return whether it may.

        It may not where the campaign is paused or stopped meanwhile. What the run is held for is
        looked at again after a wait.
        """
        if self._lane is None or (run := self._journal.upcoming(self._host, self._drive)) is None:
            return True
        waited = False
        while not self._lane.gate.enter(self._lane.drive, alone=is_control(run["factors"])):
            if self._is_interrupted():
                self._leave()
                return False
            waited = True
            self._wait(LOOK_SECONDS)
        if waited:
            self._wait_for_conditions()
        return True

    def _leave(self) -> None:
        if self._lane:
            self._lane.gate.leave(self._lane.drive)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the host without other lanes while the body is executed, in a run of this one."""
        if self._lane is None or self._lane.gate.is_alone(self._lane.drive):
            yield
            return
        self._change(alone=True)
        try:
            yield
        finally:
            self._change(alone=False)

    def _change(self, *, alone: bool) -> None:
        assert self._lane is not None
        self._leave()
        while not self._lane.gate.enter(self._lane.drive, alone=alone):
            self._wait(LOOK_SECONDS)

    def _note_hold(self, run: Run, condition: str, why: str) -> None:
        self._journal.note(run["id"], {"condition": condition, "why": why}, EventKind.HOLD)

    def _wait(self, seconds: float) -> None:
        """Sleep, and keep the host meanwhile."""
        self._sleep(seconds)
        self._reserve()

    def say(self, run: Run, status: str, reason: str, detail: str = "") -> None:
        """Show the user the status of a run that ended."""
        of = f"{run['ordinal']}/{self._journal.size()}"
        text = f"[{self._host}] {of} {run['cell']}{detail}: {status}"
        self._channel.say(text + (f" ({reason})" if reason else ""), status)

    def await_return(self, seconds: float) -> None:
        """Wait until the host answers. Raises NotBackError after `seconds`."""
        if not host_channel.returns(self._channel, seconds, self._clock, self._sleep):
            raise self.not_back(seconds)

    def not_back(self, seconds: float) -> NotBackError:
        """Return the error of a host that stayed away."""
        return NotBackError(
            f"{self._host}: gone for {seconds:g} s; its remaining runs stay planned; resume the campaign"
        )


class Stopping:
    """Counts failures and like ends in a row, and hours, against a campaign's stop rule."""

    def __init__(
        self, rule: StopRule, host: str, clock: Callable[[], float], varied: Collection[str] = ()
    ) -> None:
        self._rule, self._host, self._clock = rule, host, clock
        self._began, self._failures = clock(), 0
        self._alike = AlikeEnds(varied)

    def next(self, take: Callable[[], Taken]) -> Taken:
        """Return what `take` returns. Raises UserError where the rule ends the campaign first."""
        if self._failures >= self._rule.failures_in_a_row:
            raise GivenUpError(
                f"{self._host}: stopped after {counted(self._failures, 'failed run')} in a row;"
                " the remaining runs stay planned"
            )
        if self._alike.count >= self._rule.same_cause_in_a_row:
            raise GivenUpError(
                f"{self._host}: stopped after {counted(self._alike.count, 'run')} in a row that ended for the"
                f" same cause ({self._alike.shown}); the remaining runs stay planned"
            )
        if self._rule.hours and self._clock() - self._began > self._rule.hours * 3600:
            raise UserError(
                f"{self._host}: stopped after {counted(self._rule.hours, 'hour')};"
                " the remaining runs stay planned"
            )
        return take()

    def count(self, run: Run, end: Attempt) -> None:
        """Count a run that ended; one that was not begun is no failure, nor a success."""
        if end.status not in (Status.REFUSED, Status.NOT_RUN):
            self._failures = 0 if end.status in WORKED else self._failures + 1
        self._alike.add(run, end)


class AlikeEnds:
    """Runs in a row that did not work for the same cause, with the same kind of reason.

    `varied`: the factors of which the campaign has several levels. A level that the host cannot do
    ends all of its runs alike, and says nothing about those of other levels.
    """

    def __init__(self, varied: Collection[str]) -> None:
        self._varied, self._number = varied, 0
        self._kind: tuple[str | None, str] | None = None
        self._in_common: set[tuple[str, str]] = set()
        self.shown = ""

    @property
    def count(self) -> int:
        """Return how many there were; 0 where a level that they have in common explains them."""
        of_a_level = self._kind is not None and self._kind[0] == Cause.UNABLE and self._in_common
        return 0 if of_a_level else self._number

    def add(self, run: Run, end: Attempt) -> None:
        """Count a run that ended."""
        if end.status in WORKED:
            self._kind, self._number = None, 0
            return
        levels = {"drive": run["drive"], **run["factors"]}
        varied = {(name, str(levels[name])) for name in self._varied if name in levels}
        kind = end.cause, _kind_of_reason(end.reason, run["drive"])
        if kind == self._kind:
            self._number, self._in_common = self._number + 1, self._in_common & varied
        else:
            self._kind, self._number, self._in_common = kind, 1, varied
        self.shown = ": ".join(filter(None, (end.cause or end.status, end.reason)))


def _kind_of_reason(reason: str, drive: str) -> str:
    """Return a reason without what differs from one run to the next: numbers, the drive's name."""
    return re.sub(r"0x[0-9a-f]+|\d+", "#", reason.replace(drive, "*"))


def keep_results(keep: Callable[[], Kept], fail: Callable[[str, Cause], None]) -> Kept | None:
    """Return what `keep` returns, which keeps a run's results.

    None where they have a shape that it can't read: the run failed, and the next one may begin.
    Where they can't be written, the next run's can't either: `fail` gets the reason, and the error
    is raised.
    """
    try:
        return keep()
    except ODD_SHAPE as error:
        fail(f"its results cannot be read: {type(error).__name__}: {one_line(error)}", Cause.ERROR)
        return None
    except Exception as error:
        fail(f"its results could not be kept: {one_line(error)}", Cause.UNRECORDED)
        raise
