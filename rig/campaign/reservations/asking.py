# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a test host for its reservation: in whose name, and what its reply means here."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from joulerig.rig.campaign.execution.outcome import failure
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process as processes
from joulerig.rig.common.bounded import MOST_ENTRIES, Line, Lines, Nanoseconds, Part, Returned, read
from joulerig.rig.common.errors import UserError

MODULE = "joulerig_reservation"
LAST_SECOND = 253402300799  # of the year 9999

Call = Callable[[Mapping[str, Any]], Mapping[str, Any]]


Instant = Annotated[float, Field(ge=0, le=LAST_SECOND)]
"""Seconds since 1970, before the year 10000."""


class Entry(Part):
    """A reservation, as a test host keeps it; times in seconds since 1970, of the host's clock.

    `campaign`: empty where a person made it. `over`: its time has passed, and no run of its
    campaign is in progress.
    """

    owner: Line
    machine: Line
    purpose: Line
    campaign: Line
    created_ns: Nanoseconds
    process: Line
    made: Instant
    expires: Instant
    over: bool = False

    @property
    def process_ended(self) -> bool:
        """Whether the process that executed its campaign ended, as far as this controller knows."""
        return bool(self.process) and (
            processes.is_alive(self.process) is False or processes.is_of_earlier_boot(self.process)
        )


Entries = Annotated[list[Entry], Field(max_length=MOST_ENTRIES)]


class Reply(Returned):
    """What module joulerig_reservation returns.

    `refused`: why, or empty. `by`: the reservation that refuses it.
    """

    changed: bool = False
    now: Instant
    held: Entries
    ended: Entries = []
    runs: Lines = []
    refused: Line = ""
    by: Entry | None = None

    @property
    def reason(self) -> str:
        """Return why it was refused, with what only this controller knows of it."""
        if self.by is not None and self.by.process_ended:
            return f"{self.refused}; {processes.shown(self.by.process)}, which executed it, has ended"
        return self.refused


def owner() -> str:
    """Return the user and the controller, for people: whom to ask."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    return f"{user}@{socket.gethostname()}"


def _user(owner: str) -> str:
    """Return the user of an owner; the controller's name after it may change."""
    return owner.rpartition("@")[0]


def in_the_name_of(host: str, journal: Journal | None = None) -> dict[str, Any]:
    """Return the arguments of the module that say who asks for `host`: a person, or a campaign.

    Raises TakenOverError where another process has the campaign.
    """
    person = {"owner": owner(), "machine": processes.machine(), "host": host}
    if journal is None:
        return person
    journal.raise_if_taken_over()
    campaign = journal.campaign
    return {
        **person,
        "campaign": campaign["id"],
        "created_ns": campaign["created_ns"],
        "process": campaign["executor"] or "",
        "purpose": campaign["question"],
    }


def ask(call: Call, asked: Mapping[str, Any]) -> Reply:
    """Return a host's reply; `call` executes the module with its arguments.

    Where a campaign of this owner holds the host up whose process ended, it is asked again: such a
    campaign has no claim. Raises UserError where the module failed.
    """
    reply = _ask(call, asked)
    by = reply.by
    if by and by.process_ended and (_user(by.owner), by.machine) == (_user(asked["owner"]), asked["machine"]):
        return _ask(call, {**asked, "gone": [by.process]})
    return reply


def _ask(call: Call, asked: Mapping[str, Any]) -> Reply:
    reply = call(asked)
    if reply.get("failed") or "held" not in reply:
        raise UserError(f"{asked['host']}: {failure(reply)}")
    return read(Reply, reply, asked["host"])
