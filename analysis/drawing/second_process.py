# SPDX-License-Identifier: GPL-3.0-or-later
"""A second process that draws figures of a report, and makes its PDF.

Both are Python that computes, so that a second thread would not help. It is an interpreter that
this module starts, and no fork or spawn of multiprocessing: threads of polars and numpy do not
survive a fork, and a spawn would execute the caller's script again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

from joulerig.analysis.drawing import pdf
from joulerig.errors import JoulerigError

FEWEST_TO_SHARE = 6  # calls


class SecondProcessError(JoulerigError):
    """The second process ended before its work was done; the message is one line."""


class SecondProcess:
    """Begins at once, so that its imports take place while the caller goes on; end it by `with`."""

    def __init__(self) -> None:
        path = os.pathsep.join(one or os.curdir for one in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._thread = ThreadPoolExecutor(1)  # one call at a time
        self._ready = self._thread.submit(self._receive)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._thread.shutdown()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # a request that it did not live to read
                pipe.close()
        self._process.wait()

    def begin(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have it call a module's function, after what was begun before. All are pickled."""
        return self._thread.submit(self._call, function, *arguments)

    def map(self, function: Callable[..., Any], calls: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the function's values by the keywords of each call.

        Whichever process is free makes the next call: this one from the first on, the second from
        the last back. Of few calls this one makes all: the second has to import what they need.
        """
        if len(calls) < FEWEST_TO_SHARE:
            return [function(**keywords) for keywords in calls]
        found: dict[int, Any] = {}
        open_calls = deque(enumerate(calls))

        def take_last() -> None:
            while (call := _taken(open_calls.pop)) is not None:
                found[call[0]] = self._call(_with_keywords, function, dict(call[1]))

        others = self._thread.submit(take_last)  # begins once the second process is ready
        while (call := _taken(open_calls.popleft)) is not None:
            found[call[0]] = function(**call[1])
        if not others.cancel():
            others.result()
        return [found[place] for place in range(len(calls))]

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self._ready.result()
        assert self._process.stdin is not None
        try:
            pickle.dump((function, arguments), self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except OSError:
            raise SecondProcessError(_ended(self._process)) from None
        value, error = self._receive()
        if error is not None:
            raise error
        return value

    def _receive(self) -> tuple[Any, Exception | None]:
        assert self._process.stdout is not None
        try:
            found: tuple[Any, Exception | None] = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise SecondProcessError(_ended(self._process)) from None
        return found


def _taken(pop: Callable[[], tuple[int, Mapping[str, Any]]]) -> tuple[int, Mapping[str, Any]] | None:
    """Return a call that neither process has taken; None where there is no more."""
    try:
        return pop()
    except IndexError:
        return None


def _ended(process: subprocess.Popen[bytes]) -> str:
    return f"the process that makes figures and PDF ended with {process.wait()}"


def _with_keywords(function: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
    return function(**keywords)


def serve() -> None:
    """Call what is asked for on standard input until it ends."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no reply
    pdf.import_weasyprint()
    reply: tuple[Any, Exception | None] = (None, None)
    while True:
        pickle.dump(reply, replies, pickle.HIGHEST_PROTOCOL)
        replies.flush()
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            reply = function(*arguments), None
        except Exception as error:
            reply = None, error
