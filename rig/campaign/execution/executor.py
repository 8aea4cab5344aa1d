# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that executes a campaign on one test host: pull the next run, prepare, execute, record.

Each host has its own executor, so hosts never wait for each other. A run is one call that
does not need the controller to end well; whatever breaks the connection breaks nothing on the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import drive_record, factors
from joulerig.rig.campaign.execution import preconditioning, waveforms
from joulerig.rig.campaign.execution.host_channel import HostChannel, HostGoneError
from joulerig.rig.campaign.execution.host_loop import HostLoop, results_kept
from joulerig.rig.campaign.execution.kernels import HostKernels, InstalledKernel
from joulerig.rig.campaign.execution.made_drives import MadeDrives
from joulerig.rig.campaign.execution.outcome import RunOutcome
from joulerig.rig.campaign.execution.record import LOST_FILE, record_result
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.kernels import INSTALLED

RETURN_SECONDS = 180  # how long a host that went away may take to come back


class Executor:
    """Executes the planned runs of one host of a campaign.

    `kernels`: those that the campaign boots, by level, as they are installed on the host. `clock`
    and `sleep` are time.monotonic and time.sleep.
    """

    def __init__(
        self,
        campaign: OpenCampaign,
        host: str,
        channel: HostChannel,
        kernels: Mapping[str, InstalledKernel],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._campaign, self._host, self._channel = campaign, host, channel
        self._loop = HostLoop(
            campaign.journal, campaign.definition.stop, host, channel, clock=clock, sleep=sleep
        )
        self._boots_kernels = bool(kernels)
        call_kernel = partial(channel.call, "joulerig_kernel")
        self._kernels = HostKernels(host, kernels, call_kernel, self._look, channel.say)
        self._made_drives = MadeDrives(campaign.lab, channel.call)

    def execute(self) -> int:
        """Execute runs until none is planned; return how many there were.

        Raises UserError where the campaign's stop rule ends it, the host does not come back, or a
        result cannot be recorded. The host's own kernel runs again at the end.
        """
        with self._campaign.journal.executing():
            try:
                done = self._loop.execute(self._take, self._execute_runs)
            except UserError:
                self._restore_kernel()
                raise
            self._restore_kernel()
        return done

    def _take(self) -> list[dict[str, Any]]:
        """Take the next run of the host, as a list of it alone; empty where none is planned."""
        run = self._campaign.journal.take(self._host)
        return [run] if run else []

    def _execute_runs(self, runs: Sequence[Mapping[str, Any]]) -> Status:
        """Execute a run and record its result; return its status."""
        [run] = runs
        try:
            outcome = self._prepare(run) or self._call_run(run)
        except HostGoneError as error:
            return self._lose(run, str(error))
        with results_kept(partial(self._fail, run)):
            status = record_result(self._campaign, run, outcome)
        if status == Status.FAILED:
            self._kernels.forget()
        recorded = next(row for row in self._campaign.journal.runs() if row["id"] == run["id"])
        self._loop.say(run, status, recorded["reason"])
        if outcome.taken_down:
            left = "; ".join(outcome.taken_down)
            self._channel.say(f"[{self._host}] a call that was killed had left things behind: {left}")
        if (kept := self._campaign.folder(run) / LOST_FILE).exists():
            self._channel.say(
                f"[{self._host}] an earlier attempt was interrupted; its files are in {kept}", status
            )
        return status

    def _prepare(self, run: Mapping[str, Any]) -> RunOutcome | None:
        """Prepare what the run needs; return its outcome where that is impossible."""
        return (
            self._kernels.ensure(factors.kernel_level(run["factors"]))
            or self._made_drives.ensure(run, self._kernels.boot)
            or preconditioning.ensure(
                self._campaign, run, partial(self._channel.call, "joulerig_precondition")
            )
        )

    def _call_run(self, run: Mapping[str, Any]) -> RunOutcome:
        """Have the host execute the run, and note in the drives' record what that did to them."""
        lab = self._campaign.lab
        drive_record.run_begins(run, lab)
        with waveforms.recorded(self._campaign, run):
            request = self._campaign.request(run).on_kernel(self._kernels.release)
            request = request.knowing(drive_record.known)
            reply = self._channel.call("joulerig_run", request.arguments())
        with results_kept(partial(self._fail, run)):
            outcome = RunOutcome.from_reply(reply)
        drive_record.run_ended(run, outcome, lab)
        return outcome

    def _fail(self, run: Mapping[str, Any], reason: str) -> None:
        self._campaign.journal.finish(run["id"], Status.FAILED, reason, {})

    def _lose(self, run: Mapping[str, Any], why: str) -> Status:
        """Record a run whose host went away, and wait until it is back."""
        self._kernels.forget()
        self._campaign.journal.finish(run["id"], Status.LOST, f"host gone: {why}", {})
        self._loop.say(run, Status.LOST, why)
        self._loop.await_return(RETURN_SECONDS)
        return Status.LOST

    def _look(self) -> Mapping[str, Any] | None:
        """Ask over a new connection which kernel runs; None where the host does not answer."""
        try:
            self._channel.reconnect()
            return self._channel.call("joulerig_kernel", {"settled": True})
        except HostGoneError:
            return None

    def _restore_kernel(self) -> None:
        """Have the host run its own kernel; after an interruption the next campaign does that."""
        try:
            if self._boots_kernels or self._kernels.release:
                self._kernels.ensure(INSTALLED)
        except HostGoneError:
            pass  # it comes back with its own kernel
