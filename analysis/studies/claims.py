# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what a study published by a campaign: an effect with its interval, and the verdict.

A verdict is never looser than its interval: a claim holds where all of the interval agrees with it,
does not hold where nothing of it does, and is open otherwise, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import pace
from joulerig.analysis.statistics.interval import CONFIDENCE

HOLDS, DOES_NOT, OPEN = "holds", "does not hold", "can't tell"
LEAST_DEVICE_BOUND = 0.5  # of the time; with less, a claim about speed or energy is one about the host

Figure = Callable[[Run], float | None]


@dataclass(frozen=True)
class Claim:
    """A claim of a study.

    `key`: its name in files. `text`: what was found, in one sentence. `origin`: "published", or
    "inferred" from what was. `from_the_io_path`: whether it follows from the I/O path alone
    (volumes, flushes, seeks), so that the virtual lab must reproduce it: `make studies` fails where
    it does not.
    """

    key: str
    text: str
    origin: str = "published"
    from_the_io_path: bool = False


class Effect(NamedTuple):
    """A ratio, from `low` to `high` (95 %), over so many blocks.

    `low` and `high` are None where there are too few blocks for an interval.
    """

    value: float
    low: float | None
    high: float | None
    blocks: int


@dataclass(frozen=True)
class Verdict:
    """What a campaign says of a claim.

    `where`: the drive, and what else it is about. `expected`: what the effect ought to be, in
    words. `why`: where it is open, the reason; else what is behind it, if that is known.
    """

    claim: Claim
    where: str
    verdict: str
    expected: str
    effect: Effect | None
    why: str


def ratio(first: Sequence[Run], second: Sequence[Run], figure: Figure) -> Effect | None:
    """Return how many times the figure of `first` is that of `second`, by blocks.

    Mean logarithms by block, their difference within each block that has both, and Student's t over
    the blocks: what a block has in common is in no ratio. None where no block has both, or a figure
    is not positive.
    """
    one, other = _by_block(first, figure), _by_block(second, figure)
    if one is None or other is None:
        return None
    both = sorted(set(one) & set(other))
    if not both:
        return None
    differences = np.array([one[block] - other[block] for block in both])
    mean = float(differences.mean())
    if len(both) < 2:
        return Effect(math.exp(mean), None, None, 1)
    t = float(special.stdtrit(len(both) - 1, (1 + CONFIDENCE) / 2))
    reach = t * float(differences.std(ddof=1)) / math.sqrt(len(both))
    return Effect(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(both))


def greater(
    claim: Claim, where: str, effect: Effect | None, expected: str, why: str = "", least: float = 1.0
) -> Verdict:
    """Judge a claim that a ratio is above 1.

    `why`: what keeps it open, if anything does. `least`: the smallest ratio that the claim can have
    meant. An interval wholly below it denies the claim, also one that holds 1: without such a
    number "there is no effect" could never be a finding (the rule of equivalence tests).
    """
    found = _judged(claim, where, effect, expected, why, (1.0, math.inf))
    if found.effect is None or found.effect.high is None or why or found.effect.high >= least:
        return found
    reason = "" if found.effect.high < 1 else f"below {least:g}, the least that was meant"
    return replace(found, verdict=DOES_NOT, why=reason)


def within_margin(
    claim: Claim, where: str, effect: Effect | None, published: float, margin: float, why: str = ""
) -> Verdict:
    """Judge a claim that a ratio is `published`, give or take `margin` of it.

    `margin` is a part: 0.1 is 10 %. `why`: what keeps it open, if anything does.
    """
    band = published * (1 - margin), published * (1 + margin)
    return _judged(claim, where, effect, f"{band[0]:.3g} to {band[1]:.3g}", why, band)


def undecided(claim: Claim, where: str, why: str, expected: str = "") -> Verdict:
    return Verdict(claim, where, OPEN, expected, None, why)


def _judged(
    claim: Claim, where: str, effect: Effect | None, expected: str, why: str, band: tuple[float, float]
) -> Verdict:
    if effect is None:
        return undecided(claim, where, why or "no block has runs of both with the figures it takes", expected)
    if why:
        return Verdict(claim, where, OPEN, expected, effect, why)
    if effect.low is None or effect.high is None:
        return Verdict(claim, where, OPEN, expected, effect, "one block: an interval takes two or more")
    within = band[0] <= effect.low and effect.high <= band[1]
    apart = effect.high < band[0] or effect.low > band[1]
    verdict = HOLDS if within else DOES_NOT if apart else OPEN
    reason = "" if verdict != OPEN else "the interval agrees with both"
    return Verdict(claim, where, verdict, expected, effect, reason)


def paced_by_host(campaign: Campaign, runs: Sequence[Run]) -> str:
    """Return why speed and energy of these runs say nothing of a drive; empty where they do."""
    fractions = [run.result.device_bound_fraction for run in runs if run.result]
    parts = [part for part in fractions if part is not None]
    if not campaign.virtual or (parts and min(parts) >= LEAST_DEVICE_BOUND):
        return ""
    if not parts:
        return "virtual lab: how long the drive set the pace is not known"
    least, most, asked = (f"{100 * part:.0f}" for part in (min(parts), max(parts), LEAST_DEVICE_BOUND))
    part = pace.span(least, most)
    return (
        f"virtual lab: the drive set the pace for {part} % of the time, the emulated processor"
        f" else (at least {asked} % is asked for)"
    )


def _by_block(runs: Sequence[Run], figure: Figure) -> dict[int, float] | None:
    """Return the mean logarithm by block; None where a figure is not positive."""
    found: dict[int, list[float]] = {}
    for run in runs:
        value = figure(run)
        if value is None:
            continue
        if not value > 0:
            return None
        found.setdefault(run.block, []).append(math.log(value))
    return {block: sum(values) / len(values) for block, values in found.items()}
