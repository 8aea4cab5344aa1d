# SPDX-License-Identifier: GPL-3.0-or-later
"""The witness's log of one power cut: what was asked, acknowledged, and so promised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from joulerig import json_text
from joulerig.errors import JoulerigError

WRITES = ("write", "durable-write")
TRANSACTION = "transaction"  # of an application: durable once it is acknowledged
OPERATIONS = (*WRITES, "flush", "create", "rename", "flush-names", TRANSACTION)


class WitnessLogError(JoulerigError):
    """A log that cannot be one: its text is one line."""


@dataclass(frozen=True)
class Operation:
    """One operation of the writer. `issued` and `acknowledged` are positions in the log.

    `target` is a file, or empty for a drive. `version`: of a rename, the sequence number of the
    content that it moves from `source`. What was not acknowledged, because of the cut, was in
    flight or failed: that is the same, nothing was promised. But a transaction that failed was
    rolled back: it must not be there.
    """

    sequence: int
    operation: str
    target: str
    offset: int
    bytes: int
    source: str
    version: int
    issued: int
    issued_ns: int
    issued_utc_ns: int
    acknowledged: int | None = None
    acknowledged_ns: int | None = None
    acknowledged_utc_ns: int | None = None
    failed: bool = False

    @property
    def is_write(self) -> bool:
        return self.operation in WRITES


@dataclass(frozen=True)
class WitnessLog:
    """The log of one power cut.

    `begin` and `cut` are the witness's own lines; `operations` are in the order they were issued.
    """

    begin: Mapping[str, Any]
    operations: tuple[Operation, ...]
    cut: Mapping[str, Any] | None

    @property
    def generation(self) -> int:
        return self.begin["generation"]

    def acknowledged(self, *kinds: str) -> list[Operation]:
        return [o for o in self.operations if o.acknowledged is not None and o.operation in kinds]


def read(path: Path) -> WitnessLog:
    """Read a log from its file. Raises WitnessLogError.

    A last line without its end is one that the witness was writing when it died: nothing hangs on
    it, since it acknowledges a line only after it is on disk.
    """
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    try:
        lines = [json_text.parse(line) for line in whole.splitlines()]
        return log_from_lines(lines)
    except (WitnessLogError, ValueError, KeyError, TypeError) as error:
        raise WitnessLogError(f"{path}: {type(error).__name__}: {error}") from None


def log_from_lines(lines: Iterable[Mapping[str, Any]]) -> WitnessLog:
    """Build a log from its lines. Raises WitnessLogError, KeyError."""
    begin: Mapping[str, Any] | None = None
    cut: Mapping[str, Any] | None = None
    operations: dict[int, Operation] = {}
    for position, line in enumerate(lines):
        match line["event"]:
            case "begin":
                begin = line
            case "cut":
                cut = line
            case "issued":
                operations[line["sequence"]] = _issued(position, line, operations)
            case "acknowledged":
                before = operations.get(line["sequence"])
                if before is None or before.acknowledged is not None:
                    raise WitnessLogError(f"line {position + 1}: {line['sequence']} was not waiting for this")
                operations[line["sequence"]] = replace(
                    before,
                    acknowledged=position,
                    acknowledged_ns=line["monotonic_ns"],
                    acknowledged_utc_ns=line["realtime_ns"],
                )
            case "failed" if line["sequence"] in operations:
                operations[line["sequence"]] = replace(operations[line["sequence"]], failed=True)
            case "failed" | "restored" | "end":
                pass
            case other:
                raise WitnessLogError(f"line {position + 1}: event {other!r} is unknown")
    if begin is None:
        raise WitnessLogError("no line names the campaign and cut")
    return WitnessLog(begin, tuple(sorted(operations.values(), key=lambda o: o.issued)), cut)


def _issued(position: int, line: Mapping[str, Any], known: Mapping[int, Operation]) -> Operation:
    if line["sequence"] in known:
        raise WitnessLogError(f"line {position + 1}: sequence {line['sequence']} is there twice")
    if line["operation"] not in OPERATIONS:
        raise WitnessLogError(f"line {position + 1}: operation {line['operation']!r} is unknown")
    return Operation(
        sequence=line["sequence"],
        operation=line["operation"],
        target=line["target"],
        offset=line["offset"],
        bytes=line["bytes"],
        source=line.get("from", ""),
        version=line.get("version", 0),
        issued=position,
        issued_ns=line["monotonic_ns"],
        issued_utc_ns=line["realtime_ns"],
    )


def named(log: WitnessLog) -> dict[str, Operation]:
    """Return the flush of the folder that promised each file's name, by that name.

    A drive, whose name is empty, needs none.
    """
    found: dict[str, Operation] = {}
    flushes = log.acknowledged("flush-names")
    for create in log.acknowledged("create"):
        for flush in flushes:
            if flush.issued > create.acknowledged:
                found.setdefault(create.target, flush)
                break
    return found


def promises(log: WitnessLog) -> dict[int, Operation]:
    """Return the operation that promised each write, by the write's sequence number.

    What is promised is that the write is durable. A write is promised by its own acknowledgement
    where it asked for durability (FUA, O_DSYNC); else by the acknowledgement of the first flush of
    its target that was issued after the write was acknowledged. Where the target is a file, its
    name has to have been promised too, by a flush of its folder: what is promised in a file that
    may not be there is not promised. So the later of the two is what promised it. A transaction is
    promised by its own acknowledgement.
    """
    names = named(log)
    found: dict[int, Operation] = {}
    flushes = log.acknowledged("flush")
    for write in log.acknowledged(*WRITES):
        by = write if write.operation == "durable-write" else None
        if by is None:
            covering = (f for f in flushes if f.target == write.target and f.issued > write.acknowledged)
            by = next(covering, None)
        if by is None:
            continue
        if write.target:
            if write.target not in names:
                continue
            by = max(by, names[write.target], key=lambda o: o.acknowledged)
        found[write.sequence] = by
    return found | {one.sequence: one for one in log.acknowledged(TRANSACTION)}


def _rolled_back(operation: Operation) -> bool:
    return operation.operation == TRANSACTION and operation.failed


def phase(log: WitnessLog) -> str:
    """Return what the writer was doing when the power went, according to the log.

    `flush` or `write`: one was in flight; `between`: none was, and something acknowledged was not
    promised; `idle`: all that was acknowledged was promised.
    """
    in_flight = {o.operation for o in log.operations if o.acknowledged is None and not _rolled_back(o)}
    if in_flight & {"flush", "flush-names", TRANSACTION}:
        return "flush"
    if in_flight:
        return "write"
    promised = promises(log)
    volatile = any(w.sequence not in promised for w in log.acknowledged("write"))
    return "between" if volatile else "idle"
