# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of an application's transactions in a power cut.

The application's checker says which are there, whole or torn; the witness log says which were
acknowledged, rolled back, or had begun. `docs/reference/protocols/application.md` is the contract.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from joulerig import json_text
from joulerig.analysis.powercut import witness_log
from joulerig.analysis.powercut.check import CutFindings, Violation
from joulerig.analysis.powercut.survey import SurveyError
from joulerig.analysis.powercut.witness_log import TRANSACTION, WitnessLog

UNREADABLE = "the store cannot be read"


class State(enum.StrEnum):
    """What the checker says of a transaction that it sees."""

    FOUND = "found"
    TORN = "torn"


class TransactionFate(enum.StrEnum):
    """What became of a transaction."""

    KEPT = "kept"  # acknowledged, and there
    LOST = "lost"  # acknowledged, and absent
    TORN = "torn"  # partly there, or damaged, whether it was acknowledged or not
    RESURRECTED = "resurrected"  # there, and rolled back or never begun
    ABSENT = "absent"  # rolled back or in flight, and not there
    LANDED = "landed"  # in flight, and there whole


BROKEN = (TransactionFate.LOST, TransactionFate.TORN, TransactionFate.RESURRECTED)


@dataclass(frozen=True)
class Found:
    """What an application's checker printed. `problem`: why it could not read, or empty."""

    states: Mapping[int, State] = field(default_factory=dict)
    problem: str = ""


def parse(text: str) -> Found:
    """Parse the lines of `durawriter survey --application`.

    Without a line the file system was lost, and the store with it. Raises SurveyError.
    """
    states: dict[int, State] = {}
    problem = ""
    try:
        for line in map(json_text.parse, text.splitlines()):
            if "application" not in line:
                states[line["transaction"]] = State(line["state"])
            elif line["application"]:
                problem = line.get("error") or f"exit {line['application']}"
    except (ValueError, KeyError, TypeError) as error:
        raise SurveyError(f"survey: {type(error).__name__}: {error}") from None
    return Found(states, problem)


@dataclass(frozen=True)
class Transactions:
    """What the log says of an application's transactions, each by its number."""

    acknowledged: frozenset[int]
    rolled_back: frozenset[int]
    in_flight: frozenset[int]


def from_log(log: WitnessLog) -> Transactions:
    """Return the transactions of a witness log."""
    ours = [one for one in log.operations if one.operation == TRANSACTION]
    done = frozenset(one.sequence for one in ours if one.acknowledged is not None)
    undone = frozenset(one.sequence for one in ours if one.failed)
    return Transactions(done, undone, frozenset(one.sequence for one in ours) - done - undone)


def judge(known: Transactions, found: Found) -> Iterator[tuple[int, TransactionFate]]:
    """Yield what became of each transaction that is known or was found.

    The one after the last that is known may have begun unseen, as its line was on its way when the
    power went: it counts as in flight.
    """
    begun = known.acknowledged | known.rolled_back | known.in_flight
    unseen = max(begun, default=0) + 1
    for number in sorted(begun | found.states.keys()):
        state = found.states.get(number)
        if state is State.TORN:
            yield number, TransactionFate.TORN
        elif number in known.acknowledged:
            yield number, TransactionFate.KEPT if state else TransactionFate.LOST
        elif state is None:
            yield number, TransactionFate.ABSENT
        elif number in known.in_flight or number == unseen:
            yield number, TransactionFate.LANDED
        else:
            yield number, TransactionFate.RESURRECTED


def check(log: WitnessLog, found: Found, name: str) -> CutFindings:
    """Return the findings of one cut of the application `name`."""
    known = from_log(log)
    promised, in_flight = Counter[str](), Counter[str]()
    violations: list[Violation] = []
    for number, fate in judge(known, found):
        acknowledged = number in known.acknowledged
        if acknowledged:
            promised[fate] += 1
        elif number not in known.rolled_back:
            in_flight[fate] += 1
        if fate in BROKEN:
            promised_by = number if acknowledged else 0
            violations.append(Violation(fate, name, number, 0, 0, 0, promised_by, is_transaction=True))
    return CutFindings(
        phase=witness_log.phase(log),
        violations=violations,
        promised=dict(promised),
        acknowledged={},
        in_flight=dict(in_flight),
        flushes=len(known.acknowledged),
        reordered=0,
        unreported_sectors=0,
        beyond={f"{UNREADABLE}: {found.problem}": 1} if found.problem else {},
    )
