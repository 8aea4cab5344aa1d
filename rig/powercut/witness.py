# SPDX-License-Identifier: GPL-3.0-or-later
"""The witness: log a writer's acknowledgements on the controller, and give the word to cut.

A line of the writer is answered only when it is on the controller's disk. So the log is behind what
the drive acknowledged, never ahead of it, whichever of the two machines dies.

The witness listens where test hosts reach it, and so may others. A writer first says the secret
that its request had; what does not is dropped, and neither cuts the power nor keeps the writer out.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from joulerig import atomic, json_text
from joulerig.rig.common.errors import UserError

ANSWERED = ("acknowledged", "failed")
LONGEST_LINE = 4096  # bytes; a writer's are below 1000
INTRODUCTION_SECONDS = 5.0
MOST_STRANGERS = 16  # at a time; the oldest gives way
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Choice:
    """The moment of the cut: `seconds` from now.

    `hold`: the writer gets no answer until then, so that it goes no further than what it has asked
    for.
    """

    seconds: float
    hold: bool


class Trigger(Protocol):
    """Decides on the moment of the cut."""

    def saw(self, line: dict[str, Any]) -> Choice | None:
        """Examine a line of the writer; not called again once it has chosen."""


class WitnessLog:
    """An append-only file of lines with both clocks; on disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        atomic.make_folder(path.parent)
        self._file = path.open("x")
        self._lock = threading.Lock()
        atomic.sync(path.parent)

    def write(self, line: dict[str, Any], *, durable: bool = True) -> None:
        stamped = {
            "monotonic_ns": time.monotonic_ns(),
            "realtime_ns": time.time_ns(),
            **line,
        }
        with self._lock:
            self._file.write(json.dumps(stamped, separators=(",", ":")) + "\n")
            if durable:
                self._file.flush()
                os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def listen(address: str, ports: str | None = None) -> socket.socket:
    """Listen at `address`, on the first free port of `ports` (FIRST-LAST), or on any.

    Raises UserError where all of them are in use.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    first, last = map(int, ports.split("-")) if ports else (0, 0)
    for port in range(first, last + 1):
        with contextlib.suppress(OSError):
            return socket.create_server((address, port), family=family)
    raise UserError(
        f"witness_ports: {ports or 'any'}: none is free at {address}; allowed: one for each drive"
    )


def introduction(secret: str) -> bytes:
    """Return a writer's first line."""
    return b'{"event":"hello","secret":"%s"}\n' % secret.encode()


def _parse(text: bytes) -> dict[str, Any]:
    """Return a writer's line. Raises UserError."""
    with contextlib.suppress(ValueError):
        line = json_text.parse(text)
        if isinstance(line, dict) and isinstance(line.get("event"), str):
            return line
    raise UserError(f"the writer said {text[:80]!r}; allowed: a JSON object with an event")


class _Stranger:
    """A connection before it has said who it is: a writer says exactly `expected`."""

    def __init__(self, connection: socket.socket, expected: bytes) -> None:
        self._connection, self._expected = connection, expected
        self._said = b""
        self._gone = False
        self._end = time.monotonic() + INTRODUCTION_SECONDS

    def listen(self) -> None:
        """Take what was said, up to the end of an introduction."""
        more = b""
        with contextlib.suppress(OSError):
            more = self._connection.recv(len(self._expected) - len(self._said))
        self._said += more
        self._gone = not more

    @property
    def is_writer(self) -> bool:
        return hmac.compare_digest(self._said, self._expected)

    @property
    def is_other(self) -> bool:
        """Whether it has gone, said something else, or nothing for too long."""
        over = self._gone or time.monotonic() > self._end
        return not self.is_writer and (over or len(self._said) == len(self._expected))


