# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a campaign's cells: whether AI fell further than allowed from a baseline's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from joulerig.analysis.compare import campaigns
from joulerig.analysis.compare.campaigns import Change
from joulerig.analysis.results.campaign import Campaign
from joulerig.plural import counted

ALLOWED_FALL = 0.05


class Outcome(StrEnum):
    """What became of a cell of the baseline."""

    HELD = "held"
    FELL = "fell"
    UNDECIDED = "undecided"
    MISSING = "missing"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a cell, why, in words, and the change that it rests on (None: missing)."""

    cell: str
    outcome: Outcome
    why: str
    change: Change | None = None


def judge(before: Campaign, after: Campaign, allowed: float = ALLOWED_FALL) -> list[Verdict]:
    """Return the verdict on each cell with an AI in `before`, in its order.

    `allowed`: the fall of AI that passes, a share. A cell fell where the whole interval of its
    change lies below that, and held where none of it does; else its runs decide nothing. The
    intervals are `campaigns.changes`'s, which hold for all cells together: where nothing changed,
    some cell is said to have fallen in at most 5 % of campaigns.
    """
    found = {change.cell: _verdict(change, allowed) for change in campaigns.changes(before, after)}
    missing = campaigns.only_in(before, after)
    found |= {cell: Verdict(cell, Outcome.MISSING, f"no AI in {after.id}") for cell in missing}
    return [found[cell] for cell in before.cells() if cell in found]


def passes(verdicts: Sequence[Verdict], *, decided: bool = False) -> bool:
    """Return whether nothing fell and nothing is missing; `decided`: and everything held."""
    return bool(verdicts) and not any(fails(one, decided=decided) for one in verdicts)


def fails(verdict: Verdict, *, decided: bool = False) -> bool:
    """Return whether a verdict fails its campaign; `decided`: an undecided one does too."""
    if verdict.outcome is Outcome.UNDECIDED:
        return decided
    return verdict.outcome is not Outcome.HELD


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many cells came to what, in words."""
    if not verdicts:
        return "no cell of the baseline has an AI"
    counts = Counter(one.outcome for one in verdicts)
    [first, *more] = [(outcome, counts[outcome]) for outcome in Outcome if counts[outcome]]
    said = [f"{counted(first[1], 'cell')} {first[0]}", *(f"{count} {outcome}" for outcome, count in more)]
    return ", ".join(said)


def _verdict(change: Change, allowed: float) -> Verdict:
    if change.low is None or change.high is None or change.ratio is None:
        return Verdict(change.cell, Outcome.UNDECIDED, change.why, change)
    why = (
        f"AI {100 * change.ratio:+.2f} % ({100 * change.low:+.2f} to {100 * change.high:+.2f} %);"
        f" a fall of {100 * allowed:g} % is allowed"
    )
    if change.high < -allowed:
        return Verdict(change.cell, Outcome.FELL, why, change)
    if change.low >= -allowed:
        return Verdict(change.cell, Outcome.HELD, why, change)
    return Verdict(change.cell, Outcome.UNDECIDED, f"{why}; more replicates narrow it", change)
