# SPDX-License-Identifier: GPL-3.0-or-later
"""Bound what a connection may hold: uvicorn limits neither headers nor bodies in time.

A client that sends half a header, a body without end, or reads no reply would keep its connection,
and a few hundred of those would keep all other clients out. A browser sends a header at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 5.0  # for all of a header, also of the next request on a connection
BODY_SECONDS = 10.0
STALLED_SECONDS = 30.0  # in which a client takes none of a reply
LINGER_SECONDS = 1.0  # in which a client can read why its body is not wanted
# Connections without a whole header; one more, and the oldest is closed. They leave room below
# uvicorn's limit of all connections.
MOST_WAITING = 64


class BoundedConnection(H11Protocol):
    """One connection of uvicorn, as it makes them for HTTP/1.1."""

    _limit: asyncio.TimerHandle | None = None
    _limited: Any = None  # the state of the client that the limit is for
    _stalled: asyncio.TimerHandle | None = None
    _is_over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._follow()
        waiting = {
            one: one._limit.when()
            for one in self.connections
            if isinstance(one, BoundedConnection) and one._limit and one._limited is h11.IDLE
        }
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda one: waiting[one])._drop()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        super().data_received(data)
        if not self._is_over:
            self._follow()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        # The transport is the WebSocket's now, and lasts as long as its page.
        self._is_over = True
        self._cancel_limits()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._refuse_rest()
        elif not self.transport.is_closing():
            self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled:
            self._stalled.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_limits()

    def _cancel_limits(self) -> None:
        for timer in (self._limit, self._stalled):
            if timer:
                timer.cancel()

    def _follow(self) -> None:
        """Set the time limit of what the client has to send now; its bytes do not extend it."""
        state = self.conn.their_state
        if state is self._limited:
            return
        if self._limit:
            self._limit.cancel()
        self._limited, self._limit = state, None
        if seconds := {h11.IDLE: HEADER_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(state):
            self._limit = self.loop.call_later(seconds, self._drop)

    def _drop(self) -> None:
        # It counts no more, though the loop closes it later.
        self._is_over = True
        self.connections.discard(self)
        self.transport.abort()

    def _refuse_rest(self) -> None:
        """Take no more of a body that has had its reply, and close a moment later."""
        if self.transport.is_closing():
            return
        self._is_over = True
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        self.flow.pause_reading()
        self.transport.write_eof()
        if self._limit:
            self._limit.cancel()
        self._limit = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