class Witness:
    """Serves one writer over a connection to `listener`, and calls `cut` when `trigger` says.

    The writer is the first connection that introduces itself with `secret`.

    What the writer still reports after the cut is kept: the drive did acknowledge it, since without
    power it acknowledges nothing. Answered is that with `stop`.
    """

    def __init__(
        self,
        listener: socket.socket,
        secret: str,
        log: WitnessLog,
        trigger: Trigger,
        cut: Callable[[], dict[str, Any]],
    ) -> None:
        self._listener, self._log, self._trigger, self._cut = listener, log, trigger, cut
        self._secret = secret
        self._connection: socket.socket | None = None
        self._chosen: Choice | None = None
        self._answering = threading.Lock()
        self._withheld = 0
        self._has_cut = threading.Event()
        self._over = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True)]

    def __enter__(self) -> Witness:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def await_cut(self, seconds: float) -> bool:
        """Whether the power was cut, within `seconds`. Raises what went wrong with it."""
        end = time.monotonic() + seconds
        while not self._has_cut.wait(0.05) and time.monotonic() < end:
            if self._errors or (self._over.is_set() and self._chosen is None):
                break  # the writer has gone, and nothing was chosen
        self._raise()
        return self._has_cut.is_set()

    @property
    def has_gone(self) -> bool:
        """Whether the writer has been here and gone."""
        return self._over.is_set()

    def was_cut(self, line: dict[str, Any]) -> None:
        """Note that the power was cut, at the moment that another witness' trigger chose."""
        self._log.write({"event": "cut", **line})
        with self._answering:
            self._has_cut.set()
            if self._withheld:
                with contextlib.suppress(OSError):  # the writer's host may have gone with the power
                    self._answer(b"stop\n" * self._withheld)

    def end(self, seconds: float = 0.0) -> None:
        """Read the writer's last reports for at most `seconds`, or until it is gone; then close."""
        serving = self._threads[0]
        serving.join(seconds)
        if serving.is_alive():
            for one in (self._connection, self._listener):
                if one is not None:
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        if self._connection is not None:
            self._connection.close()
        self._raise()

    def _raise(self) -> None:
        if self._errors:
            raise self._errors.pop(0)

    def _serve(self) -> None:
        try:
            self._connection = connection = self._writer()
            if connection.family == socket.AF_INET:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection.makefile("rb") as lines:
                while text := lines.readline(LONGEST_LINE):
                    if not text.endswith(b"\n"):
                        if len(text) == LONGEST_LINE:
                            raise UserError(f"the writer's line is longer than {LONGEST_LINE} bytes")
                        break  # the writer's host died in the middle of it
                    self._take(_parse(text))
        except OSError:
            pass  # the writer's host has gone: that is what a power cut does
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._over.set()

    def _writer(self) -> socket.socket:
        """Wait for the connection that says the secret; drop others. Raises OSError at the end."""
        strangers: dict[socket.socket, _Stranger] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                while True:
                    ready = [key.fileobj for key, _ in selector.select(LOOK_SECONDS)]
                    if self._listener in ready:
                        connection, _ = self._listener.accept()
                        strangers[connection] = _Stranger(connection, introduction(self._secret))
                        selector.register(connection, selectors.EVENT_READ)
                    for connection, stranger in list(strangers.items()):
                        if connection in ready:
                            stranger.listen()
                        if stranger.is_writer or stranger.is_other or len(strangers) > MOST_STRANGERS:
                            selector.unregister(connection)
                            del strangers[connection]
                            if stranger.is_writer:
                                return connection
                            connection.close()
            finally:
                for connection in strangers:
                    connection.close()

    def _take(self, line: dict[str, Any]) -> None:
        answered = line["event"] in ANSWERED
        self._log.write(line, durable=answered)
        if self._chosen is None and (choice := self._trigger.saw(line)) is not None:
            self._chosen = choice
            at = time.monotonic() + choice.seconds
            cutting = threading.Thread(target=self._cut_at, args=(at,), daemon=True)
            self._threads.append(cutting)
            cutting.start()
        with self._answering:
            if answered and not self._has_cut.is_set() and self._chosen and self._chosen.hold:
                self._withheld += 1
            elif answered:
                self._answer(b"stop\n" if self._has_cut.is_set() else b"ok\n")

    def _answer(self, words: bytes) -> None:
        assert self._connection is not None
        self._connection.sendall(words)

    def _cut_at(self, moment: float) -> None:
        try:
            time.sleep(max(0.0, moment - time.monotonic()))
            asked_ns = time.monotonic_ns()
            self.was_cut({"asked_ns": asked_ns, **self._cut()})
        except BaseException as error:
            self._errors.append(error)
