# SPDX-License-Identifier: GPL-3.0-or-later
"""A line of the checklist of `rig verify`, and how numbers are compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from joulerig.plural import counted

OK, FAILED, UNCHECKABLE = "ok", "FAILED", "not checkable"
# Another processor may add in another order, which changes the last bits: of the number, and of
# what is zero.
TOLERANCE, ZERO = 1e-9, 1e-12
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Check:
    """A line of the checklist.

    `detail`: counts, or why it cannot be checked; `offenders`: what is wrong, a line each.
    """

    name: str
    state: str
    detail: str = ""
    offenders: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the lines for a terminal: one, and one for each of the first offenders."""
        shown = [f"    {offender}" for offender in self.offenders[:_MOST_SHOWN]]
        if len(self.offenders) > _MOST_SHOWN:
            shown.append(f"    and {len(self.offenders) - _MOST_SHOWN} more")
        return [f"{self.state:14}{self.name}{f': {self.detail}' if self.detail else ''}", *shown]


def judged(name: str, detail: str, offenders: Sequence[str]) -> Check:
    """Return a check that was made: ok where there are no offenders, failed otherwise."""
    return Check(name, FAILED if offenders else OK, detail, tuple(offenders))


def uncheckable(name: str, why: str) -> Check:
    return Check(name, UNCHECKABLE, why)


@dataclass
class Tally:
    """The result of comparing recomputed numbers with stored ones.

    `unchecked`: what could not be compared, and why.
    """

    compared: int = 0
    offenders: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def same(self, where: str, stored: Any, again: Any) -> None:
        """Compare one number or text."""
        self.compared += 1
        if not alike(stored, again):
            self.offenders.append(f"{where}: {shown(stored)} is stored, {shown(again)} comes out")

    def check(self, name: str, noun: str, plural: str = "") -> Check:
        """Return the line of the checklist, which counts what was compared as `noun`.

        It is not checkable where nothing could be compared, but should have been.
        """
        left = f"; not checkable: {_few(self.unchecked)}" if self.unchecked else ""
        if not self.compared and not self.offenders:
            return uncheckable(name, _few(self.unchecked) or f"there is no {noun}")
        return judged(name, f"{counted(self.compared, noun, plural)}{left}", self.offenders)


def alike(stored: Any, again: Any) -> bool:
    """Return whether two values are the same.

    Floats are the same within `TOLERANCE` of their size or `ZERO`, other values only if equal and
    of one type.
    """
    if isinstance(stored, float) or isinstance(again, float):
        if not _is_number(stored) or not _is_number(again):
            return stored is None and again is None
        if math.isnan(stored) or math.isnan(again):
            return math.isnan(stored) and math.isnan(again)
        return math.isclose(stored, again, rel_tol=TOLERANCE, abs_tol=ZERO)
    return type(stored) is type(again) and stored == again


def shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _few(parts: Sequence[str]) -> str:
    shown = "; ".join(parts[:2])
    return f"{shown}; and {len(parts) - 2} more" if len(parts) > 2 else shown
