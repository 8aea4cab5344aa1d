# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that executes a campaign on one test host: pull the next run, prepare, execute, record.

Each host has its own executor, so hosts never wait for each other. A run is one call that
does not need the controller to end well; whatever breaks the connection breaks nothing on the host.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from joulerig.analysis.compare import races
from joulerig.analysis.results.schema import PASSING, Attempt, Cause, Status
from joulerig.rig.campaign import drive_record, factors
from joulerig.rig.campaign.execution import preconditioning, race, waveforms
from joulerig.rig.campaign.execution.detached_calls import DetachedCalls
from joulerig.rig.campaign.execution.holds import Condition
from joulerig.rig.campaign.execution.host_channel import (
    FencedChannel,
    HostChannel,
    HostGoneError,
    StayedAwayError,
)
from joulerig.rig.campaign.execution.host_loop import (
    HostLoop,
    HostTakenError,
    Lane,
    NotBackError,
    SetAsideError,
    keep_results,
)
from joulerig.rig.campaign.execution.kernels import HostKernels, InstalledKernel
from joulerig.rig.campaign.execution.made_drives import MadeDrives
from joulerig.rig.campaign.execution.outcome import NewerHostError, RunOutcome
from joulerig.rig.campaign.execution.record import record_result
from joulerig.rig.campaign.journal import call_name
from joulerig.rig.campaign.opening import OpenCampaign
from joulerig.rig.campaign.policies.equivalents import Equivalents
from joulerig.rig.campaign.policies.power_cycle import PowerCycler
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.kernels import INSTALLED


