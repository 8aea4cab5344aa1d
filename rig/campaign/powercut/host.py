# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host's part in power cuts: what module joulerig_powercut does there for one subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.powercut.folder import Subject
from joulerig.rig.campaign import drive_record
from joulerig.rig.campaign.execution.host_channel import HostChannel
from joulerig.rig.campaign.execution.outcome import failure
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import applications, filesystems
from joulerig.rig.lab.model import Lab

REGION_BYTES = 2 << 20  # of a bare drive, from its beginning, that is written to and read back


class RefusedError(UserError):
    """The host refused, and touched nothing."""


@dataclass(frozen=True)
class PowerCutHost:
    """A test host that writers run on."""

    lab: Lab
    name: str
    channel: HostChannel

    def ask(self, subject: Subject, action: str, **more: Any) -> Mapping[str, Any]:
        """Have the host do something with a subject; return its answer.

        Raises RefusedError, UserError where it failed, and HostGoneError.
        """
        member = drive_record.declared(self.lab, self.name, subject.drive)
        arguments = {"action": action, "member": member, "filesystem": self._definition(subject), **more}
        answer = self.channel.call("joulerig_powercut", arguments)
        problem = answer["problem"] if "problem" in answer else failure(answer)
        if problem:
            kind = RefusedError if answer.get("refused") else UserError
            raise kind(f"{self.name}: {subject}: {action}: {problem}")
        if made := answer.get("made"):
            drive_record.identified(member["serial"], str(subject), made)
        return answer

    def _definition(self, subject: Subject) -> dict[str, Any]:
        """Return a subject's file system for the host; empty: the bare drive."""
        name = subject.filesystem
        if not name:
            return {}
        definition = filesystems.load(self.lab)[name].for_host(name)
        more = subject.mount_options.split(",") if subject.mount_options else []
        return {**definition, "mount_options": [*definition["mount_options"], *more]}

    def options(self, subject: Subject, token: str, generation: int) -> list[str]:
        """Return a subject's options of the writer, the application that it starts among them."""
        options = writer_options(token, generation)
        if subject.application:
            command = applications.load(self.lab)[subject.application].command()
            options += [word for one in command for word in ("--application", one)]
        return options

    def survey(self, subject: Subject, token: str, generation: int) -> Mapping[str, Any]:
        """Have a subject read back; of one with a file system, mounted and checked too."""
        after = {}
        if subject.filesystem and generation:
            after = filesystems.with_power_cuts(self.lab)[subject.filesystem].commands
        return self.ask(subject, "survey", options=self.options(subject, token, generation), after=after)


def writer_options(token: str, generation: int) -> list[str]:
    """Return the options by which the writer marks what it writes, and finds it again.

    `token`: 32 hexadecimal digits, one for each preparation of a subject. `generation`: number of
    the cut; 0 before the first.
    """
    return [
        "--campaign", token, "--region-bytes", str(REGION_BYTES), "--generation", str(generation),
    ]  # fmt: skip
