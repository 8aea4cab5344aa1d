# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that their host executes on its own: a broken connection breaks nothing but the waiting.

A call has a name. Made again, after a connection broke or by another controller's process, it finds
what it began, or the outcome of that (ansible/module_utils/joulerig/detached/calls.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from joulerig.rig.campaign.execution import host_channel
from joulerig.rig.campaign.execution.host_channel import HostChannel, HostGoneError, StayedAwayError
from joulerig.rig.campaign.execution.outcome import failure
from joulerig.rig.common.bounded import one_line

ABSENT = "absent"  # status of a call that the host does not know
BREAKS_IN_A_ROW = 10  # of a connection to a host that answers
DEATHS_IN_A_ROW = 3  # of the module that waits; more often, it is the module's own fault


class DetachedCalls:
    """Makes detached calls of one host.

    `return_seconds`: how long the host may be away when nothing is known to run on it. `clock` and
    `sleep` are time.monotonic and time.sleep.
    """

    def __init__(
        self,
        channel: HostChannel,
        return_seconds: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._channel, self._return_seconds = channel, return_seconds
        self._clock, self._sleep = clock, sleep
        self._collected: list[str] = []

    def perform(
        self, name: str, module: str, arguments: Mapping[str, Any], seconds: float
    ) -> Mapping[str, Any]:
        """Return the reply of the call `name`, begun unless the host knows it.

        `seconds`: how long it takes at least. So long, and `return_seconds` after that, a host that
        cannot be reached is waited for. Raises StayedAwayError then.
        """
        return self._ask(name, module, {**arguments, "begin": True}, seconds)

    def collect(
        self, name: str, module: str, arguments: Mapping[str, Any], seconds: float
    ) -> Mapping[str, Any] | None:
        """Return the reply of a call that began earlier; None where the host does not know it.

        Raises StayedAwayError as `perform` does.
        """
        reply = self._ask(name, module, {**arguments, "begin": False}, seconds)
        return None if reply.get("status") == ABSENT else reply

    def recorded(self, name: str) -> None:
        """Have the host forget a call with the next one: its outcome is kept here."""
        self._collected.append(name)

    def forget_recorded(self) -> None:
        """Have the host forget what is kept here and still waits to be forgotten, if it answers.

        A call whose outcome was not collected stays: a resumption asks for it.
        """
        if self._collected:
            self._tell({"collected": self._collected})

    def forget(self, campaign: str) -> None:
        """Have the host forget all calls of a campaign that is over there, if it can be reached.

        Those of processes that were killed before they could are among them.
        """
        self._tell({"over": campaign})

    def _tell(self, arguments: Mapping[str, Any]) -> None:
        with contextlib.suppress(HostGoneError):
            self._channel.call("joulerig_calls", arguments)
            self._collected = []

    def _ask(self, name: str, module: str, arguments: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        end, deaths = self._clock() + seconds, 0
        asked = {**arguments, "call": name, "collected": self._collected}
        for _ in range(BREAKS_IN_A_ROW):
            try:
                reply = self._channel.call(module, asked)
            except HostGoneError as error:
                gone = error
                self._channel.say(f"no connection ({one_line(error)}); what runs on the host goes on")
                patience = max(end - self._clock(), 0.0) + self._return_seconds
                if not host_channel.returns(self._channel, patience, self._clock, self._sleep):
                    raise StayedAwayError(str(error), patience) from None
                continue
            if "status" not in reply and (deaths := deaths + 1) < DEATHS_IN_A_ROW:
                self._channel.say(f"no answer ({failure(reply)}); what runs on the host goes on")
                continue
            self._collected = []
            return reply
        raise gone
