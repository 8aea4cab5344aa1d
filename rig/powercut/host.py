# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts of a whole test host: writers on its drives, one cut for all of them, what is there after it."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.powercut import witness_log
from joulerig.analysis.powercut.durable import durable_writes
from joulerig.analysis.powercut.folder import Subject
from joulerig.rig.campaign import drive_record
from joulerig.rig.common import files
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import filesystems, virtual
from joulerig.rig.lab.model import Lab
from joulerig.rig.powercut import energy
from joulerig.rig.powercut.drive import REGION_BYTES
from joulerig.rig.powercut.moment import PHASES, Moment
from joulerig.rig.powercut.plan import groups
from joulerig.rig.powercut.power import Power
from joulerig.rig.powercut.record import Record
from joulerig.rig.powercut.witness import Never, Witness, WitnessLog

OPERATIONS = (60, 200)  # acknowledged ones before the cut: a file system lays out its files first
ANY_SECONDS = (0.0, 5.0)
CUT_SECONDS = 180.0  # at most until the moment has come
LAST_WORDS_SECONDS = 1.0  # for lines that are on their way from a host that is off

Execute = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True)
class Host:
    """A test host. `execute` runs the module joulerig_powercut there with the given arguments; `await_return`
    waits until it answers after a start.
    """

    lab: Lab
    name: str
    execute: Execute
    await_return: Callable[[], None]

    def ask(self, subject: Subject, action: str, **more: Any) -> Mapping[str, Any]:
        """What the host answers. Raises UserError where it could not do it."""
        member = self.lab.hosts[self.name].drives[subject.drive].declared_as(subject.drive)
        name = subject.filesystem
        definition = filesystems.load(self.lab)[name].for_host(name) if name else {}
        answer = self.execute(action=action, member=member, filesystem=definition, **more)
        if problem := answer.get("problem", answer.get("msg", "")):
            raise UserError(f"{self.name}: {subject}: {action}: {problem}")
        return answer

    def after_power_cut(self, subject: Subject) -> dict[str, list[str]]:
        """Return the commands to run after a cut; none for a bare drive."""
        if not subject.filesystem:
            return {}
        return filesystems.with_power_cuts(self.lab)[subject.filesystem].commands


def campaign(record: Record, host: Host, say: Callable[[str], None]) -> int:
    """Every cut of the host's subjects; gives how many. Raises UserError."""
    definition = record.definition
    own = [subject for subject in record.subjects if subject.host == host.name]
    done = 0
    for group in groups(own):
        random_ = random.Random(f"{definition['seed']} {' '.join(subject.name for subject in group)}")
        for subject in group:
            _prepare(record, host, subject)
        phases: list[str] = []
        for number in range(1, definition["cuts"] + 1):
            if not phases:
                phases = random_.sample(PHASES, len(PHASES))
            aimed = group[number % len(group)]
            phase = phases.pop()
            say(f"[{host.name}] cut {number}/{definition['cuts']} of {len(group)}: {phase} of {aimed}")
            _Cut(record, host, group, number, random_).execute(aimed, phase)
            done += len(group)
    return done


def _prepare(record: Record, host: Host, subject: Subject) -> None:
    serial = host.lab.hosts[host.name].drives[subject.drive].serial
    with drive_record.Ledger() as ledger:
        # It has no end: how much was written when the power failed is unknown.
        ledger.note([serial], [("began", {"by": record.id})])
    host.ask(subject, "prepare")
    if not subject.filesystem:
        found = host.ask(subject, "survey", options=_options(record), after={})
        files.replace(record.cut(subject, 0) / "after.jsonl", found["survey"])


def _options(record: Record, generation: int = 0) -> list[str]:
    words = ["--campaign", record.campaign, "--region-bytes", str(REGION_BYTES)]
    return [*words, "--generation", str(generation)]


