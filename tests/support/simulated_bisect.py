# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches for a step between simulated levels, from the first measurement to the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from joulerig.analysis.bisect import search
from joulerig.analysis.bisect.search import Block, Design, Outcome, Search

NOISES: dict[str, Callable[[np.random.Generator], float]] = {
    "normal": lambda rng: rng.standard_normal(),
    "heavy tails": lambda rng: rng.standard_t(4) / 2**0.5,
}


@dataclass
class Rig:
    """Levels with a mean each; a value is that, what its block has in common, and noise of 1.

    `drift`: what a block has more than the one before, which is taken for nothing by a search that
    compares within blocks.
    """

    means: list[float]
    rng: np.random.Generator
    noise: str = "normal"
    block_spread: float = 1.0
    drift: float = 0.0
    blocks: int = 0

    def measure(self, levels: tuple[int, ...]) -> Block:
        self.blocks += 1
        common = self.block_spread * self.rng.standard_normal() + self.drift * self.blocks
        return Block({level: common + self.means[level] + NOISES[self.noise](self.rng) for level in levels})


def planted(levels: int, first_bad: int, size: float) -> list[float]:
    """The means of levels of which those from `first_bad` on differ by so many deviations."""
    return [size * (level >= first_bad) for level in range(levels)]


def conclude(rig: Rig, design: Design) -> Search:
    """Measure what the search asks for, until it ends."""
    blocks: list[Block] = []
    while (found := search.replay(blocks, design)).outcome is Outcome.GOES_ON:
        blocks.append(rig.measure(found.measure))
    return found
