# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run is held for before it begins: conditions that pass.

A run that begins without InfluxDB or powerd costs the drive's wear and has no energy until both are
back; one that begins with a full disk has no results; one on a hot drive or a loaded host has
results of something else. A condition that cannot be examined holds nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from joulerig.rig.common.errors import UserError

LOOK_SECONDS = 5.0
Run = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """`check` says what is wrong for a run, or nothing.

    `seconds`: how long a run waits before it begins without it, and `without` says what that means;
    0 only warns, None: for ever. `of_drive`: it may be met for one drive's runs and not for
    another's. `look_seconds`: between checks while a run waits.
    """

    name: str
    check: Callable[[Run], str]
    seconds: float | None = None
    without: str = ""
    of_drive: bool = False
    look_seconds: float = LOOK_SECONDS


class Noted(Protocol):
    """Keeps that a run begins to wait for a condition (`why`), or no longer does (empty)."""

    def __call__(self, run: Run, condition: str, why: str) -> None: ...


class Holds:
    """Holds runs while a condition is not met. `clock`, `sleep`: time.monotonic and time.sleep.

    What lasted longer than its time is waited for again only once it was met in between: a run
    after the other would wait that long.
    """

    def __init__(
        self,
        conditions: Sequence[Condition],
        note: Noted,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._conditions, self._note, self._clock, self._sleep = conditions, note, clock, sleep
        self._given_up: set[tuple[str, str]] = set()

    def wait(self, run: Run, say: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        """Wait until every condition is met or has had its time, or it is `stopped`."""
        for condition in self._conditions:
            self._wait(condition, run, say, stopped)

    def _wait(
        self, condition: Condition, run: Run, say: Callable[[str], None], stopped: Callable[[], bool]
    ) -> None:
        why = condition.check(run)
        key = (condition.name, str(run["drive"]) if condition.of_drive else "")
        if why and key not in self._given_up:
            say(f"waiting: {why}" if condition.seconds != 0 else why)
            self._note(run, condition.name, why)
            began = self._clock()
            while why and not stopped():
                if condition.seconds is not None and self._clock() - began >= condition.seconds:
                    if condition.seconds:
                        say("; ".join(filter(None, [f"{why}: going on without it", condition.without])))
                    self._given_up.add(key)
                    break
                self._sleep(condition.look_seconds)
                why = condition.check(run)
            if not why:
                say(f"{condition.name}: in order again")
            self._note(run, condition.name, "")
        if not why:
            self._given_up.discard(key)


def error_of(call: Callable[[], object]) -> str:
    """Return the error of a call in words; empty where it has none."""
    try:
        call()
    except UserError as error:
        return str(error)
    return ""
