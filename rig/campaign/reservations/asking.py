# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a test host for its reservation: in whose name, and what its reply means here."""

from __future__ import annotations

import hashlib
import os
import pwd
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from joulerig.rig.campaign.execution.outcome import failure
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import process as processes
from joulerig.rig.common.errors import UserError

MODULE = "joulerig_reservation"
MACHINE_ID = Path("/etc/machine-id")

Call = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Entry(BaseModel):
    """A reservation, as a test host keeps it; times in seconds since 1970, of the host's clock.

    `campaign`: empty where a person made it. `over`: its time has passed, and no run of its
    campaign is in progress.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    owner: str
    machine: str
    purpose: str
    campaign: str
    created_ns: int
    process: str
    made: float
    expires: float
    over: bool = False

    @property
    def process_ended(self) -> bool:
        """Whether the process that executed its campaign ended, as far as this controller knows."""
        here = self.machine == machine()
        return here and bool(self.process) and not processes.is_alive(self.process)


class Reply(BaseModel):
    """What module joulerig_reservation returns.

    `refused`: why, or empty. `by`: the reservation that refuses it.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    changed: bool = False
    now: float
    held: list[Entry]
    ended: list[Entry] = []
    runs: list[str] = []
    refused: str = ""
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


def machine() -> str:
    """Return this controller by a name that no other has, and that every checkout on it shares.

    Two controllers may have one host name and one user's name.
    """
    try:
        number = MACHINE_ID.read_text().strip()
    except OSError:
        number = ""
    return hashlib.sha256(f"joulerig {number} {socket.gethostname()}".encode()).hexdigest()[:16]


def in_the_name_of(host: str, journal: Journal | None = None) -> dict[str, Any]:
    """Return the arguments of the module that say who asks for `host`: a person, or a campaign."""
    person = {"owner": owner(), "machine": machine(), "host": host}
    if journal is None:
        return person
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
    if by and by.process_ended and (by.owner, by.machine) == (asked["owner"], asked["machine"]):
        return _ask(call, {**asked, "gone": [by.process]})
    return reply


def _ask(call: Call, asked: Mapping[str, Any]) -> Reply:
    reply = call(asked)
    if reply.get("failed") or "held" not in reply:
        raise UserError(f"{asked['host']}: {failure(reply)}")
    return Reply.model_validate(reply)
