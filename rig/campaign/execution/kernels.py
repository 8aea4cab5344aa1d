# SPDX-License-Identifier: GPL-3.0-or-later
"""Have a host run the kernel that a run asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.results.schema import Cause, Status
from joulerig.rig.campaign.execution.outcome import Ended, RunOutcome, failure
from joulerig.rig.common import wait
from joulerig.rig.common.bounded import Line, Part, Returned, Whole, Word, read
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.kernels import INSTALLED

GUARD_SECONDS = 180.0  # then a kernel under which no controller came is left (joulerig-kernel-guard.service)
ATTEMPTS = 2
BUSY_LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class InstalledKernel:
    """A kernel of the rig's that is on the host, ready to be started."""

    release: str
    tick_hertz: int


class RunningKernel(Part):
    """The kernel that a host runs. `of_rig`: whether it is one that the rig installed there."""

    release: Word
    tick_hertz: Whole | None = None
    boot_id: Word
    of_rig: bool


class Reply(Returned):
    """Reply of module joulerig_kernel."""

    status: Ended | None = None
    cause: Cause | None = None
    reason: Line = ""
    msg: Line = ""
    kernel: RunningKernel | None = None

    @property
    def failure(self) -> str:
        """Return why the call failed."""
        return failure({"reason": self.reason, "msg": self.msg})

    @classmethod
    def from_host(cls, found: Mapping[str, Any], host: str) -> Reply:
        """Return a host's reply; failed, with the reason, where it is of another shape."""
        try:
            return read(cls, found, f"{host}: joulerig_kernel")
        except UserError as error:
            return cls(status=Status.FAILED, reason=str(error))


class HostKernels:
    """The kernels of one host.

    `call` executes joulerig_kernel there and returns its result; `look` does so over a new
    connection once the host has started all its services, None where the host does not answer;
    `note` shows a line. `return_seconds`: what a start of the host may take, services and all.
    """

    def __init__(
        self,
        host: str,
        ready: Mapping[str, InstalledKernel],
        call: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        look: Callable[[], Mapping[str, Any] | None],
        note: Callable[[str], None],
        *,
        return_seconds: float,
    ):
        self._host, self._ready, self._call, self._look, self._note = host, ready, call, look, note
        # Into the other kernel, or back again, where it could not be reached.
        self._boot_seconds = 2 * return_seconds + GUARD_SECONDS
        self._running: RunningKernel | None = None
        self._failed: dict[str, RunOutcome] = {}

    @property
    def release(self) -> str:
        """Release that ran when the host was last asked; empty where it has to be asked again."""
        return self._running.release if self._running else ""

    @property
    def boot(self) -> str:
        """Return the id of the boot in which the host was last asked.

        "" if it has to be asked again.
        """
        return self._running.boot_id if self._running else ""

    def forget(self) -> None:
        """Ask the host again: it may have booted."""
        self._running = None

    def ensure(self, level: str, busy_seconds: float = 0.0) -> RunOutcome | None:
        """Boot the host into the kernel `level`; return None if it runs, else the run's outcome.

        `busy_seconds`: how long the end of what else runs on the host is waited for.
        """
        if outcome := self._failed.get(level):
            return outcome
        if self._running is None:
            reply = Reply.from_host(self._call({}), self._host)
            if reply.status != Status.OK or reply.kernel is None:
                return RunOutcome(status=Status.FAILED, reason=reply.failure)
            self._running = reply.kernel
        if self._is(level):
            return None
        wanted = "" if level == INSTALLED else self._ready[level].release
        for attempt in range(ATTEMPTS):
            retry = ", second attempt" if attempt else ""
            self._note(f"[{self._host}] starting kernel {level!r}{f', {wanted}' if wanted else ''}{retry}")
            if outcome := self._start(level, wanted, busy_seconds):
                return outcome
            if self._is(level):
                return None
            found = f"{self._running.release} with {self._running.tick_hertz} ticks a second runs instead"
            if self._running.of_rig:  # it did start; else the host left a kernel that did not reach it
                break
        return self._fail_for_good(level, Status.FAILED, found)

    def _start(self, level: str, wanted: str, busy_seconds: float) -> RunOutcome | None:
        """Boot, and find out which kernel runs; return an outcome where the host did not boot."""
        assert self._running is not None
        before, self._running = self._running.boot_id, None
        reply = Reply()

        def taken() -> bool:
            nonlocal reply
            said = reply.cause == Cause.BUSY
            reply = Reply.from_host(self._call({"start": True, "release": wanted}), self._host)
            if reply.cause != Cause.BUSY:
                return True
            if not said:
                self._note(f"[{self._host}] waiting: {reply.failure}")
            return False

        if not wait.until(taken, busy_seconds, BUSY_LOOK_SECONDS):  # that passes: it is not kept
            return RunOutcome(status=Status.NOT_RUN, reason=reply.failure, cause=Cause.BUSY)
        if reply.status != Status.OK:
            return self._fail_for_good(level, reply.status or Status.FAILED, reply.failure)

        def booted() -> bool:
            found = Reply.from_host(self._look() or {}, self._host)
            if found.status == Status.OK and found.kernel and found.kernel.boot_id != before:
                self._running = found.kernel
            return self._running is not None

        if not wait.until(booted, self._boot_seconds, 2.0):
            return self._fail_for_good(
                level, Status.FAILED, f"not back {self._boot_seconds:g} s after it started this kernel"
            )
        return None

    def _is(self, level: str) -> bool:
        assert self._running is not None
        if level == INSTALLED:
            return not self._running.of_rig
        wanted = self._ready[level]
        return (self._running.release, self._running.tick_hertz) == (wanted.release, wanted.tick_hertz)

    def _fail_for_good(self, level: str, status: Ended, why: str) -> RunOutcome:
        """Keep the outcome: the kernel is not tried again for every run of this level."""
        self._failed[level] = RunOutcome(status=status, reason=f"kernel {level!r}: {why}")
        return self._failed[level]
