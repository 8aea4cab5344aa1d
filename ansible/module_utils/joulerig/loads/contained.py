# SPDX-License-Identifier: GPL-3.0-or-later
"""A program in a PID namespace: when it ends, all that it started ends with it.

    call ── starts ──> the namespace's first process (this module's) ── starts ──> the program
                              ends when the program or the call ends: the kernel kills the others

The first process passes signals on to the program, and reports its exit status.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import struct
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from ansible.module_utils.joulerig import fence
from ansible.module_utils.joulerig.tools import Failed, not_found

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STATUS = struct.Struct("=i")
_libc = ctypes.CDLL(None)


class Contained:
    """A program in execution.

    `own`: folders that it may write to. `network`: whether it reaches the host's network.
    `lasting`: it goes on when this process ends. `mask`: the signals that it has blocked.
    `options` are Popen's. A user other than root gets no namespace, as it has no rights that a
    fence would take. Raises Failed where the program cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        own: Sequence[str] = (),
        *,
        network: bool = False,
        lasting: bool = False,
        mask: Iterable[int] = (),
        **options: Any,
    ) -> None:
        fenced = os.geteuid() == 0
        self._code: int | None = None
        self._reported, report = os.pipe()

        def prepare() -> None:
            try:
                os.close(self._reported)
                if not lasting:
                    end_with_parent(signal.SIGKILL)
                    if _has_no_reader(report):  # it died meanwhile
                        os._exit(1)
                if fenced:
                    fence.enclose(own, network=network)
                _divide(report, mask, fenced)
            except Exception as problem:
                os.write(report, str(problem).encode())
                raise

        try:
            with fence.new_processes() if fenced else contextlib.nullcontext():
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare, **options
                )
        except (FileNotFoundError, subprocess.SubprocessError) as error:
            os.close(report)
            with os.fdopen(self._reported, "rb") as reported:
                problem = (
                    not_found(command) if isinstance(error, OSError) else Failed(reported.read().decode())
                )
            raise problem from None
        os.close(report)
        self.pid = self._process.pid

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end; return its exit code, or minus the number of the signal that ended it.

        Raises subprocess.TimeoutExpired.
        """
        code = self._process.wait(seconds)
        if self._code is None:
            with os.fdopen(self._reported, "rb") as reported:
                status = reported.read()
            self._code = _exit_code(*STATUS.unpack(status)) if status else code
        return self._code

    def end(self, patience_seconds: float) -> int:
        """Ask the program to end; end it and all that it started after `patience_seconds`."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
        return self.wait()


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Ask the kernel to signal this process when the thread that started it ends."""
    _libc.prctl(SET_DEATH_SIGNAL, int(number), 0, 0, 0)


def _has_no_reader(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def _divide(report: int, mask: Iterable[int], fenced: bool) -> None:
    """Return in a new process, which executes the program; this one attends it to its end."""
    watched = {signal.SIGCHLD, *INTERRUPTIONS}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    for number in watched:
        signal.signal(number, signal.SIG_DFL)
    program = os.fork()
    if program:
        _attend(program, report, watched)
    end_with_parent(signal.SIGKILL)
    if fenced:
        os.setsid()
        fence.drop_rights()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _attend(program: int, report: int, watched: Iterable[signal.Signals]) -> NoReturn:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != report:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    while True:
        number = signal.sigwait(watched)
        if number != signal.SIGCHLD:
            os.kill(program, number)
            continue
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if ended[0] == program:
                    with contextlib.suppress(BrokenPipeError):  # the call ended: it was to last
                        os.write(report, STATUS.pack(ended[1]))
                    os.killpg(0, signal.SIGKILL)
                    os._exit(0)


def _exit_code(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
