# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host's part in power cuts: what module joulerig_powercut does there for one subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from joulerig.analysis.powercut.folder import Subject
from joulerig.rig.campaign import drive_record
from joulerig.rig.campaign.execution.host_channel import HostChannel
from joulerig.rig.campaign.execution.outcome import Identity, failure
from joulerig.rig.common.bounded import Json, Line, Lines, Part, Returned, Word, read
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import applications, filesystems
from joulerig.rig.lab.model import Lab

MOST_SURVEY = 64 << 20  # characters that the writer prints of what it read back
REGION_BYTES = 2 << 20  # of a bare drive, from its beginning, that is written to and read back


class RefusedError(UserError):
    """The host refused, and touched nothing."""


class Command(Part):
    """A command that a host executed on a drive: its exit code and the last lines it printed."""

    command: Lines
    exit: int
    last_lines: Lines


class Reply(Returned):
    """Reply of module joulerig_powercut.

    `problem`: why it could not be done, or empty. `refused`: nothing was touched. `made`: by what
    the content of the drive is known now. `survey`: what the writer read back, JSON Lines.
    """

    problem: Line = ""
    refused: bool = False
    made: Identity | None = None
    boot_id: Word = ""
    answers: bool = False
    survey: Annotated[str, Field(max_length=MOST_SURVEY)] = ""
    mount_seconds: float | None = None
    mount_options: Line | None = None
    before_mount: Command | None = None
    mount_problem: Line | None = None
    repair: Command | None = None
    lost: Line | None = None
    check: Command | None = None
    writer: Line = ""
    health: Json = None


@dataclass(frozen=True)
class PowerCutHost:
    """A test host that writers run on."""

    lab: Lab
    name: str
    channel: HostChannel

    def ask(self, subject: Subject, action: str, **more: Any) -> Reply:
        """Call the host's module for a subject; return its reply.

        Raises RefusedError, UserError where it failed, and HostGoneError.
        """
        member = drive_record.declared(self.lab, self.name, subject.drive)
        arguments = {"action": action, "member": member, "filesystem": self._definition(subject), **more}
        found = self.channel.call("joulerig_powercut", arguments)
        reply = read(Reply, found, f"{self.name}: {subject}: {action}")
        problem = reply.problem if "problem" in found else failure(found)
        if problem:
            kind = RefusedError if reply.refused else UserError
            raise kind(f"{self.name}: {subject}: {action}: {problem}")
        if reply.made:
            drive_record.identified(member["serial"], str(subject), reply.made)
        return reply

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

    def survey(self, subject: Subject, token: str, generation: int) -> Reply:
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
