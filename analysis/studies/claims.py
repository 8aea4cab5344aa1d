# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure and judge the claims of a study: an effect with its interval, and what it says.

A verdict is never looser than its interval: a claim holds where all of the interval agrees with it,
does not hold where nothing of it does, and is open otherwise, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import derived, pace
from joulerig.analysis.statistics.interval import CONFIDENCE

HOLDS, DOES_NOT, OPEN = "holds", "does not hold", "can't tell"
# Of a claim about time or energy on a virtual lab: it is about the numbers of a drive's profile.
GIVEN, NOT_GIVEN = "the profile gives it", "the profile does not give it"
LEAST_DEVICE_BOUND = 0.5  # of the time; with less, a claim about speed or energy is one about the host
LEAST_WRITTEN = 0.95  # of what a load asked to write: with less, work was left in the page cache
NO_BLOCK = "no block has runs of both with the figures it takes"

Figure = Callable[[Run], float | None]


@dataclass(frozen=True)
class Claim:
    """A claim of a study.

    `key`: its name in files. `text`: what was found, in one sentence. `origin`: "published", or
    "inferred" from what was. `from_the_io_path`: whether it follows from the I/O path alone
    (volumes of an operation, flushes, seeks), so that the virtual lab must reproduce it at any
    slow motion: `make studies` fails where it does not. Any other claim is about time or energy.
    """

    key: str
    text: str
    origin: str = "published"
    from_the_io_path: bool = False


class Ratio(NamedTuple):
    """A ratio of two sides: mean and standard deviation of its logarithm over so many blocks.

    `deviation` is None of one block.
    """

    mean: float
    deviation: float | None
    blocks: int

    def half_width(self, error: float) -> float:
        """Return the half-width of the logarithm's interval, by Student's t over the blocks.

        `error`: the two-sided probability that the truth is outside.
        """
        if self.deviation is None:
            return math.inf
        t = float(special.stdtrit(self.blocks - 1, 1 - error / 2))
        return t * self.deviation / math.sqrt(self.blocks)


@dataclass(frozen=True)
class Effect:
    """A ratio, from `low` to `high`, over so many blocks.

    `low` and `high` are None where there are too few blocks for an interval. `ratios`: what it is
    computed from, each cell that a claim names over each other one: mostly one over one. Empty
    where low and high are not an interval but the least and the greatest of all runs.
    """

    value: float
    low: float | None
    high: float | None
    blocks: int
    ratios: tuple[tuple[Ratio, ...], ...] = ()

    @classmethod
    def of_ratios(cls, ratios: Sequence[Sequence[Ratio]], tests: int = 1) -> Effect:
        """Return how many times the best of the named cells is the best of the others.

        That is the greatest, over the named cells, of a cell's least ratio to any other. No cell is
        picked by the data: each ratio has its interval, and the effect's lower limit is the same
        greatest least of lower limits, each with the error over the number of named cells; the
        upper limit is the least, over the other cells, of the greatest upper limit, likewise
        (intersection-union tests: R. L. Berger, Multiparameter hypothesis testing and acceptance
        sampling, Technometrics 24(4), 1982, 295-300; Bonferroni over the unions).

        Parameters
        ----------
        ratios : one row a named cell, one column another cell
        tests : int
            Of how many such effects the interval is to hold at once, at 95 % (Bonferroni).
        """
        rows, columns = len(ratios), len(ratios[0])
        error = (1 - CONFIDENCE) / tests
        value = max(min(one.mean for one in row) for row in ratios)
        low = max(min(one.mean - one.half_width(error / rows) for one in row) for row in ratios)
        high = min(
            max(row[column].mean + row[column].half_width(error / columns) for row in ratios)
            for column in range(columns)
        )
        bounded = math.isfinite(low) and math.isfinite(high)
        return cls(
            math.exp(value),
            math.exp(low) if bounded else None,
            math.exp(high) if bounded else None,
            min(one.blocks for row in ratios for one in row),
            tuple(tuple(row) for row in ratios),
        )

    @classmethod
    def of_interval(cls, value: float, low: float | None, high: float | None, blocks: int) -> Effect:
        """Return an effect whose 95 % interval another method gave, as if Student's t had."""
        one = Ratio(math.log(value), None, blocks)
        if low is not None and high is not None and blocks > 1:
            unit = Ratio(0.0, 1.0, blocks).half_width(1 - CONFIDENCE)
            one = one._replace(deviation=math.log(high / low) / 2 / unit)
        return cls(value, low, high, blocks, ((one,),))

    def simultaneous(self, tests: int) -> Effect:
        """Return it with the interval that holds for so many effects at once, at 95 %."""
        return Effect.of_ratios(self.ratios, tests) if self.ratios else self


