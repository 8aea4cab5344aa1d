# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the drives themselves that factors ask for: set, read back, put back.

Each is a class: `check` finds out whether this drive can have the value, and what it has;
`set` sets it and reads it back; `put_back` undoes that; `problem` says how it changed since.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig.drives.commands import ata
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.leftovers import Leftovers
from ansible.module_utils.joulerig.settings import features, places, standby
from ansible.module_utils.joulerig.tools import Failed, Unable

WAKING_READS = 3  # a drive may rest again before it is asked
OFF = standby.OFF
APM_ON, APM_OFF = 0x05, 0x85  # what SET FEATURES is asked


class DriveSetting:
    """A setting of one drive (the kernel's `name`) for a run, to one level."""

    def __init__(self, host: Host, name: str, level: str) -> None:
        self._host, self._name, self._level = host, name, level
        self.before: str | None = None

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        """Open the drive. Raises Failed where a command to it fails."""
        try:
            descriptor = self._host.calls.open(f"{self._host.dev}/{self._name}")
        except OSError as error:
            raise Failed(f"/dev/{self._name}: cannot be opened: {error.strerror}") from None
        try:
            yield descriptor
        except OSError as error:
            raise Failed(f"/dev/{self._name}: {error}") from None
        finally:
            self._host.calls.close(descriptor)

    def check(self) -> None:
        raise NotImplementedError

    def set(self) -> dict[str, Any]:
        raise NotImplementedError

    def put_back(self) -> None:
        raise NotImplementedError

    def note(self, leftovers: Leftovers, sequence: int | None) -> None:
        raise NotImplementedError

    def problem(self) -> str:
        raise NotImplementedError

    def _unable(self, why: str) -> Unable:
        return Unable(f"/dev/{self._name}: {why}")

    def _note_feature(self, leftovers: Leftovers, sequence: int | None, number: int, value: int) -> None:
        """Note how an NVMe drive's feature is put back after the run was killed."""
        # Of the controller: a drive may refuse it of a namespace.
        device = f"/dev/{places.controllers(self._host, self._name)[0]}"
        words = ["nvme", "set-feature", device, f"--feature-id=0x{number:02x}", f"--value={value}"]
        leftovers.note_command(self._noted(), words, sequence)

    def _noted(self) -> str:
        """Return the drive's path in /sys, by which leftovers find it."""
        return f"{self._host.sys}/block/{self._name}"


class PowerState(DriveSetting):
    """The power state that an NVMe drive works in.

    A drive that rests is in another one until its next operation. It is woken before it is asked.
    """

    def check(self) -> None:
        if not self._name.startswith("nvme"):
            raise self._unable("is no NVMe drive, and has no power states that a host sets")
        with self._open() as descriptor:
            states = features.power_states(self._host.calls.nvme_controller(descriptor))
            self._serving = [number for number, one in enumerate(states) if one["operational"]]
            if int(self._level) not in self._serving:
                allowed = ", ".join(map(str, self._serving))
                what = "does not serve" if int(self._level) < len(states) else "is not there"
                raise self._unable(f"power state {self._level} {what}; allowed: {allowed}")
            self._value = self._awake(descriptor)
            self.before = str(self._value & features.STATE_BITS)

    def set(self) -> dict[str, Any]:
        hint = self._value & ~features.STATE_BITS
        if self.before != self._level:
            self._order(hint | int(self._level), self._level)
        return {"before": self.before, "in_effect": self._level}

    def put_back(self) -> None:
        if self.before != self._level:
            self._order(self._value, self.before)

    def note(self, leftovers: Leftovers, sequence: int | None) -> None:
        self._note_feature(leftovers, sequence, features.POWER, self._value)

    def problem(self) -> str:
        with self._open() as descriptor:
            now = str(self._awake(descriptor) & features.STATE_BITS)
        return "" if now == self._level else f"power state: changed from {self._level} to {now}"

    def _order(self, value: int, state: str | None) -> None:
        with self._open() as descriptor:
            self._host.calls.set_nvme_feature(descriptor, features.POWER, value)
            now = str(self._awake(descriptor) & features.STATE_BITS)
        if now != state:
            raise Failed(f"/dev/{self._name}: power state: set to {state}, the drive says {now}")

    def _awake(self, descriptor: int) -> int:
        """Return the feature's value while the drive serves."""
        for _ in range(WAKING_READS):
            value, _ = self._host.calls.nvme_feature(descriptor, features.POWER)
            if value & features.STATE_BITS in self._serving:
                break
            self._host.calls.wake(f"{self._host.dev}/{self._name}")
        return int(value)


