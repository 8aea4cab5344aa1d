# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the 95 % interval of a cell's AI holds the true AI, on simulated cells.

Runs of one cell of 50 ops/J, of unequal length, that vary in several ways. In some settings the
meter of all runs is off as well, by an amount whose standard uncertainty is in the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.statistics import interval

AI = 50.0  # ops/J
RUNS = (2, 3, 5, 10)
SEED = 47
LEAST, MOST = 0.93, 0.97

Rng = np.random.Generator
Spread = Callable[[Rng, int], NDArray[np.float64]]  # logarithms of each run's AI


def normal(spread: float) -> Spread:
    return lambda rng, runs: spread * rng.normal(size=runs)


def blocks(rng: Rng, runs: int) -> NDArray[np.float64]:
    """2 % between runs, and 3 % between blocks, of which each has one run of the cell."""
    return 0.02 * rng.normal(size=runs) + 0.03 * rng.normal(size=runs)


def heavy_tails(rng: Rng, runs: int) -> NDArray[np.float64]:
    """Student's t of 3 degrees of freedom, with a standard deviation of 3 %."""
    return 0.03 / math.sqrt(3) * rng.standard_t(3, runs)


@dataclass(frozen=True)
class Setting:
    """`meter`: relative standard uncertainty of what is wrong in all runs alike."""

    name: str
    spread: Spread
    meter: float = 0.0


SETTINGS = [
    Setting("1 %", normal(0.01)),
    Setting("6 %", normal(0.06)),
    Setting("2 % in blocks of 3 %", blocks),
    Setting("heavy tails", heavy_tails),
    Setting("1 %, and 0.4 % of the meter", normal(0.01), meter=0.004),
]
# Where the meter dominates, intervals of two runs are too wide: shown, and under no bar.
DOMINATED = [Setting("1 %, and 1 % of the meter", normal(0.01), meter=0.01)]


def covered(setting: Setting, runs: int, cells: int, seed: int = SEED) -> float:
    """Return the share of simulated cells whose interval holds the truth.

    A cell without an interval claims nothing: it counts as covered.
    """
    rng = np.random.default_rng([seed, runs, *setting.name.encode()])
    held = 0
    for _ in range(cells):
        joules = 20 * (1 + 0.01 * rng.normal(size=runs))
        work = AI * joules * np.exp(setting.spread(rng, runs))
        joules = joules * (1 + setting.meter * rng.normal())
        found = interval.fieller(work, joules)
        if found is not None:
            found = interval.with_common(work.sum() / joules.sum(), found, setting.meter, runs)
        held += found is None or found.low <= AI <= found.high
    return int(held) / cells


def coverage(cells: int, settings: Sequence[Setting] = SETTINGS) -> dict[str, float]:
    """Return the share of each setting and number of runs."""
    return {
        f"{setting.name}, {runs} runs": covered(setting, runs, cells) for setting in settings for runs in RUNS
    }
