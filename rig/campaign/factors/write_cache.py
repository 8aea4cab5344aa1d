# SPDX-License-Identifier: GPL-3.0-or-later
"""The drives' volatile write cache: on, off, or on and never flushed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from joulerig.rig.campaign.factors.factor import Factor, Subject
from joulerig.rig.campaign.factors.journal import journal_drive

NO_FLUSH = "no flush"
WriteCache = Literal["write back", "write through", "no flush"]
LEVELS = get_args(WriteCache)


def write_cache_level(every: str | None, levels: Mapping[str, str]) -> str:
    """Return the write cache of a run whose campaign asks for `every`; "" leaves the drive's."""
    return levels.get("write_cache") or every or ""


def refusal(level: str, subject: Subject) -> str:
    """Return why a run's drives cannot go without flushes; "" where their cache is protected."""
    if level != NO_FLUSH:
        return ""
    drives = subject.lab.hosts[subject.host].drives
    used = [subject.drive, *filter(None, [journal_drive(subject.levels)])]
    bare = [name for name in subject.lab.member_drives(subject.host, *used) if not drives[name].plp]
    if not bare:
        return ""
    able = ", ".join(name for name, drive in drives.items() if drive.plp) or "none"
    return (
        f"{NO_FLUSH!r}: {bare[0]} of {subject.host} has no power-loss protection,"
        f" its data would not be durable; allowed: {able}, or exclude that cell"
    )


FACTOR = Factor(
    title="Write cache",
    help='The drives\' cache is on ("write back"), off ("write through"), or on and never flushed by the'
    ' kernel ("no flush": only drives with `plp: true`, whose cache survives a power cut).',
    allowed=", ".join(LEVELS),
    level=WriteCache,
    default="the campaign's `write_cache`, or as the drive has it",
    refusal=refusal,
    arguments=lambda level, _: {"write_cache": level},
    replaces="write_cache",
    order=5,
)
