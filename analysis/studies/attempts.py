# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a study's claims by all of its attempts together; their order changes nothing.

An attempt is a campaign. On a virtual lab it runs at one factor k of slow motion. What is measured
there of a claim about time or energy may depend on k, so it is decided only where two neighbouring
factors of the registered ladder, the greatest that ran, each decide it alike and their intervals
overlap. Attempts at one k are pooled, as if their blocks were of one campaign. Where the 95 %
intervals of two attempts exclude each other the claim is open.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from joulerig.analysis.studies.claims import (
    DOES_NOT,
    GIVEN,
    HOLDS,
    NO_BLOCK,
    NOT_GIVEN,
    OPEN,
    Effect,
    Measured,
    Verdict,
    joined,
    pool,
)
from joulerig.analysis.studies.registration import Registration

OF_A_PROFILE = {HOLDS: GIVEN, DOES_NOT: NOT_GIVEN}
UNREGISTERED = "not registered before it ran"


@dataclass(frozen=True)
class Attempt:
    """A campaign of a study, and what it measured of each claim.

    `slow_motion`: k; None where it is not recorded. `registration`: what was fixed before it ran;
    None where nothing was.
    """

    name: str
    slow_motion: float | None
    virtual: bool
    registration: Registration | None
    measured: Sequence[Measured]


_Row = tuple[Attempt, Measured]


def judge(attempts: Sequence[Attempt], registration: Registration | None) -> list[Verdict]:
    """Judge each claim, and what it is about, by all attempts together.

    Parameters
    ----------
    attempts : sequence of Attempt
    registration : Registration or None
        The one that decides. An attempt that ran with another, or with none, can contradict and
        cannot decide.

    Returns
    -------
    list of Verdict
        In the order of the attempt with the least k. All intervals hold together at 95 %
        (Bonferroni over the effects that have an interval): one error rate for the table.
    """
    ordered = sorted(attempts, key=lambda one: (one.slow_motion or 0.0, one.name))
    rows: dict[tuple[str, str], list[_Row]] = {}
    for attempt in ordered:
        for measured in attempt.measured:
            rows.setdefault((measured.claim.key, measured.where), []).append((attempt, measured))
    tests = sum(any(map(_has_interval, _counted(group, registration))) for group in rows.values())
    return [_judge(group, max(1, tests), registration) for group in rows.values()]


def _counted(group: Sequence[_Row], registration: Registration | None) -> list[_Row]:
    """Return what attempts with this registration measured: that alone decides."""
    return [row for row in group if row[1].effect is not None and row[0].registration == registration]


def _has_interval(row: _Row) -> bool:
    return row[1].effect is not None and bool(row[1].effect.ratios)


def _judge(group: Sequence[_Row], tests: int, registration: Registration | None) -> Verdict:
    _, last = group[-1]
    evidence = [(attempt, one) for attempt, one in group if one.effect is not None]
    if not evidence:
        why = "; ".join(dict.fromkeys(one.obstacle or NO_BLOCK for _, one in group))
        return _open(last, why)
    counted = _counted(group, registration)
    if registration is None or not counted:
        return _undecided(evidence, evidence, UNREGISTERED)
    on_a_profile = not last.claim.from_the_io_path and any(attempt.virtual for attempt, _ in counted)
    if not on_a_profile:
        return _decided([counted], evidence, tests, registration)
    ran = sorted({attempt.slow_motion for attempt, _ in counted if attempt.slow_motion is not None})
    if lacking := _lacking(ran, registration.ladder):
        return _undecided(counted, evidence, lacking, tests)
    deciding = [[row for row in counted if row[0].slow_motion == k] for k in ran[-2:]]
    unknown = [row for row in counted if row[0].slow_motion is None]
    rivals = [*unknown, *(row for row in evidence if (row[0].slow_motion or 0.0) >= ran[-2])]
    found = _decided(deciding, rivals, tests, registration)
    return replace(found, verdict=OF_A_PROFILE.get(found.verdict, found.verdict))


def _lacking(ran: Sequence[float], ladder: Sequence[float]) -> str:
    """Return why these factors of slow motion cannot decide; empty where they can."""
    rungs = ", ".join(f"{k:g}" for k in ladder)
    if len(ran) < 2:
        alone = f"slow motion {ran[0]:g} alone" if ran else "slow motion is not known"
        return f"{alone}: two neighbouring factors of {rungs} must agree"
    if (ran[-2], ran[-1]) not in itertools.pairwise(ladder):
        return f"slow motion {ran[-2]:g} and {ran[-1]:g} are no neighbours in {rungs}"
    return ""


