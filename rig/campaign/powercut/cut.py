# SPDX-License-Identifier: GPL-3.0-or-later
"""One power cut of the subjects of a block: writers at work, the cut, the power back."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from joulerig.analysis.powercut.folder import WITNESS_LOG, Subject
from joulerig.rig.campaign.powercut.host import PowerCutHost
from joulerig.rig.common import process, wait
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.rig.lab.virtual import TruthSource
from joulerig.rig.powercut.moment import PHASES, AtWork, Moment
from joulerig.rig.powercut.power import Reset
from joulerig.rig.powercut.witness import Trigger, Witness, WitnessLog, listen

OPERATIONS = (60, 200)  # acknowledged ones before the cut: a file system lays out its files first
ANY_SECONDS = (0.0, 5.0)
CUT_SECONDS = 180.0  # at most until the moment has come
AT_WORK_SECONDS = 120.0  # at most until the other writers have promised something
LAST_WORDS_SECONDS = 1.0  # for lines that are on their way from a host that is off


class PowerSwitch(Protocol):
    """The power of a host and of the drives that are cut. The methods raise UserError."""

    def check(self) -> None:
        """Check that it can be cut, so that the cut proves something."""

    def off(self) -> dict[str, Any]:
        """Cut it; return what the witness log keeps of how that was done."""

    def hold_up(self, drive: str) -> dict[str, dict[str, Any]]:
        """Return, by rail, how long a drive's volts took to fall."""

    def on(self) -> None:
        """Restart the host, and restore the power while it is down."""

    def restore_rails(self) -> None:
        """Switch on the rails, whatever state they are in."""


@dataclass(frozen=True)
class Aim:
    """What a cut is aimed at: a phase of the writer of one subject."""

    subject: str
    phase: str
    seed: int

    @classmethod
    def for_block(cls, seed: int, group: Sequence[str], number: int) -> Aim:
        """Return the aim of a group's cut, from 1: the same whenever it is asked for.

        Each five cuts of a group are aimed at every phase once, in a random order.
        """
        named = f"{seed} {' '.join(group)}"
        lap, place = divmod(number - 1, len(PHASES))
        phases = random.Random(f"{named} phases {lap}").sample(PHASES, len(PHASES))
        of_cut = random.Random(f"{named} cut {number}").getrandbits(63)
        return cls(group[number % len(group)], phases[place], of_cut)


@dataclass(frozen=True)
class Prepared:
    """A subject that a writer can begin on. `token` marks what it writes since its preparation."""

    subject: Subject
    token: str
    folder: Path


@dataclass(frozen=True)
class CutOff:
    """Hold what is known of a subject's cut before the survey.

    `cut_ns`: UTC, before rails were off. `controller_step_ns`: how far the controller's clock was
    set forward by then.
    """

    boot_id: str
    cut_ns: int
    controller_step_ns: int
    held: Mapping[str, Mapping[str, Any]]
    twin: Mapping[str, Any] | None


