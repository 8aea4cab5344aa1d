# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of every write to a drive, or to a file that is written in place, over a power cut.

The rule for one sector. Let it hold content of write *h* (nothing of this cut: older than all), and
let *d* be the newest write of it that was promised durable. It may hold *d* or any later write that
was issued, whether acknowledged or not; anything else breaks the promise. Writes acknowledged after
*d* and before *h* were overwritten, those after *h* are lost, which is allowed. A sector that no
write of this cut touches must be as it was before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from joulerig.analysis.powercut.survey import ABSENT, SECTOR_BYTES, ZERO, Sector, Surveyed
from joulerig.analysis.powercut.witness_log import Operation, WitnessLog


class Fate(StrEnum):
    """What became of a write, judged by the sectors that should show it or something newer."""

    KEPT = "kept"
    SUPERSEDED = "superseded"  # no sector is left that should show it
    LOST = "lost"  # what was there before it is there
    TORN = "torn"  # some of its sectors are there, of others what was before
    STALE = "stale"  # what is there is older than an earlier content that had been promised
    CORRUPT = "corrupt"  # a sector holds what was never written there


class Standing(StrEnum):
    """What the writer was entitled to expect of a write."""

    PROMISED = "promised"  # acknowledged, and a flush that covers it was too
    ACKNOWLEDGED = "acknowledged"
    IN_FLIGHT = "in flight"


UNHARMED = (Fate.KEPT, Fate.SUPERSEDED)


@dataclass(frozen=True)
class WriteFate:
    """One write's fate.

    `harmed_sectors`: how many of its judged sectors do not show it or something newer.
    `promised_by`: sequence number of what promised it, or None. `reordered`: it is not (wholly)
    there, while one that was issued only after it had been acknowledged is.
    """

    write: Operation
    standing: Standing
    fate: Fate
    harmed_sectors: int
    promised_by: int | None
    reordered: bool


@dataclass(frozen=True)
class TargetFates:
    """What became of the writes to one target.

    `changed_at_rest`: offsets of sectors that no write touched and that are not as before.
    `unreported_sectors` hold a write whose issue never reached the log: it was on its way to the
    witness when the host died, so the write was in flight.
    """

    writes: list[WriteFate]
    changed_at_rest: list[int]
    unreported_sectors: int


OLD, UNKNOWN = 0, -1  # instead of a sequence number: what was before; nothing that could be there


def judge(
    log: WitnessLog,
    target: str,
    found: Surveyed | None,
    before: Surveyed | None,
    promised: Mapping[int, Operation],
) -> TargetFates:
    """Return the fates of the writes to `target`.

    Parameters
    ----------
    found, before : Surveyed or None
        What is there now, and what was before the first of these writes; None: it is not there.
    promised : mapping
        Of `witness_log.promises`.
    """
    found, before = found or Surveyed(0), before or Surveyed(0)
    writes = [o for o in log.operations if o.is_write and o.target == target]
    by_sector: dict[int, list[Operation]] = defaultdict(list)
    for write in writes:
        for sector in _written_sectors(write):
            by_sector[sector].append(write)
    known = {o.sequence for o in log.operations}
    shows: dict[int, int] = {}
    changed, unreported = [], 0
    for sector in sorted({*by_sector, *range(max(len(found.sectors), len(before.sectors)))}):
        cell, was = found.sector_at(sector), before.sector_at(sector)
        if cell.state == "record" and cell.generation == log.generation and cell.sequence not in known:
            unreported += 1
            shows[sector] = cell.sequence
        elif sector in by_sector:
            shows[sector] = _shown(sector, cell, was, by_sector[sector], log.generation)
        elif cell != was:
            changed.append(sector * SECTOR_BYTES)
    survivors = [w for w in writes if any(shows[s] == w.sequence for s in _written_sectors(w))]
    fates = [_fate(w, by_sector, shows, promised, survivors) for w in writes]
    return TargetFates(fates, changed, unreported)


def _written_sectors(write: Operation) -> range:
    first = write.offset // SECTOR_BYTES
    return range(first, first + write.bytes // SECTOR_BYTES)


def _shown(sector: int, cell: Sector, was: Sector, writes: list[Operation], generation: int) -> int:
    """Return the sequence number of the write that a sector shows, or OLD or UNKNOWN."""
    if cell.state == "record" and cell.generation == generation:
        for write in writes:
            if write.sequence == cell.sequence and _written_sectors(write).start + cell.index == sector:
                return cell.sequence
    # A file system may have made room for data that then did not come: it reads as zeros.
    if cell == was or (was == ABSENT and cell == ZERO):
        return OLD
    return UNKNOWN


def _fate(
    write: Operation,
    by_sector: Mapping[int, list[Operation]],
    shows: Mapping[int, int],
    promised: Mapping[int, Operation],
    survivors: list[Operation],
) -> WriteFate:
    by = promised.get(write.sequence)
    standing = (
        Standing.PROMISED
        if by is not None
        else Standing.ACKNOWLEDGED
        if write.acknowledged is not None
        else Standing.IN_FLIGHT
    )
    there = gone = corrupt = stale = judged = 0
    for sector in _written_sectors(write):
        kept_promises = [w.sequence for w in by_sector[sector] if w.sequence in promised]
        if kept_promises and kept_promises[-1] > write.sequence:
            continue  # a later promise is what this sector is judged by
        judged += 1
        shown = shows[sector]
        if shown == UNKNOWN:
            corrupt += 1
        elif shown == write.sequence:
            there += 1
        elif shown < write.sequence:
            gone += 1
            earlier = [s for s in kept_promises if s < write.sequence]
            stale += bool(earlier) and shown < earlier[-1]
    if not judged:
        fate = Fate.SUPERSEDED
    elif corrupt:
        fate = Fate.CORRUPT
    elif not gone:
        fate = Fate.KEPT
    elif stale:
        fate = Fate.STALE
    else:
        fate = Fate.TORN if there else Fate.LOST
    reordered = (
        fate not in UNHARMED
        and write.acknowledged is not None
        and any(later.issued > write.acknowledged for later in survivors)
    )
    return WriteFate(write, standing, fate, gone + corrupt, by.sequence if by else None, reordered)