def _decided(
    deciding: Sequence[Sequence[_Row]], rivals: Sequence[_Row], tests: int, registration: Registration
) -> Verdict:
    """Judge by each group of attempts, pooled; open where they, or any two rivals, disagree."""
    pooled = [(rows[0][0], _pool(rows, registration)) for rows in deciding]
    verdicts = [
        one.judged(tests, registration.claim(one.claim.key).least, registration.greatest_width)
        for _, one in pooled
    ]
    found = verdicts[-1]
    if why := _disagreement(rivals) or _disagreement(pooled):
        return replace(found, verdict=OPEN, why=joined(why, found.why))
    open_ones = [one for one in verdicts if one.verdict == OPEN]
    if open_ones:
        return replace(found, verdict=OPEN, why="; ".join(dict.fromkeys(one.why for one in open_ones)))
    if len({one.verdict for one in verdicts}) > 1:
        each = ", ".join(
            f"{one.verdict} at {rows[0][0].slow_motion:g}"
            for one, rows in zip(verdicts, deciding, strict=True)
        )
        return replace(found, verdict=OPEN, why=joined(f"depends on k: {each}", found.why))
    if len(deciding) > 1:
        agree = " and ".join(f"{rows[0][0].slow_motion:g}" for rows in deciding)
        return replace(found, why=joined(f"alike at slow motion {agree}", found.why))
    return found


def _pool(rows: Sequence[_Row], registration: Registration) -> Measured:
    """Return what attempts at one k measured together, without those that have an obstacle."""
    able = [one for _, one in rows if not one.obstacle] or [one for _, one in rows]
    effects = [one.effect for one in able if one.effect is not None]
    try:
        pooled = replace(able[-1], effect=pool(effects))
    except ValueError:
        pooled = replace(able[-1], obstacle="the attempts compared different cells")
    blocks = sum(one.blocks for one in effects)
    if blocks < registration.blocks:
        short = f"{blocks} of the {registration.blocks} registered blocks"
        pooled = replace(pooled, obstacle=joined(pooled.obstacle, short))
    return pooled


def _undecided(shown: Sequence[_Row], evidence: Sequence[_Row], why: str, tests: int = 1) -> Verdict:
    """Return an open verdict with the effect at the greatest k, and all reasons for it."""
    _, last = shown[-1]
    return _open(last, joined(_disagreement(evidence), last.obstacle, why, last.note), tests)


def _open(measured: Measured, why: str, tests: int = 1) -> Verdict:
    effect = measured.effect and measured.effect.simultaneous(tests)
    return Verdict(measured.claim, measured.where, OPEN, measured.expected, effect, why)


def _disagreement(rows: Sequence[_Row]) -> str:
    """Return which two attempts exclude each other, first of those at one k; empty where none do.

    By the 95 % intervals of each effect alone: that finds a disagreement sooner than those of the
    whole table. Of effects of all runs it is the verdict that has to be the same.
    """
    pairs = sorted(itertools.combinations(rows, 2), key=_at_different_k)
    for one, other in pairs:
        if _exclude(one[1], other[1]):
            depends = "depends on k" if _at_different_k((one, other)) else "attempts disagree"
            return f"{depends}: {_described(one)}, {_described(other)}"
    return ""


def _at_different_k(pair: tuple[_Row, _Row]) -> bool:
    return pair[0][0].slow_motion != pair[1][0].slow_motion


def _exclude(one: Measured, other: Measured) -> bool:
    first, second = one.effect, other.effect
    assert first is not None
    assert second is not None
    if not first.ratios and not second.ratios:
        return one.judged().verdict != other.judged().verdict and not (one.obstacle or other.obstacle)
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return first.high < second.low or second.high < first.low


def _described(row: _Row) -> str:
    attempt, measured = row
    effect: Effect | None = measured.effect
    assert effect is not None
    at = "an unknown k" if attempt.slow_motion is None else f"{attempt.slow_motion:g}"
    return f"{effect.value:.3g} ({effect.low:.3g} to {effect.high:.3g}) at {at}"