class _Cut:
    """One cut of a group of subjects on one host."""

    def __init__(
        self, record: Record, host: Host, group: list[Subject], number: int, random_: random.Random
    ) -> None:
        self._record, self._host, self._group = record, host, group
        self._number, self._random = number, random_
        self._power = Power(host.lab, host.name, [s.drive for s in group], self._reset)
        self._truth = virtual.truth_source(host.lab, host.name)
        self._boot_ids: dict[str, str] = {}
        self._cut_ns = 0  # UTC, before the rails are off

    def _reset(self) -> None:
        self._host.ask(self._group[0], "reset")

    def execute(self, aimed: Subject, phase: str) -> None:
        with contextlib.ExitStack() as undo:
            moment = Moment(phase, self._random, operations=OPERATIONS, any_seconds=ANY_SECONDS, armed=False)
            witnesses = self._witnesses(undo, aimed, moment)
            undo.callback(self._power.restore_rails)
            # The aimed one comes last: when its moment comes, all are at work.
            for subject in sorted(self._group, key=lambda s: s is aimed):
                self._boot_ids[subject.name] = self._start(subject, witnesses[subject.name])
            # Not while the host still answers that a writer has begun.
            moment.arm()
            if not witnesses[aimed.name][1].await_cut(CUT_SECONDS):
                for subject in self._group:
                    self._host.ask(subject, "clean")
                raise UserError(f"{self._host.name}: cut {self._number}: the moment never came")
            for _, witness, _ in witnesses.values():
                witness.end(LAST_WORDS_SECONDS)
            held = {subject.name: self._power.hold_up(subject.drive) for subject in self._group}
            twin_states = {subject.name: self._twin_state(subject) for subject in self._group}
            time.sleep(self._record.definition["off_seconds"])
            self._power.on()
            for _, _, log in witnesses.values():
                log.write({"event": "restored"})
        self._host.await_return()
        for subject in self._group:
            self._take_up(subject, aimed, phase, held[subject.name], twin_states[subject.name])

    def _witnesses(
        self, undo: contextlib.ExitStack, aimed: Subject, moment: Moment
    ) -> dict[str, tuple[str, Witness, WitnessLog]]:
        """(where it listens, witness, log) of each subject."""
        spec = self._host.lab.hosts[self._host.name]
        address = self._host.lab.controller.clock_listen.rpartition(":")[0]
        found: dict[str, tuple[str, Witness, WitnessLog]] = {}

        def cut() -> dict[str, Any]:
            asked_ns = time.monotonic_ns()
            self._cut_ns = time.time_ns()
            how = self._power.off()
            for name, (_, other, _) in found.items():
                if name != aimed.name:
                    other.was_cut({"asked_ns": asked_ns, **how})
            return how

        for subject in self._group:
            place = self._record.cut(subject, self._number)
            log = WitnessLog(place / "ledger.jsonl")
            undo.callback(log.close)
            log.write({"event": "begin", "campaign": self._record.campaign, "generation": self._number})
            listener = undo.enter_context(socket.create_server((address, 0)))
            trigger = moment if subject is aimed else Never()
            witness = undo.enter_context(Witness(listener, log, trigger, cut))
            where = f"tcp:{spec.controller_address}:{listener.getsockname()[1]}"
            found[subject.name] = (where, witness, log)
        return found

    def _start(self, subject: Subject, witness: tuple[str, Witness, WitnessLog]) -> str:
        options = [*_options(self._record, self._number), "--seed", str(self._random.getrandbits(63))]
        begun = self._host.ask(subject, "write", options=options, witness=witness[0])
        return str(begun["boot_id"])

    def _take_up(
        self,
        subject: Subject,
        aimed: Subject,
        phase: str,
        held: dict[str, Any],
        twin_state: dict[str, Any] | None,
    ) -> None:
        """Read back, and keep everything that is known of this cut."""
        place = self._record.cut(subject, self._number)
        record: dict[str, Any] = {"aimed": phase if subject is aimed else "", "hold_up": held}
        try:
            found = dict(
                self._host.ask(
                    subject,
                    "survey",
                    options=_options(self._record, self._number),
                    after=self._host.after_power_cut(subject),
                )
            )
        except UserError as error:
            record["failed"] = str(error)
            files.replace(place / "cut.json", json.dumps(record, indent=1))
            return
        if found["boot_id"] == self._boot_ids[subject.name]:
            raise UserError(f"{self._host.name}: cut {self._number}: the host was not restarted")
        files.replace(place / "after.jsonl", found["survey"])
        durable = durable_writes(witness_log.read(place / "ledger.jsonl"))
        lab, name = self._host.lab, self._host.name
        record |= energy.of_interval(lab, name, subject.drive, durable, place / "power.csv")
        record["hold_up"] = energy.of_hold_up(lab, name, subject.drive, held, self._cut_ns)
        if self._truth:
            record["true_joules"] = energy.true_joules(self._truth, name, subject.drive, durable)
        if twin_state is not None:
            record["unsafe_shutdowns"] = twin_state["unsafe_shutdowns"]
            files.replace(place / "truth.json", json.dumps({"cut": twin_state["last_cut"]}, indent=1))
        kept = (
            *("before_mount", "mount_problem", "repair", "lost"),
            *("mount_seconds", "mount_options", "check", "health"),
        )
        record |= {key: found[key] for key in kept if key in found}
        files.replace(place / "cut.json", json.dumps(record, indent=1))
        if "lost" in found:
            self._host.ask(subject, "prepare")

    def _twin_state(self, subject: Subject) -> dict[str, Any] | None:
        """Return what the twin lost, against which tests hold the checker, and its unsafe shutdowns."""
        return self._truth.state(self._host.name, subject.drive) if self._truth else None