class Cut:
    """One cut of subjects that are on different drives of a host."""

    def __init__(
        self,
        host: PowerCutHost,
        group: Sequence[Prepared],
        number: int,
        aim: Aim,
        power: PowerSwitch,
        truth: TruthSource | None,
    ) -> None:
        self._host, self._group, self._number = host, group, number
        self._power, self._truth = power, truth
        self._random = random.Random(aim.seed)
        named = [one.subject.name for one in group]
        # One that is cut without the subject aimed at, as after a resumption, is aimed at another.
        self._aimed = aim.subject if aim.subject in named else named[number % len(named)]
        self.phase = aim.phase
        self._secret = secrets.token_hex(16)  # that the witnesses know the writers by
        self.was_off = False  # whether the host had its power cut
        self._is_off = False
        self._cut_ns = 0

    def aimed(self, subject: Subject) -> bool:
        """Return whether the moment is chosen by what this subject's writer does."""
        return subject.name == self._aimed

    def execute(self, off_seconds: float) -> dict[str, CutOff]:
        """Start the writers, cut the power, restore it; return what is known by subject's name.

        The host is then on its way up. Raises UserError where the moment of the cut does not come
        or the power cannot be switched; HostGoneError.
        """
        boots: dict[str, str] = {}
        watch = process.ClockWatch()
        self._power.check()
        with contextlib.ExitStack() as undo:
            moment = Moment(
                self.phase, self._random, operations=OPERATIONS, any_seconds=ANY_SECONDS, armed=False
            )
            others = {one.subject.name: AtWork() for one in self._group if not self.aimed(one.subject)}
            witnesses = self._witnesses(undo, {**others, self._aimed: moment})
            undo.callback(self._restore)
            # The aimed one comes last: when its moment comes, all are at work.
            for one in sorted(self._group, key=lambda one: self.aimed(one.subject)):
                boots[one.subject.name] = self._start(one, witnesses[one.subject.name][0])
            self._await_others({witnesses[name][1]: one for name, one in others.items()})
            # Not while the host still answers that a writer has begun.
            moment.arm()
            if not witnesses[self._aimed][1].await_cut(CUT_SECONDS):
                raise self._no_cut(witnesses[self._aimed][1])
            for _, witness, _ in witnesses.values():
                witness.end(LAST_WORDS_SECONDS)
            step_ns = watch.step_ns()
            held = {one.subject.name: self._power.hold_up(one.subject.drive) for one in self._group}
            twins = {one.subject.name: self._twin_state(one.subject) for one in self._group}
            time.sleep(off_seconds)
            self._restore()
            for _, _, log in witnesses.values():
                log.write({"event": "restored"})
        return {name: CutOff(boots[name], self._cut_ns, step_ns, held[name], twins[name]) for name in boots}

    def _await_others(self, others: Mapping[Witness, AtWork]) -> None:
        """Wait until each has promised something: a database may take long to begin.

        One that does not is cut all the same, which says nothing of it.
        """

        def at_work() -> bool:
            return all(one.has_promised or witness.has_gone for witness, one in others.items())

        wait.until(at_work, AT_WORK_SECONDS, interval=0.01)

    def _no_cut(self, witness: Witness) -> UserError:
        """Return why the moment of the cut did not come. Raises HostGoneError."""
        if not witness.has_gone:
            return UserError(f"{self._host.name}: the moment of the cut never came ({self.phase})")
        (subject,) = (one.subject for one in self._group if self.aimed(one.subject))
        words = self._host.ask(subject, "clean").writer
        return UserError(
            f"{self._host.name}: {subject}: the writer ended before the cut ({self.phase}): {words}"
        )

    def _restore(self) -> None:
        """Restore the power, whatever state it is in; a host that was cut off is started."""
        if self._is_off:
            self._is_off = False  # what fails is not repeated: the host would be reset twice
            self._power.on()
        else:
            self._power.restore_rails()

    def _witnesses(
        self, undo: contextlib.ExitStack, triggers: Mapping[str, Trigger]
    ) -> dict[str, tuple[str, Witness, WitnessLog]]:
        """Start the subjects' witnesses: (where it listens, witness, log) by subject's name."""
        spec = self._host.lab.hosts[self._host.name]
        controller = self._host.lab.controller
        address = controller.clock_listen.rpartition(":")[0].strip("[]")
        found: dict[str, tuple[str, Witness, WitnessLog]] = {}
        lab_clock = virtual.clock(is_virtual=self._host.lab.virtual)

        def cut() -> dict[str, Any]:
            asked_ns = time.monotonic_ns()
            self._cut_ns, self.was_off, self._is_off = lab_clock(), True, True
            how = self._power.off()
            for name, (_, other, _) in found.items():
                if name != self._aimed:
                    other.was_cut({"asked_ns": asked_ns, **how})
            return how

        for one in self._group:
            log = WitnessLog(one.folder / WITNESS_LOG)
            undo.callback(log.close)
            log.write({"event": "begin", "campaign": one.token, "generation": self._number})
            listener = undo.enter_context(listen(address, controller.witness_ports))
            trigger = triggers[one.subject.name]
            witness = undo.enter_context(Witness(listener, self._secret, log, trigger, cut))
            where = f"tcp:{spec.controller_in_url}:{listener.getsockname()[1]}"
            found[one.subject.name] = (where, witness, log)
        return found

    def _start(self, one: Prepared, witness: str) -> str:
        """Start a subject's writer; return the host's boot id."""
        seed = str(self._random.getrandbits(63))
        options = [*self._host.options(one.subject, one.token, self._number), "--seed", seed]
        begun = self._host.ask(one.subject, "write", options=options, witness=witness, secret=self._secret)
        return begun.boot_id

    def _twin_state(self, subject: Subject) -> dict[str, Any] | None:
        """Return what the twin lost, which tests compare with the checker's findings."""
        return self._truth.state(self._host.name, subject.drive) if self._truth else None


MakeSwitch = Callable[[Sequence[str], Reset], PowerSwitch]
