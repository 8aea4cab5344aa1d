# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a load: it ends when it is done, or when its caller is interrupted.

It has no right to make device nodes, to mount, or to reach another process's files (fence.RIGHTS).
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig import fence, limits
from ansible.module_utils.joulerig.tools import Failed, complaint, not_found, process_descriptor

LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 30  # until what was asked to end has written its report
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_libc = ctypes.CDLL(None)

# Of a workload: the folder that it works in, its seconds and seed, a folder for its own files, and
# the Phases that its points go through (None: no points are wanted), and after how many seconds its
# layout counts as hung.
Surroundings = collections.namedtuple(
    "Surroundings",
    "directory seconds seed scratch points layout_seconds",
    defaults=[limits.WHOLE.least_seconds],
)

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


def end_with_parent(parent: int | None = None) -> None:
    """Have the kernel end this process with the one that started it (`parent`, if known)."""
    _libc.prctl(SET_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
    if parent is not None and os.getppid() != parent:  # it died meanwhile
        os._exit(1)


def attend(
    who: str,
    command: Sequence[str],
    timeout: float,
    look: Callable[[], object] | None = None,
    **options: Any,
) -> str:
    """Run `command` to its end; return why it did not end well, or an empty text.

    The reason begins with `who`. `look` is called several times a second. A load that is
    interrupted (KeyboardInterrupt) or takes longer than `timeout` seconds is asked to end by
    SIGTERM, so that it can still write its report. None of its processes is left behind. `options`
    are Popen's. Raises Failed where there is no such program.
    """
    with tempfile.TemporaryFile("w+") as words:
        options = {"stdout": subprocess.DEVNULL, "stderr": words, **options}
        with _interruptions_deferred() as mask, _child(command, options, mask) as process:
            problem = _watch(process, mask, who, time.monotonic() + timeout, look)
        if look:
            look()
        words.seek(0)
        return problem or (complaint(who, process.returncode, words.read()) if process.returncode else "")


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
    process: subprocess.Popen[bytes],
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


@contextlib.contextmanager
def _child(
    command: Sequence[str], options: Mapping[str, Any], mask: set[Any]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in its own group, with the signal mask; end its group after the block."""
    parent = os.getpid()

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        end_with_parent(parent)
        fence.drop_rights()

    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare, **options
        )
    except FileNotFoundError:
        raise not_found(command) from None
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what is left of its group
    process.wait()


def raise_if(problem: str) -> None:
    """Raise Failed if there is a problem."""
    if problem:
        raise Failed(problem)
