# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated campaigns for races: cells with known means and spreads, in blocks that differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from joulerig.analysis.statistics import racing
from joulerig.analysis.statistics.racing import Design, Outcome, Race, RaceRuns

SPREAD, BLOCK_SPREAD = 0.03, 0.02  # standard deviations of logarithms: of runs, of blocks
BEST, SECOND = "cell 00", "cell 01"
NULLS = ("alike", "spreads 1 to 8 %", "one cell noisy", "heavy tails")


def runs(
    rng: np.random.Generator,
    means: ArrayLike,
    blocks: int,
    spread: ArrayLike = SPREAD,
    heavy_tails: bool = False,
) -> RaceRuns:
    """Simulate all runs of a campaign; heavy tails are Student's t of 3 degrees of freedom."""
    logs = np.log(np.asarray(means, dtype=float))
    shape = (len(logs), blocks)
    noise = rng.standard_t(3, shape) / math.sqrt(3) if heavy_tails else rng.normal(size=shape)
    spreads = np.broadcast_to(spread, len(logs))
    values = np.exp(logs[:, None] + spreads[:, None] * noise + rng.normal(0, BLOCK_SPREAD, blocks))
    return {
        f"cell {cell:02}": [(block + 1, float(value)) for block, value in enumerate(row)]
        for cell, row in enumerate(values)
    }


def ladder(cells: int, best: int = 1) -> NDArray[np.float64]:
    """Return the means of `best` cells alike, and others evenly from 10 to 60 % behind."""
    return np.concatenate([np.ones(best), 1 - np.linspace(0.1, 0.6, cells - best)])


def slippage(cells: int, behind: float = 0.1) -> NDArray[np.float64]:
    """Return the means of one best cell, and of others all equally far behind."""
    return np.concatenate([np.ones(1), np.full(cells - 1, 1 - behind)])


def simulate(rng: np.random.Generator, line: str, cells: int, blocks: int) -> RaceRuns:
    """Simulate a campaign of a named line: "ladder", "slippage", "tied", or one of `NULLS`."""
    match line:
        case "ladder":
            return runs(rng, ladder(cells), blocks)
        case "slippage":
            return runs(rng, slippage(cells), blocks)
        case "tied":
            return runs(rng, ladder(cells, best=2), blocks)
    means = np.ones(cells)
    match line:
        case "alike":
            return runs(rng, means, blocks)
        case "spreads 1 to 8 %":
            return runs(rng, means, blocks, np.exp(rng.uniform(math.log(0.01), math.log(0.08), cells)))
        case "one cell noisy":
            return runs(rng, means, blocks, np.where(np.arange(cells) == 0, 0.10, 0.01))
        case "heavy tails":
            return runs(rng, means, blocks, heavy_tails=True)
    raise ValueError(line)


def executed_share(race: Race, cells: int) -> float:
    """Return the share of the runs of the full design that a race executes."""
    last = race.looks[-1].look
    executed = sum(one.look for one in race.dropped.values()) + last * len(race.kept)
    return executed / (cells * race.design.blocks)


@dataclass(frozen=True)
class Tally:
    """Fractions of simulated campaigns; `share` is the mean share of the runs executed."""

    share: float
    right: float
    any_winner: float
    both_kept: float
    equal: float


def tally(line: str, cells: int, design: Design, campaigns: int, seed: int) -> Tally:
    """Race simulated campaigns of a line."""
    rng = np.random.default_rng([seed, cells, sum(map(ord, line))])
    races = [racing.replay(simulate(rng, line, cells, design.blocks), design) for _ in range(campaigns)]
    return Tally(
        share=sum(executed_share(race, cells) for race in races) / campaigns,
        right=sum(race.winner == BEST for race in races) / campaigns,
        any_winner=sum(race.winner is not None for race in races) / campaigns,
        both_kept=sum({BEST, SECOND} <= set(race.kept) for race in races) / campaigns,
        equal=sum(race.outcome is Outcome.EQUAL for race in races) / campaigns,
    )