class PowerLimit(DriveSetting):
    """The most watts that an NVMe drive may draw (NVMe 2.1), or "off".

    The drive works in a state that draws no more; nothing of a limit is sent to it before the drive
    says that it has such limits.
    """

    def check(self) -> None:
        if not self._name.startswith("nvme"):
            raise self._unable("is no NVMe drive, and has no limit of its power that a host sets")
        with self._open() as descriptor:
            controller = self._host.calls.nvme_controller(descriptor)
            if not features.limits_power(controller):
                raise self._unable("has no limit of its power that a host sets")
            states = [one["max_watts"] for one in features.power_states(controller) if one["operational"]]
            least = min((watts for watts in states if watts is not None), default=0.0)
            if self._level != OFF and float(self._level) < least:
                raise self._unable(f"power limit {self._level} W: its least state to work in is {least:g} W")
            self._value, _ = self._host.calls.nvme_feature(descriptor, features.POWER_LIMIT)
            self.before = _limit_text(self._value)

    def set(self) -> dict[str, Any]:
        if self.before != self._level:
            self._order(0 if self._level == OFF else features.limit_value(float(self._level)))
        return {"before": self.before, "in_effect": self._level}

    def put_back(self) -> None:
        if self.before != self._level:
            self._order(self._value)

    def note(self, leftovers: Leftovers, sequence: int | None) -> None:
        self._note_feature(leftovers, sequence, features.POWER_LIMIT, self._value)

    def problem(self) -> str:
        with self._open() as descriptor:
            now = _limit_text(self._host.calls.nvme_feature(descriptor, features.POWER_LIMIT)[0])
        return "" if now == _same(self._level) else f"power limit: changed from {self._level} to {now}"

    def _order(self, value: int) -> None:
        with self._open() as descriptor:
            self._host.calls.set_nvme_feature(descriptor, features.POWER_LIMIT, value)
            now = self._host.calls.nvme_feature(descriptor, features.POWER_LIMIT)[0]
        if features.limit_watts(now) != features.limit_watts(value):
            asked, said = _limit_text(value), _limit_text(now)
            raise Failed(f"/dev/{self._name}: power limit: set to {asked}, the drive says {said}")


def _limit_text(value: int) -> str:
    watts = features.limit_watts(value)
    return OFF if watts is None else f"{watts:g}"


def _same(level: str) -> str:
    """Return a level as the drive has it, to its resolution."""
    return level if level == OFF else _limit_text(features.limit_value(float(level)))


class Apst(DriveSetting):
    """Up to how long a state may take that an NVMe drive enters by itself; "off", "any" or µs.

    The kernel makes the drive's table of transitions of that, also after the drive was reset.
    """

    def check(self) -> None:
        names = places.controllers(self._host, self._name)
        paths = [f"{self._host.sys}/class/nvme/{one}/power/pm_qos_latency_tolerance_us" for one in names]
        if not names or not all(map(os.path.exists, paths)):
            raise self._unable("does not change power states by itself, or the kernel does not let it")
        self._paths = {path: self._host.require(path) for path in paths}
        self.before = next(iter(self._paths.values()))

    def set(self) -> dict[str, Any]:
        value = "0" if self._level == OFF else self._level
        for path in self._paths:
            self._write(path, value)
        found = self._autonomous()
        if _rests(found) != (self._level != OFF):
            if self._level == OFF:
                raise Failed(f"/dev/{self._name}: autonomous transitions: set to off, the drive has them on")
            raise self._unable(f"has no state to rest in that is entered and left within {self._level} µs")
        return {"before": self.before, "in_effect": self._level, "drive": found}

    def put_back(self) -> None:
        for path, before in self._paths.items():
            self._write(path, before)

    def note(self, leftovers: Leftovers, sequence: int | None) -> None:
        for path, before in self._paths.items():
            leftovers.note_file(path, before)

    def problem(self) -> str:
        rests = _rests(self._autonomous())
        if rests == (self._level != OFF):
            return ""
        return f"autonomous transitions of power states: changed to {'on' if rests else 'off'}"

    def _autonomous(self) -> dict[str, Any]:
        with self._open() as descriptor:
            states = len(features.power_states(self._host.calls.nvme_controller(descriptor)))
            return features.autonomous(self._host, descriptor, states)

    def _write(self, path: str, value: str) -> None:
        try:
            with open(path, "w") as file:
                file.write(value)
        except OSError as error:
            raise Failed(f"{path}: {value!r} was refused by the kernel: {error.strerror}") from None
        if (now := self._host.require(path)) != value:
            raise Failed(f"{path}: set to {value!r}, reads back as {now!r}")


def _rests(autonomous: Mapping[str, Any]) -> bool:
    """Return whether a drive goes to any state by itself: kernels enable a table with none, too."""
    return bool(autonomous["enabled"] and autonomous["transitions"])


class Ata(DriveSetting):
    """A setting of an ATA disk, whose abilities its description of itself has."""

    def _words(self) -> Sequence[int]:
        if not places.is_ata(self._host, self._name):
            raise self._unable("is no ATA disk")
        with self._open() as descriptor:
            return features.ata_words(self._host.calls.ata_identity(descriptor))

    def _order(self, command: int, feature: int, count: int) -> str:
        """Send a command; return why the disk refused it, or ""."""
        try:
            with self._open() as descriptor:
                self._host.calls.order_ata(descriptor, command, feature, count)
        except Failed as refused:
            return str(refused)
        return ""


