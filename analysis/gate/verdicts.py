# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on a campaign's cells: whether AI fell further than allowed from a baseline's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from joulerig.analysis.compare import campaigns
from joulerig.analysis.compare.campaigns import COMMON, Change, Comparison, Movement
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.statistics.movements import Deviation
from joulerig.plural import counted

ALLOWED_FALL = 0.05
SIGHT = 4  # allowed falls: an interval that reaches further shows nothing of what a gate is for


class Outcome(StrEnum):
    """What became of a cell of the baseline."""

    HELD = "held"
    FELL = "fell"
    UNDECIDED = "undecided"
    MISSING = "missing"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a cell, or of all together (`COMMON`), why, in words, and what it rests on.

    `blind`: undecided, and the fall may be so large that the gate does not see what it is for.
    `change` is None where nothing could be compared.
    """

    cell: str
    outcome: Outcome
    why: str
    change: Change | Movement | None = None
    blind: bool = False


def refusal(before: Campaign, after: Campaign) -> str:
    """Return why no gate can judge these campaigns, in one line; empty where one can."""
    for campaign in (before, after):
        cells = [len([run for run in runs if run.counts]) for runs in campaign.cells().values()]
        if max(cells, default=0) == 1:
            return f"{campaign.id}: has one run a cell, and no spread; a gate needs 2, and 5 to see much"
    return ""


def judge(
    before: Campaign,
    after: Campaign,
    allowed: float = ALLOWED_FALL,
    deviation: Deviation | None = None,
) -> list[Verdict]:
    """Return the verdict on each cell with an AI in `before`, in its order, and on all together.

    `allowed`: the fall of AI that passes, a share. `deviation`: what is known of how much campaigns
    differ. A cell is judged by what it did apart from the others, and all together by what they
    have in common (`campaigns.compare`). It fell where the whole interval of its change lies below
    what is allowed, and held where none of it does; else its runs decide nothing. The intervals
    hold for all cells together: where nothing changed, a cell, or all together, are said to have
    fallen in at most 5 % of campaigns (2.5 % each, as half of an interval's errors are falls).
    """
    judged = judge_compared(campaigns.compare(before, after, deviation), allowed)
    missing = campaigns.only_in(before, after)
    found = {one.cell: one for one in judged}
    found |= {cell: Verdict(cell, Outcome.MISSING, f"no AI in {after.id}") for cell in missing}
    order = [*before.cells(), COMMON]
    return [found[cell] for cell in order if cell in found]


def judge_compared(compared: Comparison, allowed: float = ALLOWED_FALL) -> list[Verdict]:
    """Return the verdicts on compared cells, and on all together."""
    judged = [_verdict(change, allowed) for change in compared.changes]
    return judged if compared.common is None else [*judged, _verdict_on_all(compared.common, allowed)]


def passes(verdicts: Sequence[Verdict], *, decided: bool = False) -> bool:
    """Return whether no verdict fails, of at least one; `decided`: and everything held."""
    return bool(verdicts) and not any(fails(one, decided=decided) for one in verdicts)


def fails(verdict: Verdict, *, decided: bool = False) -> bool:
    """Return whether a verdict fails its campaign.

    An undecided one does if it is blind; `decided`: any does.
    """
    if verdict.outcome is Outcome.UNDECIDED:
        return decided or verdict.blind
    return verdict.outcome is not Outcome.HELD


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return how many cells came to what, and all together, in words."""
    if not verdicts:
        return "no cell of the baseline has an AI"
    cells = [one for one in verdicts if one.cell != COMMON]
    counts = Counter(one.outcome for one in cells)
    [first, *more] = [(outcome, counts[outcome]) for outcome in Outcome if counts[outcome]]
    said = [f"{counted(first[1], 'cell')} {first[0]}", *(f"{count} {outcome}" for outcome, count in more)]
    said += [f"{COMMON}: {one.outcome}" for one in verdicts if one.cell == COMMON]
    return ", ".join(said)


def sight(allowed: float) -> float:
    """Return the fall beyond which an undecided interval must not reach.

    Where no fall is allowed it is that of the default, as nothing can be shown not to have fallen
    at all.
    """
    return SIGHT * (allowed or ALLOWED_FALL)


def _verdict(change: Change, allowed: float) -> Verdict:
    if change.low is None or change.high is None or change.ratio is None:
        return Verdict(change.cell, Outcome.UNDECIDED, change.why, change, blind=True)
    why = _why(change, allowed)
    blind = change.low < -sight(allowed)
    if change.p is None:
        return Verdict(change.cell, Outcome.UNDECIDED, f"{why}; {change.why}", change, blind)
    outcome = _outcome(change.low, change.high, allowed)
    if outcome is not Outcome.UNDECIDED:
        return Verdict(change.cell, outcome, why, change)
    wide = f"beyond {100 * sight(allowed):g} % it shows too little" if blind else "open"
    return Verdict(change.cell, outcome, f"{why}; {wide}: more replicates narrow it", change, blind)


def _verdict_on_all(common: Movement, allowed: float) -> Verdict:
    """Judge what all cells did together: a drive, a day or a meter does that.

    Without a known deviation between campaigns only a fall that no day makes fails. With one, more
    replicates do not narrow the interval, so that it fails only where it is wider than the gate's
    sight.
    """
    why = f"{_why(common, allowed)}; drive, day or meter"
    if not common.known:
        least = max(sight(allowed), sight(ALLOWED_FALL))
        why += ": by the runs alone, as how much campaigns differ is not known"
        return Verdict(COMMON, Outcome.UNDECIDED, why, common, common.low < -least)
    outcome = _outcome(common.low, common.high, allowed)
    blind = outcome is Outcome.UNDECIDED and common.ratio - common.low > sight(allowed)
    return Verdict(COMMON, outcome, why, common, blind)


def _why(change: Change | Movement, allowed: float) -> str:
    middle, low, high = (100 * end for end in (change.ratio, change.low, change.high) if end is not None)
    return f"AI {middle:+.2f} % ({low:+.2f} to {high:+.2f} %); a fall of {100 * allowed:g} % is allowed"


def _outcome(low: float, high: float, allowed: float) -> Outcome:
    if high < -allowed:
        return Outcome.FELL
    return Outcome.HELD if low >= -allowed else Outcome.UNDECIDED
