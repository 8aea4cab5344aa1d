# SPDX-License-Identifier: GPL-3.0-or-later
"""The open pages, each with a bounded queue: a slow one loses its oldest frames, delaying none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

LONGEST_QUEUE = 8  # frames: two seconds' worth


@dataclass(eq=False)
class Client:
    """One page. `campaign` is the one it asked for, None for whichever is newest."""

    campaign: str | None
    sent: dict[str, str] = field(default_factory=dict)  # by kind, of those sent when they change
    new: bool = True  # it has had no frame yet
    dropped: int = 0
    messages: dict[str, str] = field(default_factory=dict)
    frames: deque[bytes] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, kind: str, message: str) -> None:
        """Queue a message in place of an unsent one of its kind: only the newest state counts."""
        self.messages.pop(kind, None)
        self.messages[kind] = message
        self._wake.set()

    def tell_changed(self, kind: str, message: str) -> None:
        """Queue a message unless it is the one that the page has had."""
        if self.sent.get(kind) != message:
            self.sent[kind] = message
            self.tell(kind, message)

    @property
    def needs_whole(self) -> bool:
        """Return whether the next frame must hold the whole window.

        The page is new or its queue full.
        """
        return self.new or len(self.frames) >= LONGEST_QUEUE

    def show(self, frame: bytes) -> None:
        """Queue a frame of what is new."""
        self.frames.append(frame)
        self._wake.set()

    def show_whole(self, frame: Callable[[], bytes]) -> None:
        """Drop the frames that wait, for the whole window makes up for them, and queue that."""
        self.dropped += len(self.frames)
        self.frames.clear()
        self.new = False
        self.show(frame())

    async def send(
        self, text: Callable[[str], Awaitable[None]], binary: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Send what is queued, for ever; messages first, as they describe the frames' channels."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self.messages or self.frames:
                if self.messages:
                    await text(self.messages.pop(next(iter(self.messages))))
                else:
                    await binary(self.frames.popleft())


class Hub:
    """All pages; `watched` is set while there is one."""

    def __init__(self) -> None:
        self.clients: set[Client] = set()
        self.watched = asyncio.Event()

    def add(self, client: Client) -> None:
        self.clients.add(client)
        self.watched.set()

    def remove(self, client: Client) -> None:
        self.clients.discard(client)
        if not self.clients:
            self.watched.clear()