class Executor:
    """Executes the planned runs of one host of a campaign, or of one of its lanes.

    `kernels`: those that the campaign boots, by level, as they are installed on the host. `holds`:
    what a run waits for before it begins. `reserve`: has the host for so many seconds, and raises
    UserError where another has it. `publish`: gets each run that has ended. `clock` and `sleep` are
    time.monotonic and time.sleep. `lane`: whose runs are executed; None: all of the host's.
    """

    def __init__(
        self,
        campaign: OpenCampaign,
        host: str,
        channel: HostChannel,
        kernels: Mapping[str, InstalledKernel],
        *,
        holds: Sequence[Condition] = (),
        reserve: Callable[[float], None] = lambda seconds: None,
        publish: Callable[[str], None] = lambda run: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        lane: Lane | None = None,
    ) -> None:
        channel = FencedChannel(channel, campaign.journal.raise_if_taken_over)
        self._campaign, self._host, self._channel = campaign, host, channel
        self._lane, self._clock = lane, clock
        self._equivalents = (
            Equivalents(campaign.lab, host, campaign.definition.drives, kernels)
            if campaign.definition.equivalent_hosts
            else None
        )
        self._loop = HostLoop(
            campaign.journal,
            campaign.definition.stop,
            host,
            channel,
            varied=campaign.definition.varied,
            on_failure=campaign.definition.on_failure,
            may_come=self._may_come,
            holds=holds,
            reserve=partial(reserve, 0.0),
            lane=lane,
            clock=clock,
            sleep=sleep,
        )
        self._reserve, self._publish = reserve, publish
        self._block: int | None = 0  # of the run that was taken last
        self._boots_kernels = bool(kernels)
        self._busy_seconds = 0.0  # how long another's run is waited for: as long as one of this campaign
        call_kernel = partial(channel.call, "joulerig_kernel")
        self._return_seconds = campaign.lab.hosts[host].returns_within
        self._calls = DetachedCalls(channel, self._return_seconds, clock, sleep)
        self._kernels = HostKernels(
            host, kernels, call_kernel, self._look, channel.say, return_seconds=self._return_seconds
        )
        self._power = PowerCycler(campaign.lab, host, campaign.journal, channel.say, sleep)
        self._made_drives = MadeDrives(campaign.lab, channel.call)

    def execute(self) -> int:
        """Execute runs until none is planned; return how many there were.

        Raises UserError where the campaign's stop rule or a policy ends it, the host does not come
        back, or a result cannot be recorded. The host's own kernel runs again at the end.
        """
        try:
            done = self._loop.execute(self._take, self._execute_runs)
        except UserError as error:
            if not isinstance(error, HostTakenError):  # which kernel runs is for another to say then
                self._restore_kernel()
            self._calls.forget_recorded()
            raise
        self._restore_kernel()
        if self._lane:  # others may have calls there whose outcome is still to be collected
            self._calls.forget_recorded()
        else:
            self._calls.forget(self._campaign.journal.campaign["id"])
        return done

    def start_own_kernel(self) -> None:
        """Have the host run its own kernel before lanes use it."""
        with contextlib.suppress(HostGoneError):
            self._kernels.ensure(INSTALLED)

    def _take(self) -> list[dict[str, Any]]:
        """Take the next run of the host, as a list of it alone; empty where none is planned.

        Where cells race, the blocks that are whole by now are looked at first.
        """
        if self._campaign.definition.order == races.ORDER:
            block = self._campaign.journal.next_block(self._host)
            if block != self._block:
                self._block = block
                race.decide(self._campaign.journal, self._host, self._channel.say)
        drive = self._lane.drive if self._lane else None
        run = self._campaign.journal.take(self._host, drive) or self._take_over()
        return [run] if run else []

    def _take_over(self) -> dict[str, Any] | None:
        """Take a run of a host that is set aside, where the campaign and this host allow it."""
        if self._equivalents is None:
            return None
        lab = self._campaign.lab
        run = self._campaign.journal.take_over(
            self._host,
            self._equivalents.may_take,
            lambda host, name: ", ".join(
                lab.hosts[host].drives[one].serial for one in lab.member_drives(host, name)
            ),
        )
        if run:
            self._channel.say(f"[{self._host}] takes over run {run['ordinal']}: its host is set aside")
        return run

    def _may_come(self) -> bool:
        """Return whether a host whose runs this one could take over still executes some."""
        return self._equivalents is not None and self._campaign.journal.is_at_work(self._equivalents.hosts)

    def _execute_runs(self, runs: Sequence[Mapping[str, Any]]) -> Attempt:
        """Execute a run and record its result; return the attempt."""
        [run] = runs
        self._execute_run(run)
        self._publish(run["id"])
        return self._campaign.journal.last_attempt(run["id"])

    def _execute_run(self, run: Mapping[str, Any]) -> None:
        if not run["begun"]:
            shutil.rmtree(self._campaign.folder(run), ignore_errors=True)  # of an earlier attempt
        try:
            outcome = self._collect(run) or self._prepare(run) or self._call_run(run)
        except HostGoneError as error:
            self._lose(run, error)
            return
        kept = keep_results(partial(record_result, self._campaign, run, outcome), partial(self._fail, run))
        status = kept or Status.FAILED
        self._calls.recorded(call_name(run))
        if run["begun"] and outcome.cause in PASSING:
            # It ended while no controller was there, for a cause that is over.
            self._campaign.journal.plan_again(run["id"], "collected")
        if status in (Status.FAILED, Status.LOST):
            self._kernels.forget()
        self._loop.say(run, status, self._campaign.journal.run(run["id"])["reason"])
        if outcome.taken_down:
            left = "; ".join(outcome.taken_down)
            self._channel.say(f"[{self._host}] a call that was killed had left things behind: {left}")

    def _prepare(self, run: Mapping[str, Any]) -> RunOutcome | None:
        """Prepare what the run needs; return its outcome where that is impossible."""
        if self._boots_kernels:
            self._busy_seconds = self._campaign.request(run).wall_seconds + self._return_seconds
        return (
            self._kernels.ensure(factors.kernel_level(run["factors"]), self._busy_seconds)
            or self._make_drives(run)
            or preconditioning.ensure(self._campaign, run, partial(self._precondition, run))
        )

    def _make_drives(self, run: Mapping[str, Any]) -> RunOutcome | None:
        """Make what the run stands on, for which the host must do nothing else."""
        if not self._made_drives.lacks(run, self._kernels.boot):
            return None
        with self._loop.alone():
            return self._made_drives.ensure(run, self._kernels.boot)

    def _precondition(self, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have the host do a stretch of preconditioning."""
        name = f"{call_name(run)}.precondition-{arguments['rounds_before']}"
        seconds = arguments["rounds"] * arguments["round_seconds"]
        reply = self._perform(name, "joulerig_precondition", arguments, seconds)
        self._calls.recorded(name)
        return reply

    def _collect(self, run: Mapping[str, Any]) -> RunOutcome | None:
        """Return the outcome of an attempt that began before; None where the host knows of none."""
        if not run["begun"]:
            return None
        with waveforms.recorded(self._campaign, run, begun=True):
            request, watch = self._campaign.request(run), process.ClockWatch()
            reply = self._calls.collect(
                call_name(run), "joulerig_run", request.arguments(), request.wall_seconds
            )
        return None if reply is None else self._outcome(run, reply, watch.step_ns())

    def _call_run(self, run: Mapping[str, Any]) -> RunOutcome:
        """Have the host execute the run, and note in the drives' record what that did to them."""
        drive_record.run_begins(run, self._campaign.lab)
        with waveforms.recorded(self._campaign, run):
            request = self._campaign.request(run).on_kernel(self._kernels.release)
            request = request.knowing(drive_record.known)
            watch = process.ClockWatch()
            reply = self._perform(call_name(run), "joulerig_run", request.arguments(), request.wall_seconds)
        return self._outcome(run, reply, watch.step_ns())

    def _perform(
        self, name: str, module: str, arguments: Mapping[str, Any], seconds: float
    ) -> Mapping[str, Any]:
        """Make a detached call that takes so many seconds at least, the host reserved for them."""
        with contextlib.suppress(UserError):  # the run has begun: another's reservation ends the next
            self._reserve(seconds)
        return self._calls.perform(name, module, arguments, seconds)

    def _outcome(
        self, run: Mapping[str, Any], reply: Mapping[str, Any], controller_step_ns: int
    ) -> RunOutcome:
        """Return the outcome in a reply, and how far the controller's clock was set meanwhile."""
        try:
            outcome = RunOutcome.from_reply(reply)
        except NewerHostError as error:  # so is the next run's
            self._fail(run, str(error), Cause.UNRECORDED)
            raise
        except UserError as error:
            outcome = RunOutcome(status=Status.FAILED, reason=str(error))
        if controller_step_ns:
            outcome = outcome.model_copy(update={"controller_step_ns": controller_step_ns})
        drive_record.run_ended(run, outcome, self._campaign.lab)
        return outcome

    def _fail(self, run: Mapping[str, Any], reason: str, cause: Cause) -> None:
        self._campaign.journal.finish(run["id"], Status.FAILED, reason, {}, cause)

    def _lose(self, run: Mapping[str, Any], gone: HostGoneError) -> None:
        """Record a run whose host went away, and wait until it is back."""
        self._kernels.forget()
        self._campaign.journal.finish(run["id"], Status.LOST, f"host gone: {gone}", {})
        self._loop.say(run, Status.LOST, str(gone))
        if isinstance(gone, StayedAwayError):
            self._revive(gone.seconds)
            return
        try:
            self._loop.await_return(self._return_seconds)
        except NotBackError:
            self._revive(self._return_seconds)

    def _revive(self, away_seconds: float) -> None:
        """Cycle the power of a host that stayed away, and wait for it. Raises SetAsideError."""
        if self._lane and not self._lane.gate.may_revive(self._clock(), away_seconds + self._return_seconds):
            self._loop.await_return(2 * self._return_seconds)  # another lane's loss is this one's
            return
        try:
            done = self._power.cycle(away_seconds)
        except UserError as error:
            raise SetAsideError(
                f"{self._host}: gone for {away_seconds:g} s, and its power could not be cycled ({error});"
                " its remaining runs stay planned; resume the campaign"
            ) from None
        if not done:
            raise self._loop.not_back(away_seconds)
        self._loop.await_return(self._return_seconds)

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
                self._kernels.ensure(INSTALLED, self._busy_seconds)
        except HostGoneError:
            pass  # it comes back with its own kernel
