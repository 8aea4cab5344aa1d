# SPDX-License-Identifier: GPL-3.0-or-later
"""When to cut: a phase of the writer, and a random moment in it."""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from typing import Any

from joulerig.rig.powercut.witness import ANSWERED, Choice

# By the name of joulerig.analysis.powercut.witness_log.phase where the moment is aimed at one.
PHASES = ("write", "between", "flush", "idle", "any")
OPERATIONS = (30, 80)  # acknowledged ones before the cut: enough that there is something to lose
PROMISES = 2  # of a drive that is cut with another: energy is measured from one to a later one
IDLE_SECONDS = 0.05
ANY_SECONDS = (0.0, 1.0)
TRANSACTION = "transaction"  # an application's, which is both: its acknowledgement is its promise
WRITES = ("write", "durable-write", TRANSACTION)
FLUSHES = ("flush", "flush-names", TRANSACTION)
AFTER = {"between": ("write", TRANSACTION), "idle": FLUSHES}
DURING = {"write": WRITES, "flush": FLUSHES}


class Moment:
    """Choose the moment of a cut by the phase of the writer.

    `write` and `flush`: an operation is in flight, for a fraction of the time that such operations
    took so far; `between`: acknowledged writes wait for a flush; `idle`: all that was acknowledged
    is promised; `any`: a time on the clock, whatever the writer is doing then. None comes before
    something is promised, and none before `arm` where it is made with `armed=False`.

    What the writer was really doing is in the witness log: an operation may be done before the
    power has gone.
    """

    def __init__(
        self,
        phase: str,
        random_: random.Random,
        *,
        operations: tuple[int, int] = OPERATIONS,
        any_seconds: tuple[float, float] = ANY_SECONDS,
        armed: bool = True,
    ) -> None:
        if phase not in PHASES:
            raise ValueError(f"phase {phase!r}; allowed: {', '.join(PHASES)}")
        self.phase = phase
        self._random = random_
        self._any_seconds = any_seconds
        self._armed = armed
        self._left = random_.randint(*operations)
        self._promised = False
        self._asked: dict[int, tuple[str, float]] = {}
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def arm(self) -> None:
        """From here on the moment may come; called from another thread than `saw` is."""
        self._armed = True

    def saw(self, line: dict[str, Any]) -> Choice | None:
        now = time.monotonic()
        if line["event"] == "issued":
            self._asked[line["sequence"]] = (line["operation"], now)
            return self._in_flight(line["operation"])
        if line["event"] not in ANSWERED:
            return None
        operation, asked = self._asked.pop(line["sequence"], ("", now))
        if line["event"] == "acknowledged":
            self._seconds[operation].append(now - asked)
            self._promised = self._promised or operation in FLUSHES
        elif operation != TRANSACTION:
            return None  # its target has gone; but a transaction was rolled back: cut after that too
        self._left -= 1
        if not self._may_come():
            return None
        if self.phase == "any":
            return Choice(self._random.uniform(*self._any_seconds), hold=False)
        if operation in AFTER.get(self.phase, ()) and not self._asked:
            return Choice(self._random.uniform(0, IDLE_SECONDS), hold=True)
        return None

    def _in_flight(self, operation: str) -> Choice | None:
        if not self._may_come() or operation not in DURING.get(self.phase, ()):
            return None
        usual = statistics.median(self._seconds[operation]) if self._seconds[operation] else 0.0
        return Choice(self._random.uniform(0, usual), hold=True)

    def _may_come(self) -> bool:
        return self._armed and self._promised and self._left <= 0


class AtWork:
    """The trigger of a witness whose drive is cut when another's moment has come: it chooses none.

    It sees whether the writer has promised something that a cut can break.
    """

    def __init__(self) -> None:
        self._asked: dict[int, str] = {}
        self._left = PROMISES

    def saw(self, line: dict[str, Any]) -> Choice | None:
        if line["event"] == "issued":
            self._asked[line["sequence"]] = line["operation"]
        elif line["event"] in ANSWERED and self._asked.pop(line["sequence"], "") in FLUSHES:
            self._left -= line["event"] == "acknowledged"
        return None

    @property
    def has_promised(self) -> bool:
        """Whether it has; asked by another thread than the one that calls `saw`."""
        return self._left <= 0
