# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a host's runs in lanes, a thread for each drive."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence

from joulerig.analysis.results.schema import is_control
from joulerig.rig.campaign.execution import host_loop
from joulerig.rig.campaign.execution.detached_calls import DetachedCalls
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.execution.holds import Condition
from joulerig.rig.campaign.execution.host_channel import FencedChannel, HostChannel
from joulerig.rig.campaign.execution.host_loop import ClosedError, GivenUpError, Lane, SetAsideError
from joulerig.rig.campaign.execution.side_by_side.turn import LaneChannel, Turn
from joulerig.rig.campaign.lanes.gate import Gate
from joulerig.rig.campaign.opening import OpenCampaign


class LanesExecutor:
    """Executes the planned runs of one host of a campaign, those of its drives at the same time.

    Parameters are those of `Executor`. A drive that the stop rule gives up leaves the others going;
    whatever else ends a lane ends the others after what they are in.
    """

    def __init__(
        self,
        campaign: OpenCampaign,
        host: str,
        channel: HostChannel,
        *,
        holds: Sequence[Condition] = (),
        reserve: Callable[[float], None] = lambda seconds: None,
        publish: Callable[[str], None] = lambda run: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._campaign, self._host, self._channel = campaign, host, channel
        self._holds, self._reserve, self._publish = holds, reserve, publish
        self._clock, self._sleep = clock, sleep
        self._gate, self._turn = Gate(), Turn()
        fenced = FencedChannel(channel, campaign.journal.raise_if_taken_over)
        self._calls = DetachedCalls(fenced, 0.0, clock, sleep)
        self._done: dict[str, int] = {}
        self._errors: dict[str, BaseException] = {}

    def execute(self) -> int:
        """Execute runs until none is planned; return how many there were.

        Raises UserError as `Executor` does.
        """
        journal = self._campaign.journal
        with host_loop.executing(journal, self._host):
            self._execute(journal.drives(self._host))
            if (error := self._first_error()) is not None:
                raise error
        self._calls.forget(journal.campaign["id"])
        return sum(self._done.values())

    def _execute(self, drives: Sequence[str]) -> None:
        upcoming = {drive: self._campaign.journal.upcoming(self._host, drive) for drive in drives}
        begun = {drive: run for drive, run in upcoming.items() if run and run["begun"]}
        for drive, run in begun.items():
            self._gate.let_in(drive, alone=is_control(run["factors"]))
        if not begun:
            self._reserve(0.0)
            self._executor(self._channel).start_own_kernel()
        self._turn.take()  # until all threads are there, which then have their turns in this order
        threads = [self._thread(drive, self._turn.ask()) for drive in drives]
        for thread in threads:
            thread.start()
        self._turn.give()
        for thread in threads:
            thread.join()

    def _thread(self, drive: str, ticket: object) -> threading.Thread:
        context = contextvars.copy_context()  # Ansible keeps there which task it is in
        channel = LaneChannel(self._channel.another(), self._turn)
        return threading.Thread(
            target=context.run, args=(self._execute_lane, drive, channel, ticket), name=drive, daemon=True
        )

    def _execute_lane(self, drive: str, channel: HostChannel, ticket: object) -> None:
        self._turn.await_turn(ticket)
        try:
            executor = self._executor(channel, Lane(drive, self._gate), self._sleep_meanwhile)
            self._done[drive] = executor.execute()
        except GivenUpError as error:
            self._errors[drive] = error
            channel.say(str(error))
        except BaseException as error:  # raised again by the thread that waits for all of them
            self._errors[drive] = error
            self._gate.closed = True
        finally:
            self._gate.leave(drive)
            self._turn.give()

    def _executor(
        self,
        channel: HostChannel,
        lane: Lane | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> Executor:
        return Executor(
            self._campaign,
            self._host,
            channel,
            {},
            holds=self._holds,
            reserve=self._reserve,
            publish=self._publish,
            clock=self._clock,
            sleep=sleep or self._sleep,
            lane=lane,
        )

    def _sleep_meanwhile(self, seconds: float) -> None:
        self._turn.during(lambda: self._sleep(seconds))

    def _first_error(self) -> BaseException | None:
        """Return the error that ended the lanes; those of given-up drives as one."""
        for error in self._errors.values():
            if not isinstance(error, GivenUpError | ClosedError):
                return error
        given_up = [str(error) for error in self._errors.values() if isinstance(error, GivenUpError)]
        return SetAsideError("; ".join(given_up)) if given_up else None
