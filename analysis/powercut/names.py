# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of files' names, and of the file that is replaced by renames, over a power cut.

Each version of the replaced file was flushed before it was renamed. So whichever version is found
must be whole; it must be there, and not older than the newest one whose rename was followed by a
flush of the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from joulerig.analysis.powercut.survey import SECTOR_BYTES, Survey, Surveyed
from joulerig.analysis.powercut.witness_log import Operation, WitnessLog, named

NEXT, CURRENT = "next", "current"
IN_PLACE = ("overwrite", "append", "dsync", "unflushed")


class NameFate(StrEnum):
    """What can become of a name."""

    KEPT = "kept"
    MISSING = "missing"  # a name that was promised is not there
    UNREADABLE = "unreadable"  # it is there and cannot be read
    RENAME_LOST = "rename lost"  # an older version is there than the one promised
    MIXED = "mixed"  # not one whole version: torn, short, or foreign
    BOTH = "both names"  # a rename half done: old and new name have the same version
    NEITHER = "neither name"  # half done: neither has the version, nor the new name an older one
    UNPROMISED_MISSING = "missing, not promised"


BROKEN = (NameFate.MISSING, NameFate.UNREADABLE, NameFate.RENAME_LOST, NameFate.MIXED, NameFate.BOTH)


@dataclass(frozen=True)
class NameFinding:
    """What became of one name.

    `sequence`: of the operation that is concerned; `promised_by`: of the flush of the folder, or
    None.
    """

    target: str
    fate: NameFate
    sequence: int
    promised_by: int | None


def judge(log: WitnessLog, found: Survey) -> list[NameFinding]:
    """Return one finding for each name that the writer made."""
    promised = named(log)
    findings = []
    for target in IN_PLACE:
        created = [o for o in log.operations if o.operation == "create" and o.target == target]
        if created:
            findings.append(_in_place(created[0], found.get(target), promised))
    renames = [o for o in log.operations if o.operation == "rename"]
    if renames:
        findings.append(_replaced(log, renames, found))
    return findings


def _in_place(created: Operation, there: Surveyed | None, promised: Mapping[str, Operation]) -> NameFinding:
    by = promised.get(created.target)
    if there is None:
        fate = NameFate.MISSING if by else NameFate.UNPROMISED_MISSING
    else:
        fate = NameFate.UNREADABLE if there.error and by else NameFate.KEPT
    return NameFinding(created.target, fate, created.sequence, by.sequence if by else None)


def _replaced(log: WitnessLog, renames: list[Operation], found: Survey) -> NameFinding:
    flushes = log.acknowledged("flush-names")
    promise: tuple[Operation, Operation] | None = None
    for rename in renames:
        by = next(
            (f for f in flushes if rename.acknowledged is not None and f.issued > rename.acknowledged), None
        )
        if by is not None:
            promise = (rename, by)
    newest = renames[-1]
    current, following = found.get(CURRENT), found.get(NEXT)

    def finding(fate: NameFate) -> NameFinding:
        if fate in (NameFate.MISSING, NameFate.RENAME_LOST) and promise:
            return NameFinding(CURRENT, fate, promise[0].sequence, promise[1].sequence)
        return NameFinding(CURRENT, fate, newest.sequence, promise[1].sequence if promise else None)

    if current is None:
        if promise:
            return finding(NameFate.MISSING)
        return finding(NameFate.UNPROMISED_MISSING if following else NameFate.NEITHER)
    if current.error:
        return finding(NameFate.UNREADABLE)
    version = whole_version(log, current)
    if version is None or version not in {rename.version for rename in renames}:
        return finding(NameFate.MIXED)
    if promise and version < promise[0].version:
        return finding(NameFate.RENAME_LOST)
    if following is not None and whole_version(log, following) == version:
        return finding(NameFate.BOTH)
    return finding(NameFate.KEPT)


def whole_version(log: WitnessLog, file: Surveyed) -> int | None:
    """Return the sequence number of the one write that is a file's whole content, or None."""
    if not file.sectors or file.sectors[0].state != "record":
        return None
    version = file.sectors[0].sequence
    write = next((o for o in log.operations if o.sequence == version and o.is_write), None)
    if write is None or file.bytes != write.bytes:
        return None
    for number, sector in enumerate(file.sectors):
        here = (sector.state, sector.generation, sector.sequence, sector.index)
        if here != ("record", log.generation, version, number):
            return None
    assert write.bytes == len(file.sectors) * SECTOR_BYTES
    return version
