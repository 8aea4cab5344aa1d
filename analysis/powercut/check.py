# SPDX-License-Identifier: GPL-3.0-or-later
"""One power cut, checked: which promises it broke, and what it cost beyond them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from joulerig.analysis.powercut import names, sectors, witness_log
from joulerig.analysis.powercut.names import NameFate
from joulerig.analysis.powercut.sectors import UNHARMED, Fate, Standing
from joulerig.analysis.powercut.survey import Survey
from joulerig.analysis.powercut.witness_log import WitnessLog
from joulerig.plural import counted

DRIVE = ""  # the target that has no name
OLDER = (Fate.LOST, Fate.TORN, Fate.STALE)  # what a cache that was not flushed can do to a write
NOT_FLUSHED = "fsynced, lost in the drive's cache"


@dataclass(frozen=True)
class Violation:
    """A broken promise: by which write or name, what became of it, and what had promised it.

    `sequence` is that of the write or name. `promised_by` is 0 where none of this cut's operations
    had promised it: data at rest.
    """

    what: str
    target: str
    sequence: int
    offset: int
    bytes: int
    harmed_sectors: int
    promised_by: int
    reordered: bool = False
    is_transaction: bool = False  # of the application `target`

    def __str__(self) -> str:
        if self.is_transaction:
            return f"transaction {self.sequence} of {self.target}: {self.what}"
        where = f"{self.target or 'the drive'} at {self.offset}"
        if self.promised_by:
            what = f"{self.sequence} ({counted(self.bytes, 'byte')} of {where})"
            return f"{what}, promised by {self.promised_by}: {self.what}"
        return f"{self.what}: {counted(self.harmed_sectors, 'sector')} of {where}"


@dataclass(frozen=True)
class CutFindings:
    """What one cut did.

    `promised`, `acknowledged`, `in_flight`: how many writes stood so when the power went, by what
    became of them (`Fate`). `flushes`: acknowledged flushes and durable writes, whose word was at
    risk. `reordered`: acknowledged, unflushed writes that are not there while a later one is.
    `beyond`: what the file system lost that it had not promised to keep, by name. `checkable`:
    whether any write had been promised, without which a cut says nothing.
    """

    phase: str
    violations: list[Violation]
    promised: dict[str, int]
    acknowledged: dict[str, int]
    in_flight: dict[str, int]
    flushes: int
    reordered: int
    unreported_sectors: int
    beyond: dict[str, int] = field(default_factory=dict)

    @property
    def checkable(self) -> bool:
        return bool(self.promised)


def check(
    log: WitnessLog,
    found: Survey,
    before: Survey,
    *,
    atomic_rename: bool = True,
    fsync_flushes: bool = True,
) -> CutFindings:
    """Return the findings of one cut.

    Parameters
    ----------
    log : WitnessLog
        Of the witness.
    found, before : Survey
        What is there after the cut, and what was before the first write of this log.
    atomic_rename : bool
        Whether the file system promises that a rename is done or not done, never half.
    fsync_flushes : bool
        Whether the file system has the drive flush its volatile cache at every fsync. Where it does
        not, what is lost of it is counted in `beyond` as `NOT_FLUSHED`.
    """
    promised = witness_log.promises(log)
    targets = {o.target for o in log.operations if o.is_write} - {names.NEXT, names.CURRENT}
    if DRIVE in found:
        targets.add(DRIVE)
    fates = {t: sectors.judge(log, t, found.get(t), before.get(t), promised) for t in sorted(targets)}
    counts = {standing: Counter[str]() for standing in Standing}
    violations: list[Violation] = []
    beyond: Counter[str] = Counter()
    reordered = 0
    for target, judged in fates.items():
        for one in judged.writes:
            counts[one.standing][one.fate] += 1
            if one.standing is not Standing.PROMISED or one.fate in UNHARMED:
                pass
            elif one.fate in OLDER and not fsync_flushes:
                beyond[NOT_FLUSHED] += 1
            else:
                violations.append(_broken_write(one))
            reordered += one.standing is Standing.ACKNOWLEDGED and one.reordered
        if judged.changed_at_rest:
            changed = judged.changed_at_rest
            violations.append(Violation("changed at rest", target, 0, changed[0], 0, len(changed), 0))
    for finding in names.judge(log, found):
        if finding.fate is NameFate.RENAME_LOST and not fsync_flushes:
            beyond[NOT_FLUSHED] += 1
        elif finding.fate in names.BROKEN and (atomic_rename or finding.fate is not NameFate.BOTH):
            violations.append(
                Violation(finding.fate, finding.target, finding.sequence, 0, 0, 0, finding.promised_by or 0)
            )
        elif finding.fate is not NameFate.KEPT:
            beyond[finding.fate] += 1
    return CutFindings(
        phase=witness_log.phase(log),
        violations=violations,
        promised=dict(counts[Standing.PROMISED]),
        acknowledged=dict(counts[Standing.ACKNOWLEDGED]),
        in_flight=dict(counts[Standing.IN_FLIGHT]),
        flushes=len(log.acknowledged("flush", "flush-names", "durable-write")),
        reordered=reordered,
        unreported_sectors=sum(judged.unreported_sectors for judged in fates.values()),
        beyond=dict(beyond),
    )


def _broken_write(one: sectors.WriteFate) -> Violation:
    write = one.write
    return Violation(
        one.fate,
        write.target,
        write.sequence,
        write.offset,
        write.bytes,
        one.harmed_sectors,
        one.promised_by or 0,
        one.reordered,
    )
