# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop that executes a power-cut campaign on one host: prepare, cut, read back, record.

The runs of a block are cut together. What a cut does follows from the campaign's seed and the
cut's number, so a resumed campaign makes the cuts that are left as it would have made them.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from joulerig import atomic
from joulerig.analysis.powercut.folder import BEFORE, Subject
from joulerig.analysis.results.schema import WORKED, Attempt, Cause, Status
from joulerig.plural import counted
from joulerig.rig.campaign import drive_record
from joulerig.rig.campaign.execution.host_channel import FencedChannel, HostChannel, HostGoneError
from joulerig.rig.campaign.execution.host_loop import HostLoop, NotBackError, keep_results
from joulerig.rig.campaign.opening import OpenPowerCuts
from joulerig.rig.campaign.powercut.cut import Aim, Cut, CutOff, MakeSwitch, Prepared
from joulerig.rig.campaign.powercut.host import PowerCutHost, RefusedError
from joulerig.rig.campaign.powercut.record import keep_failure, record_cut
from joulerig.rig.common import files
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.rig.powercut.power import Power

Runs = dict[str, Mapping[str, Any]]  # of one block, by the subject's name; those not yet finished


class PowerCutExecutor:
    """Executes the planned cuts of one host of a campaign.

    `switch` makes the switch of drives' power, given their names and a function that resets the
    host; by default the lab's switches. `reserve`: has the host for so many seconds, and raises
    UserError where another has it. `clock` and `sleep` are time.monotonic and time.sleep.
    """

    def __init__(
        self,
        campaign: OpenPowerCuts,
        host: str,
        channel: HostChannel,
        *,
        switch: MakeSwitch | None = None,
        reserve: Callable[[float], None] = lambda seconds: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        channel = FencedChannel(channel, campaign.journal.raise_if_taken_over)
        self._campaign, self._name, self._channel = campaign, host, channel
        self._loop = HostLoop(
            campaign.journal,
            campaign.definition.stop,
            host,
            channel,
            reserve=partial(reserve, 0.0),
            clock=clock,
            sleep=sleep,
        )
        self._host = PowerCutHost(campaign.lab, host, channel)
        self._switch = switch or partial(Power, campaign.lab, host)
        found = campaign.journal.campaign["provenance"]["subjects"]
        subjects = [Subject(**one) for one in found if one["host"] == host]
        self._subjects = {one.levels: one for one in subjects}
        self._tokens: dict[str, str] = {}  # of the subjects that are prepared
        self._reached = False  # an interrupted cut may have left the host off

    def execute(self) -> int:
        """Cut until no run is planned; return how many runs there were.

        Raises UserError where the campaign's stop rule ends it, the host does not come back, or a
        result cannot be recorded.
        """
        take = partial(self._campaign.journal.take_block, self._name)
        return self._loop.execute(take, self._execute_runs)

    def _execute_runs(self, runs: Sequence[Mapping[str, Any]]) -> Attempt:
        """Cut the runs of a block together; return the attempt at its best run."""
        self._execute_block(runs)
        order: list[str] = [*WORKED, Status.FAILED, Status.LOST, Status.REFUSED]
        found = (self._campaign.journal.last_attempt(run["id"]) for run in runs)
        return min(found, key=lambda attempt: order.index(attempt.status))

    def _execute_block(self, runs: Sequence[Mapping[str, Any]]) -> None:
        left: Runs = {self._subject(run).name: run for run in runs}
        number, aim = runs[0]["replicate"], self._aim(runs[0])
        cut: Cut | None = None
        known: dict[str, CutOff] = {}
        try:
            group = self._prepare_group(runs, left)
            if not group:
                return
            subjects = [one.subject for one in group]
            power = self._switch([one.drive for one in subjects], partial(self._reset, subjects))
            truth = virtual.truth_source(self._campaign.lab, self._name)
            cut = Cut(self._host, group, number, aim, power, truth)
            self._channel.say(f"[{self._name}] cut {number} of {counted(len(group), 'subject')}: {cut.phase}")
            known = cut.execute(self._campaign.definition.off_seconds)
            self._await_return(left)
            for one in group:
                self._take_up(one, cut, known[one.subject.name], left)
        except HostGoneError as error:
            self._lose(left, str(error))
            self._await_return(left)
        except NotBackError:
            raise
        except UserError as error:
            if cut and cut.was_off:
                self._await_return(left)
            self._clean(left)
            for name in list(left):
                phase = cut.phase if cut and name == aim.subject else ""
                self._fail(name, left, phase, known.get(name), str(error))

    def _subject(self, run: Mapping[str, Any]) -> Subject:
        return self._subjects[run["drive"], run["filesystem"], run["workload"]]

    def _aim(self, run: Mapping[str, Any]) -> Aim:
        """Return the aim of a run's cut, which follows from the whole block as it was planned."""
        planned = [
            self._subject(other).name
            for other in self._campaign.journal.runs()
            if (other["host"], other["block"]) == (run["host"], run["block"])
        ]
        return Aim.for_block(self._campaign.definition.seed, planned, run["replicate"])

    def _prepare_group(self, runs: Sequence[Mapping[str, Any]], left: Runs) -> list[Prepared]:
        """Prepare the subjects of a block; start the host where an interrupted cut left it off."""
        try:
            group = [one for run in runs if (one := self._prepare(run, left))]
        except HostGoneError:
            if self._reached:
                raise
            self._reached = True
            self._channel.say(f"[{self._name}] does not answer: switching its power on")
            self._switch([run["drive"] for run in runs], list).on()
            self._await_return(left)
            return self._prepare_group(runs, left)
        self._reached = True
        return group

    def _prepare(self, run: Mapping[str, Any], left: Runs) -> Prepared | None:
        """Prepare a run's subject unless that is done; return None where the host refuses it."""
        subject, folder = self._subject(run), self._campaign.folder(run)
        atomic.make_folder(folder)
        if subject.name not in self._tokens:
            serial = self._campaign.lab.hosts[self._name].drives[subject.drive].serial
            with drive_record.DriveRecord() as record:
                # It has no end: how much was written when the power failed is unknown.
                record.note([serial], [("began", {"by": run["id"]})])
            token = secrets.token_hex(16)
            try:
                self._host.ask(subject, "prepare", options=self._host.options(subject, token, 0))
                if not subject.filesystem:
                    files.replace(folder / BEFORE, self._host.survey(subject, token, 0).survey)
            except RefusedError as error:
                self._finish(subject.name, left, Status.REFUSED, str(error))
                return None
            self._tokens[subject.name] = token
        return Prepared(subject, self._tokens[subject.name], folder)

    def _take_up(self, one: Prepared, cut: Cut, known: CutOff, left: Runs) -> None:
        """Read a subject back and record its cut."""
        subject, run = one.subject, left[one.subject.name]
        phase = cut.phase if cut.aimed(subject) else ""
        try:
            found = self._host.survey(subject, one.token, run["replicate"])
            if found.boot_id == known.boot_id:
                raise UserError(f"{self._name}: {subject}: the host was not restarted")
        except UserError as error:
            self._fail(subject.name, left, phase, known, str(error))
            return
        kept = keep_results(
            partial(record_cut, self._campaign, run, subject, phase, known, found),
            lambda reason, cause: self._finish(subject.name, left, Status.FAILED, reason, cause),
        )
        if kept is None:
            del self._tokens[subject.name]
            return
        status, reason = kept
        del left[subject.name]
        self._say(run, status, reason)
        if found.lost is not None or (found.check and found.check.exit):
            del self._tokens[subject.name]  # no writer goes on with a damaged file system

    def _fail(self, name: str, left: Runs, phase: str, cut: CutOff | None, reason: str) -> None:
        """Record a cut that cannot be checked; its subject is prepared again before the next."""
        self._tokens.pop(name, None)
        keep_failure(self._campaign.folder(left[name]), phase, cut, reason)
        self._finish(name, left, Status.FAILED, reason)

    def _finish(self, name: str, left: Runs, status: Status, reason: str, cause: Cause | None = None) -> None:
        run = left.pop(name)
        self._campaign.journal.finish(run["id"], status, reason, {}, cause)
        self._say(run, status, reason)

    def _lose(self, left: Runs, why: str) -> None:
        for name in list(left):
            self._tokens.pop(name, None)
            self._finish(name, left, Status.LOST, f"host gone: {why}")

    def _await_return(self, left: Runs) -> None:
        """Wait until the host answers. Raises UserError, its runs lost, where it does not."""
        seconds = self._campaign.definition.returns_within(self._campaign.lab.hosts[self._name])
        try:
            self._loop.await_return(seconds)
        except NotBackError:
            self._lose(left, f"no answer for {seconds:g} s")
            raise

    def _clean(self, left: Runs) -> None:
        """Unmount what writers left mounted, as far as the host can."""
        for run in left.values():
            with contextlib.suppress(UserError, HostGoneError):
                self._host.ask(self._subject(run), "clean")

    def _reset(self, subjects: Sequence[Subject]) -> list[str]:
        """Have the host reset itself; return the drives that answer it, which have no power."""
        back = [one.drive for one in subjects if self._host.ask(one, "probe").answers]
        self._host.ask(subjects[0], "reset")
        return back

    def _say(self, run: Mapping[str, Any], status: str, reason: str) -> None:
        self._loop.say(run, status, reason, f" cut {run['replicate']}")
