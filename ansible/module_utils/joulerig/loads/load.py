# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a load: it ends when it is done, or when its caller is interrupted.

It sees of the host what the fence leaves it (`fence.enclose`), and none of its processes outlives
it (`contained`).
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ansible.module_utils.joulerig import limits
from ansible.module_utils.joulerig.loads.contained import INTERRUPTIONS, Contained
from ansible.module_utils.joulerig.phases import Phases
from ansible.module_utils.joulerig.tools import Failed, complaint, process_descriptor

LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 30  # until what was asked to end has written its report


class Surroundings(NamedTuple):
    """The surroundings of a workload: the folder that it works in, and one for its own files.

    `points`: the Phases that its points go through; None: no points are wanted. Its layout counts
    as hung after `layout_seconds`.
    """

    directory: str
    seconds: float
    seed: int
    scratch: str
    points: Phases | None
    layout_seconds: float = limits.WHOLE.least_seconds

    def own(self) -> list[str]:
        """Return the folders that the load may write to, and the agent's socket."""
        return [self.directory, self.scratch, *([self.points.socket] if self.points else [])]


# The result of a load: its begin and end (ns, host's clock), its tool's own report and, where that
# is only so far, why it went no further (else empty).
Done = collections.namedtuple("Done", "start end report problem")


def end_in_good_order() -> list[int]:
    """Treat a signal that ends this process as an interruption: settings are put back.

    Return a list in which its number is then.
    """
    came: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    for number in INTERRUPTIONS:
        signal.signal(number, interrupt)
    return came


def attend(
    who: str,
    command: Sequence[str],
    timeout: float,
    look: Callable[[], object] | None = None,
    own: Sequence[str] = (),
    **options: Any,
) -> str:
    """Run `command` to its end; return why it did not end well, or an empty text.

    The reason begins with `who`. `look` is called several times a second. A load that is
    interrupted (KeyboardInterrupt) or takes longer than `timeout` seconds is asked to end by
    SIGTERM, so that it can still write its report. None of its processes is left behind. `own`:
    folders that it may write to; `options` are Popen's. Raises Failed where it cannot be started.
    """
    with tempfile.TemporaryFile("w+") as words:
        options = {"stdout": subprocess.DEVNULL, "stderr": words, **options}
        with _interruptions_deferred() as mask:
            process = Contained(command, own, mask=mask, **options)
            try:
                problem = _watch(process, mask, who, time.monotonic() + timeout, look)
            finally:
                code = process.end(PATIENCE_SECONDS)
        if look:
            look()
        words.seek(0)
        return problem or (complaint(who, code, words.read()) if code else "")


@contextlib.contextmanager
def _interruptions_deferred() -> Iterator[set[Any]]:
    """Defer interruptions to the end of the block, or until the mask that it gives is set.

    While a process starts, a KeyboardInterrupt would leave it without an owner, or would be lost:
    Python ignores errors of what it calls after a fork.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        yield mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _watch(
    process: Contained,
    mask: set[Any],
    who: str,
    end: float,
    look: Callable[[], object] | None,
) -> str:
    pidfd = process_descriptor(process.pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        while not poll.poll(1000 * LOOK_SECONDS):
            if look:
                look()
            if time.monotonic() > end:
                return f"{who}: still running after its time"
    except KeyboardInterrupt:
        return f"{who}: interrupted"
    finally:
        os.close(pidfd)
    return ""


def raise_if(problem: str) -> None:
    """Raise Failed if there is a problem."""
    if problem:
        raise Failed(problem)
