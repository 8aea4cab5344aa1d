# SPDX-License-Identifier: GPL-3.0-or-later
"""When to give up a campaign on one host before its plan is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from joulerig.analysis.results.schema import WORKED, Status
from joulerig.plural import counted
from joulerig.rig.campaign.definition import StopRule
from joulerig.rig.common.errors import UserError

Taken = TypeVar("Taken")


class Stopping:
    """Counts failures in a row, and hours since it was made, against a campaign's stop rule."""

    def __init__(self, rule: StopRule, host: str, clock: Callable[[], float]) -> None:
        self._rule, self._host, self._clock = rule, host, clock
        self._began, self._failures = clock(), 0

    def next(self, take: Callable[[], Taken]) -> Taken:
        """Return what `take` returns. Raises UserError where the rule ends the campaign first."""
        if self._failures >= self._rule.failures_in_a_row:
            raise UserError(
                f"{self._host}: stopped after {counted(self._failures, 'failed run')} in a row;"
                " the remaining runs stay planned"
            )
        if self._rule.hours and self._clock() - self._began > self._rule.hours * 3600:
            raise UserError(
                f"{self._host}: stopped after {counted(self._rule.hours, 'hour')};"
                " the remaining runs stay planned"
            )
        return take()

    def count(self, status: str) -> None:
        """Count a run that ended. One that was not begun says nothing about the next."""
        if status not in (Status.REFUSED, Status.NOT_RUN):
            self._failures = 0 if status in WORKED else self._failures + 1
