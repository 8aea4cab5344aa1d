# SPDX-License-Identifier: GPL-3.0-or-later
"""One lane at a time works on the controller; the others wait for their host meanwhile.

So nothing that lanes share (the journal, the gate, the reservation) is used by two threads at once.
A lane gives up its turn while it waits for its host or sleeps, and nowhere else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from joulerig.rig.campaign.execution.host_channel import NOTE, HostChannel


class Turn:
    """Whose turn it is: that of the thread which asked first."""

    def __init__(self) -> None:
        self._changed, self._queue = threading.Condition(), deque[object]()

    def ask(self) -> object:
        """Queue; return the ticket by which the turn is awaited."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        return ticket

    def await_turn(self, ticket: object) -> None:
        """Wait until it is the ticket's turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue[0] is ticket)

    def take(self) -> None:
        """Queue, and wait."""
        self.await_turn(self.ask())

    def give(self) -> None:
        """End the turn."""
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()

    def during(self, wait: Callable[[], Any]) -> Any:
        """Return what `wait` returns, which others do not wait for."""
        self.give()
        try:
            return wait()
        finally:
            self.take()


class LaneChannel:
    """A lane's connection to its host, during whose calls other lanes have their turn."""

    def __init__(self, channel: HostChannel, turn: Turn) -> None:
        self._channel, self._turn = channel, turn

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._turn.during(lambda: self._channel.call(module, arguments))
        return found

    def reconnect(self) -> None:
        self._turn.during(self._channel.reconnect)

    def another(self) -> HostChannel:
        return LaneChannel(self._channel.another(), self._turn)

    def say(self, text: str, mark: str = NOTE) -> None:
        self._channel.say(text, mark)
