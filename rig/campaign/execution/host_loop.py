# SPDX-License-Identifier: GPL-3.0-or-later
"""What all executors of one host's runs share: the loop, the lines for the user, the lost host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from joulerig.analysis.results.schema import WORKED, Asked, Status
from joulerig.plural import counted
from joulerig.rig.campaign.definition import StopRule
from joulerig.rig.campaign.execution import host_channel
from joulerig.rig.campaign.execution.holds import Condition, Holds
from joulerig.rig.campaign.execution.host_channel import HostChannel
from joulerig.rig.campaign.execution.outcome import one_line
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.errors import UserError

Run = Mapping[str, Any]
Taken = TypeVar("Taken")
LOOK_SECONDS = 2.0  # between looks whether a pause is over


class NotBackError(UserError):
    """The host did not come back: nothing more can be done with it."""


class HostLoop:
    """The runs of one host of a campaign, taken one after the other.

    `holds`: what the next run waits for.
    `clock` and `sleep` are time.monotonic and time.sleep.
    """

    def __init__(
        self,
        journal: Journal,
        rule: StopRule,
        host: str,
        channel: HostChannel,
        *,
        holds: Sequence[Condition] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._holds = Holds(holds, clock=clock, sleep=sleep)
        self._journal, self._rule, self._host, self._channel = journal, rule, host, channel
        self._clock, self._sleep = clock, sleep

    def execute(self, take: Callable[[], Sequence[Run]], execute: Callable[[Sequence[Run]], Status]) -> int:
        """Execute what `take` gives, together, until it gives nothing; return the number of runs.

        `execute` returns the status that counts for the campaign's stop rule. Raises UserError
        where that rule ends the campaign.
        """
        stopping = Stopping(self._rule, self._host, self._clock)
        done = 0
        while runs := stopping.next(partial(self._take, take)):
            stopping.count(execute(runs))
            done += len(runs)
        return done

    def _take(self, take: Callable[[], Sequence[Run]]) -> Sequence[Run]:
        """Take runs once the campaign is not paused. Raises UserError where it is stopped."""
        said = False
        while asked := self._journal.asked:
            if asked == Asked.STOP:
                raise UserError(f"{self._host}: stopped by 'rig stop'; the remaining runs stay planned")
            if not said:
                self._channel.say(f"[{self._host}] paused; 'rig pause --off' goes on")
                said = True
            self._sleep(LOOK_SECONDS)
        self._holds.wait(
            lambda text: self._channel.say(f"[{self._host}] {text}"), lambda: self._journal.asked is not None
        )
        return take() if self._journal.asked is None else self._take(take)

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
    """Counts failures in a row, and hours since it was made, against a campaign's stop rule."""

    def __init__(self, rule: StopRule, host: str, clock: Callable[[], float]) -> None:
        self._rule, self._host, self._clock = rule, host, clock
        self._began, self._failures = clock(), 0

    def next(self, take: Callable[[], Taken]) -> Taken:
        """Return what `take` returns. Raises UserError where the rule ends the campaign first."""
        if self._failures >= self._rule.failures_in_a_row:
            raise UserError(
                f"{self._host}: stopped after {counted(self._failures, 'failed run')} in a row;"
                " the remaining runs stay planned"
            )
        if self._rule.hours and self._clock() - self._began > self._rule.hours * 3600:
            raise UserError(
                f"{self._host}: stopped after {counted(self._rule.hours, 'hour')};"
                " the remaining runs stay planned"
            )
        return take()

    def count(self, status: str) -> None:
        """Count a run that ended. One that was not begun says nothing about the next."""
        if status not in (Status.REFUSED, Status.NOT_RUN):
            self._failures = 0 if status in WORKED else self._failures + 1


@contextmanager
def results_kept(fail: Callable[[str], None]) -> Iterator[None]:
    """Give `fail` the reason where the body cannot keep a run's results, and raise its error."""
    try:
        yield
    except Exception as error:
        fail(f"its results could not be kept: {one_line(error)}")
        raise
