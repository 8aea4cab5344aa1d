# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a file system has its journal: inside, or on another drive of the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joulerig.rig.campaign.factors.factor import Factor, Subject
from joulerig.rig.lab import filesystems
from joulerig.rig.lab.model import Lab

INTERNAL = "internal"


def journal_drive(levels: Mapping[str, str]) -> str | None:
    """Return the drive that a run's journal is on; None where the file system has it inside."""
    level = levels.get("journal", INTERNAL)
    return None if level == INTERNAL else level


def _known(lab: Lab) -> dict[str, Any]:
    return {INTERNAL: None, **{name: None for host in lab.hosts.values() for name in host.drives}}


def _refusal(journal: str, subject: Subject) -> str:
    if journal == INTERNAL:
        return ""
    host = subject.lab.hosts[subject.host]
    known = subject.lab.once(filesystems.load)
    filesystem = subject.levels["filesystem"]
    arrays = [name for name, array in host.arrays.items() if journal in array.members]
    why = ""
    if journal not in host.drives:
        why = (
            f"is not a drive of {subject.host}, which has {subject.drive}; allowed: {', '.join(host.drives)}"
        )
    elif journal == subject.drive:
        why = "is the drive that the file system is on; allowed: another drive, or exclude that cell"
    elif arrays:
        why = f"is a member of the array {arrays[0]}; allowed: a drive that is in no array"
    elif not known[filesystem].external_journal:
        able = ", ".join(name for name, definition in known.items() if definition.external_journal)
        why = f"{filesystem} has no external journal; allowed: {able}, or exclude that cell"
    return f"{journal!r}: {why}" if why else ""


def _arguments(journal: str, subject: Subject) -> dict[str, Any]:
    if journal == INTERNAL:
        return {}
    return {"journal": subject.lab.hosts[subject.host].drives[journal].declared_as(journal)}


FACTOR = Factor(
    title="Journal",
    help="Location of the file system's journal: internal, or another drive of the same host, which is"
    " wiped.",
    allowed=f"{INTERNAL}, or a drive outside any array",
    default=INTERNAL,
    known=_known,
    refusal=_refusal,
    arguments=_arguments,
    order=4,
)
