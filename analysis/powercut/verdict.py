# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a drive, or on a file system on it, after a number of power cuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from joulerig.analysis.powercut import confidence
from joulerig.analysis.powercut.check import CutFindings
from joulerig.plural import counted


@dataclass(frozen=True)
class Verdict:
    """Sums over cuts of one subject.

    `cuts` counts those that say something: in which a write had been promised. `void_cuts`: the
    others. `broken_cuts`: in which a promise was broken. `loss_probability_high`: upper bound,
    one-sided where no cut broke a promise, of the two-sided interval (with `loss_probability_low`)
    where one did.
    """

    subject: str
    cuts: int
    void_cuts: int
    broken_cuts: int
    phases: dict[str, int]
    flushes: int
    promised_writes: int
    broken_promises: int
    broken_by_fate: dict[str, int]
    acknowledged_lost: int
    acknowledged_torn: int
    acknowledged_corrupt: int
    reordered: int
    beyond: dict[str, int]
    loss_probability_low: float
    loss_probability_high: float
    statement: str


def from_cuts(subject: str, findings: Iterable[CutFindings]) -> Verdict:
    """Return the verdict on `subject` from the findings of its cuts."""
    everything = list(findings)
    cuts = [f for f in everything if f.checkable or f.violations]
    broken = [f for f in cuts if f.violations]
    lost: Counter[str] = sum((Counter(f.acknowledged) for f in cuts), Counter())
    promised = sum(sum(f.promised.values()) for f in cuts)
    flushes = sum(f.flushes for f in cuts)
    if broken:
        low, high = confidence.interval(len(broken), len(cuts))
    else:
        low, high = 0.0, confidence.upper_bound(0, len(cuts))
    return Verdict(
        subject=subject,
        cuts=len(cuts),
        void_cuts=len(everything) - len(cuts),
        broken_cuts=len(broken),
        phases=dict(sorted(Counter(f.phase for f in cuts).items())),
        flushes=flushes,
        promised_writes=promised,
        broken_promises=sum(len(f.violations) for f in cuts),
        broken_by_fate=dict(sorted(Counter(v.what for f in cuts for v in f.violations).items())),
        acknowledged_lost=lost["lost"] + lost["stale"],
        acknowledged_torn=lost["torn"],
        acknowledged_corrupt=lost["corrupt"],
        reordered=sum(f.reordered for f in cuts),
        beyond=dict(sum((Counter(f.beyond) for f in cuts), Counter())),
        loss_probability_low=low,
        loss_probability_high=high,
        statement=_statement(subject, cuts, broken, promised, flushes, low, high),
    )


def _statement(
    subject: str,
    cuts: Sequence[CutFindings],
    broken: Sequence[CutFindings],
    promised: int,
    flushes: int,
    low: float,
    high: float,
) -> str:
    if not cuts:
        return f"{subject}: no cut in which anything had been promised; nothing can be said."
    level = f"{100 * confidence.CONFIDENCE:g} %"
    tried = (
        f"{counted(len(cuts), 'power cut')} ({counted(flushes, 'acknowledged flush')},"
        f" {counted(promised, 'promised write')} at risk)"
    )
    if broken:
        return (
            f"{subject}: breaks its promise: {len(broken)} of {tried} lost or damaged what had been promised;"
            f" probability of that per cut {_percent(low)} to {_percent(high)} ({level} confidence interval,"
            " Clopper-Pearson), for cuts and load as these were."
        )
    for_a_percent = confidence.trials_for(0.01)
    needed = "" if len(cuts) >= for_a_percent else f" {for_a_percent} such cuts would bound it below 1 %."
    return (
        f"{subject}: no promise was broken in {tried}. If cuts are independent and alike, the probability"
        f" that one breaks a promise is below {_percent(high)} at {level} confidence (one-sided"
        f" Clopper-Pearson), for cuts and load as these were; that is not a proof that it never does.{needed}"
    )


def _percent(probability: float) -> str:
    return f"{100 * probability:.3g} %"