class Apm(Ata):
    """The level of a disk's advanced power management: 1 (least power) to 254, or "off"."""

    def check(self) -> None:
        words = self._words()
        if not words[features.CAN_TOO] & features.APM:
            raise self._unable("has no advanced power management")
        self.before = self._read(words)

    def set(self) -> dict[str, Any]:
        if refused := self._put(self._level):
            raise Unable(f"APM {self._level}: {refused}")
        if (now := self._read(self._words())) != self._level:
            raise Failed(f"/dev/{self._name}: APM: set to {self._level}, the disk says {now}")
        return {"before": self.before, "in_effect": self._level}

    def put_back(self) -> None:
        assert self.before is not None
        refused = self._put(self.before)
        if (now := self._read(self._words())) != self.before:
            raise Failed(f"/dev/{self._name}: APM: put back to {self.before}, the disk says {now} {refused}")

    def note(self, leftovers: Leftovers, sequence: int | None) -> None:
        words = ["smartctl", f"--set=apm,{self.before}", f"/dev/{self._name}"]
        leftovers.note_command(self._noted(), words, sequence)

    def problem(self) -> str:
        now = self._read(self._words())
        return "" if now == self._level else f"APM: changed from {self._level} to {now}"

    def _put(self, level: str) -> str:
        if level == OFF:
            return self._order(ata.SET_FEATURES, APM_OFF, 0)
        return self._order(ata.SET_FEATURES, APM_ON, int(level))

    @staticmethod
    def _read(words: Sequence[int]) -> str:
        level = features.apm(words)
        return OFF if level is None else str(level)


class StandbyTimer(Ata):
    """Seconds without work after which a disk stops, or "off".

    ATA has no command that reads it: it is not read back, and put back to off.
    """

    def check(self) -> None:
        if not self._words()[features.CAN] & features.POWER_MANAGEMENT:
            raise self._unable("has no standby timer")

    def set(self) -> dict[str, Any]:
        if refused := self._order(ata.IDLE, 0, standby.code(self._level)):
            raise Unable(f"standby timer {self._level}: {refused}")
        return {"before": None, "in_effect": None, "asked": self._level, "put_back": OFF}

    def put_back(self) -> None:
        if refused := self._order(ata.IDLE, 0, standby.code(OFF)):
            raise Failed(f"standby timer: {refused}")

    def note(self, leftovers: Leftovers, sequence: int | None) -> None:
        words = ["smartctl", "--set=standby,off", f"/dev/{self._name}"]
        leftovers.note_command(self._noted(), words, sequence)

    def problem(self) -> str:
        return ""


SETTINGS: Mapping[str, type[DriveSetting]] = {
    "power_state": PowerState,
    "power_limit": PowerLimit,
    "apst": Apst,
    "apm": Apm,
    "standby_timer": StandbyTimer,
}


class DriveSettings:
    """The settings of a run's drives, from its request's `drive_settings`: {factor, level} each."""

    def __init__(
        self, asked: Sequence[Mapping[str, Any]], drives: Mapping[str, str], host: Host | None = None
    ) -> None:
        """Check what is asked. Nothing is changed.

        `drives`: the kernel's name of each drive of the run, by its own name. Raises Unable for
        what a drive cannot have.
        """
        self._host = host or Host()
        self._all = [
            (one["factor"], drive, name, SETTINGS[one["factor"]](self._host, name, one["level"]))
            for one in asked
            for drive, name in drives.items()
        ]
        for factor, _, _, setting in self._all:
            try:
                setting.check()
            except (Unable, Failed) as error:
                raise Unable(f"{factor}: {error}") from None

    def apply(self, undo: contextlib.ExitStack, leftovers: Leftovers | None = None) -> dict[str, Any]:
        """Set them; `undo` puts them back, `leftovers` notes them. Return what is in effect.

        {factor: {"before", "in_effect"}}; with more than one drive, these by drive. Raises Failed
        where a drive says otherwise than it was set, Unable where it refuses.
        """
        found: dict[str, dict[str, Any]] = {}
        for factor, drive, name, setting in self._all:
            if leftovers:
                setting.note(leftovers, self._host.disk_sequence(name))
            undo.callback(setting.put_back)
            found.setdefault(factor, {})[drive] = setting.set()
        return {
            factor: next(iter(by_drive.values())) if len(by_drive) == 1 else by_drive
            for factor, by_drive in found.items()
        }

    def check_unchanged(self) -> None:
        """Raise Failed where a drive has no longer what was set."""
        for factor, _, name, setting in self._all:
            if problem := setting.problem():
                raise Failed(f"{factor}: /dev/{name}: {problem} during the run")