def pool(effects: Sequence[Effect]) -> Effect:
    """Return one effect over the blocks of all, as if they were of one campaign.

    Effects of all runs give the least and the greatest of all, and the worst value. Raises
    ValueError where they compare different numbers of cells.
    """
    first = effects[0]
    if len({(len(one.ratios), *map(len, one.ratios)) for one in effects}) > 1:
        raise ValueError("not of the same cells")
    if not first.ratios:
        lows, highs = ([getattr(one, end) for one in effects] for end in ("low", "high"))
        values = [one.value for one in effects]
        greatest_is_worst = all(one.value == one.high for one in effects)
        worst = max(values) if greatest_is_worst else max(values, key=lambda value: abs(value - 1))
        return Effect(worst, min(lows), max(highs), sum(one.blocks for one in effects))
    return Effect.of_ratios(
        [
            [_pool_ratios([one.ratios[row][column] for one in effects]) for column in range(len(ratios))]
            for row, ratios in enumerate(first.ratios)
        ]
    )


def _pool_ratios(ratios: Sequence[Ratio]) -> Ratio:
    """Return mean and deviation over the blocks of all, from those of each."""
    blocks = sum(one.blocks for one in ratios)
    mean = math.fsum(one.blocks * one.mean for one in ratios) / blocks
    squares = math.fsum(
        (one.blocks - 1) * (one.deviation or 0.0) ** 2 + one.blocks * (one.mean - mean) ** 2 for one in ratios
    )
    return Ratio(mean, math.sqrt(squares / (blocks - 1)) if blocks > 1 else None, blocks)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    `where`: the drive, and what else it is about. `expected`: what the effect ought to be, in
    words. `why`: what is behind it, where that is known, and where it is open the reason.
    """

    claim: Claim
    where: str
    verdict: str
    expected: str
    effect: Effect | None
    why: str


@dataclass(frozen=True)
class Measured:
    """The figures that a campaign measured of a claim.

    `where`, `expected` and `effect` as a `Verdict`'s. `band`: the effects that agree with the
    claim. `obstacle`: what keeps the claim open whatever was measured, if anything does. `note`:
    what is behind the effect. `levels`: those that all cells of the claim share here, by factor.
    """

    claim: Claim
    where: str
    expected: str
    effect: Effect | None
    band: tuple[float, float] = (1.0, math.inf)
    obstacle: str = ""
    note: str = ""
    levels: Mapping[str, str] = field(default_factory=dict)

    def judged(self, tests: int = 1, least: float = 1.0, greatest_width: float = math.inf) -> Verdict:
        """Judge it by itself, as one of so many claims.

        Parameters
        ----------
        tests : int
            As of `Effect.of_ratios`.
        least : float
            The smallest ratio that a claim of "above 1" can have meant. An interval wholly below it
            denies the claim, also one that holds 1: without such a number "there is no effect"
            could never be a finding (the rule of equivalence tests).
        greatest_width : float
            Upper over lower limit of an interval; a wider one decides nothing.
        """
        effect = self.effect and self.effect.simultaneous(tests)
        verdict, reason = self._decided(effect, tests, least, greatest_width)
        return Verdict(self.claim, self.where, verdict, self.expected, effect, joined(self.note, reason))

    def _decided(
        self, effect: Effect | None, tests: int, least: float, greatest_width: float
    ) -> tuple[str, str]:
        if self.obstacle or effect is None:
            return OPEN, self.obstacle or NO_BLOCK
        if effect.low is None or effect.high is None:
            return OPEN, "one block: an interval takes two or more"
        within = self.band[0] <= effect.low and effect.high <= self.band[1]
        if not effect.ratios:
            return HOLDS if within else DOES_NOT, ""
        if effect.high > greatest_width * effect.low:
            width = effect.high / effect.low
            return (
                OPEN,
                f"the interval spans a factor of {width:.2g}, more than {greatest_width:g} is of no use",
            )
        if effect.high < self.band[0] or effect.low > self.band[1]:
            return DOES_NOT, ""
        if effect.high < least and math.isinf(self.band[1]):
            return DOES_NOT, f"below {least:g}, the least that was meant"
        if within:
            return HOLDS, ""
        claims = f" (95 % of {tests} claims at once)" if tests > 1 else ""
        return OPEN, f"the interval{claims} agrees with both"


def joined(*texts: str) -> str:
    """Return the texts that are not empty, with semicolons between."""
    return "; ".join(filter(None, texts))


def about(measured: Iterable[Measured], **levels: str) -> Iterator[Measured]:
    """Yield what was measured with the levels that all cells of it share."""
    for one in measured:
        yield replace(one, levels={**levels, **one.levels})


def ratio(first: Sequence[Run], second: Sequence[Run], figure: Figure) -> Effect | None:
    """Return how many times the figure of `first` is that of `second`, by blocks.

    Mean logarithms by block, their difference within each block that has both, and Student's t over
    the blocks: what a block has in common is in no ratio. None where no block has both, or a figure
    is not positive.
    """
    return first_over([first], [second], figure)


def first_over(
    named: Sequence[Sequence[Run]], others: Sequence[Sequence[Run]], figure: Figure
) -> Effect | None:
    """Return how many times the best of the named cells is the best of the others, by blocks.

    As `Effect.of_ratios`, of the runs of each cell. None where a ratio of two cells is None.
    """
    ratios = [[_ratio(one, other, figure) for other in others] for one in named]
    known = [[one for one in row if one is not None] for row in ratios]
    if not ratios or not others or any(len(row) < len(others) for row in known):
        return None
    return Effect.of_ratios(known)


def _ratio(first: Sequence[Run], second: Sequence[Run], figure: Figure) -> Ratio | None:
    one, other = _by_block(first, figure), _by_block(second, figure)
    if one is None or other is None:
        return None
    both = sorted(set(one) & set(other))
    if not both:
        return None
    differences = np.array([one[block] - other[block] for block in both])
    deviation = float(differences.std(ddof=1)) if len(both) > 1 else None
    return Ratio(float(differences.mean()), deviation, len(both))


def greater(
    claim: Claim, where: str, effect: Effect | None, expected: str, obstacle: str = "", note: str = ""
) -> Measured:
    """Return what was measured of a claim that a ratio is above 1."""
    return Measured(claim, where, expected, effect, obstacle=obstacle, note=note)


def within_margin(
    claim: Claim, where: str, effect: Effect | None, published: float, margin: float, obstacle: str = ""
) -> Measured:
    """Return what was measured of a claim that a ratio is `published`, give or take `margin` of it.

    `margin` is a share: 0.1 is 10 %.
    """
    band = published * (1 - margin), published * (1 + margin)
    return Measured(claim, where, f"{band[0]:.3g} to {band[1]:.3g}", effect, band, obstacle)


def undecided(claim: Claim, where: str, obstacle: str, expected: str = "") -> Measured:
    """Return that nothing was measured of a claim, and why."""
    return Measured(claim, where, expected, None, obstacle=obstacle)


def no_measure_of_a_drive(campaign: Campaign, runs: Sequence[Run]) -> str:
    """Return why speed and energy of these runs say nothing of a drive; empty where they do."""
    return joined(paced_by_host(campaign, runs), left_in_cache(campaign, runs))


def paced_by_host(campaign: Campaign, runs: Sequence[Run]) -> str:
    """Return why the drive set too little of the pace of these runs; empty where it did enough."""
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


def left_in_cache(campaign: Campaign, runs: Sequence[Run]) -> str:
    """Return how much of their writes runs had left in the page cache; empty where little.

    What the block layer wrote during the load, over what the load wrote. Work that is still in the
    cache is work not done.
    """
    shares: dict[str, list[float]] = {}
    for run in runs:
        amounts = derived.amounts(campaign, run)
        if amounts.get("write_bytes") == 0:
            continue
        share = derived.figure([amounts], "block_bytes_per_written_byte")
        if share is None:
            return "how much of its writes reached the drive is not known"
        shares.setdefault(run.filesystem, []).append(share)
    least = {name: min(found) for name, found in shares.items() if min(found) < LEAST_WRITTEN}
    return "; ".join(
        f"{name} had written {share:.2g} of what its load wrote, the rest was in the page cache"
        for name, share in sorted(least.items())
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
