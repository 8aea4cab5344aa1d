# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to a test host: the three methods by which the executor calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from joulerig.errors import JoulerigError

RETRY_SECONDS = 5
NOTE = "note"  # a mark of `HostChannel.say`; the others are statuses of runs


class HostGoneError(JoulerigError):
    """The host cannot be reached, or the connection broke during a call; the text is the reason."""


class StayedAwayError(HostGoneError):
    """The host was waited for, so many `seconds`, and did not come back."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class HostChannel(Protocol):
    """A connection to one test host that executes modules there."""

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a module to its end and return its result.

        A module that crashed returns no `status` but `msg`. Raises HostGoneError.
        """

    def reconnect(self) -> None:
        """Drop the connection: the next call makes a new one. Raises HostGoneError."""

    def another(self) -> HostChannel:
        """Return another connection to the host, for calls at the same time."""

    def say(self, text: str, mark: str = NOTE) -> None:
        """Show the user a line: a note, or the result of a run marked with its status."""


class FencedChannel:
    """A channel of which nothing goes to the host, and nothing comes back, where `check` raises."""

    def __init__(self, channel: HostChannel, check: Callable[[], None]) -> None:
        self._channel, self._check = channel, check

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self._check()
        reply = self._channel.call(module, arguments)
        self._check()
        return reply

    def reconnect(self) -> None:
        self._check()
        self._channel.reconnect()

    def another(self) -> HostChannel:
        return FencedChannel(self._channel.another(), self._check)

    def say(self, text: str, mark: str = NOTE) -> None:
        self._channel.say(text, mark)


def returns(
    channel: HostChannel, seconds: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> bool:
    """Wait until a host that went away answers again, at most `seconds`; return whether it does."""
    end = clock() + seconds
    while clock() < end:
        try:
            channel.reconnect()
            channel.call("ansible.builtin.ping", {})
        except HostGoneError:
            sleep(RETRY_SECONDS)
        else:
            return True
    return False
