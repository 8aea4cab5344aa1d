# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether the process that claimed a campaign still executes it.

A process of this machine is looked up. One that can't be seen from here (another machine, a
container) is known by its heartbeat, which `rig/campaign/claims/heartbeat.py` renews.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Self

from joulerig.plural import counted
from joulerig.rig.common import process

BEAT_SECONDS = 60.0
STALE_SECONDS = 180.0  # a heartbeat may be late where a results folder is slow
LAST_NS = 2**62  # in the year 2116
WATCH_SECONDS = BEAT_SECONDS + 15.0  # so long a living executor of whichever clock is not silent


class Standing(Enum):
    """The standing of a campaign with its executor."""

    FREE = "no process executes it"
    EXECUTED = "a process executes it"
    SILENT = "nothing is heard of the process that executes it"


@dataclass(frozen=True)
class Claim:
    """A campaign's claim, as its journal has it.

    `executor`: `process.identity`; None: no process executed it. `heartbeat_ns`: when that was last
    known to be alive, by its machine's clock; None: it has ended.
    """

    executor: str | None
    heartbeat_ns: int | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any] | sqlite3.Row) -> Self:
        """Return the claim in a row of table campaign; an odd heartbeat is one of long ago."""
        heartbeat = row["heartbeat_ns"]
        is_odd = not isinstance(heartbeat, int) or not 0 <= heartbeat < LAST_NS
        return cls(row["executor"] or None, 0 if heartbeat is not None and is_odd else heartbeat)

    @property
    def standing(self) -> Standing:
        """Judge the claim."""
        if not self.executor:
            return Standing.FREE
        alive = process.is_alive(self.executor)
        if alive is not None:
            return Standing.EXECUTED if alive else Standing.FREE
        if self.heartbeat_ns is None or (
            # Else it has the id of this machine, and lives: it is a copy of it.
            process.is_of_earlier_boot(self.executor) and self.heartbeat_ns < process.boot_ns()
        ):
            return Standing.FREE
        return Standing.EXECUTED if self.age < STALE_SECONDS else Standing.SILENT

    @property
    def age(self) -> float:
        """Return the seconds since the heartbeat; negative where its machine's clock is ahead."""
        assert self.heartbeat_ns is not None
        return (time.time_ns() - self.heartbeat_ns) / 1e9

    @property
    def may_be_taken_over(self) -> bool:
        """Check whether no heartbeat shows a living executor that can't be seen from here.

        One of a later time shows nothing: its machine's clock is wrong, or this one's.
        """
        standing = self.standing
        return standing == Standing.SILENT or (
            standing == Standing.EXECUTED and self._is_unseen and self.age < 0
        )

    def obstacle(self, resumption: str) -> str:
        """Say why no other process may execute the campaign, and the way on; empty if one may.

        `resumption`: the command that resumes it.
        """
        standing = self.standing
        if standing == Standing.FREE or not self.executor:
            return ""
        who, take_over = process.shown(self.executor), f"'{resumption} --take-over' takes it over"
        if standing == Standing.SILENT:
            return (
                f"{who}, which executed it, was last heard of at {self._time()}; if it is dead, {take_over}"
            )
        if not self._is_unseen:
            return f"is executed by {who}; wait for its end, or end it by 'rig stop'"
        if self.age < 0:
            heard = f"heard of {counted(round(-self.age), 'second')} ahead of this machine's clock"
            when = ""
        else:
            heard = f"heard of {counted(round(self.age), 'second')} ago"
            when = f" from {self._time(STALE_SECONDS)} on"
        return (
            f"is executed by {who}, {heard}; wait for its end, or end it by 'rig stop'; if it is dead,"
            f" {take_over}{when}"
        )

    @property
    def end(self) -> str:
        """Say how the process that executed it came to be gone."""
        who = process.shown(self.executor or "")
        if self.standing == Standing.SILENT:
            return f"{who} was last heard of at {self._time()}"
        return f"{who} has ended"

    @property
    def _is_unseen(self) -> bool:
        return self.executor is not None and process.is_alive(self.executor) is None

    def _time(self, later: float = 0.0) -> str:
        assert self.heartbeat_ns is not None
        return f"{datetime.fromtimestamp(self.heartbeat_ns / 1e9 + later, UTC):%Y-%m-%d %H:%M:%S} UTC"
