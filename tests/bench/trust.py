# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the product's own comparisons err, on simulated campaigns in which nothing differs.

Cells of one mean that vary in several ways, in blocks that differ by 2 %: how often any two are
separated, and how often one is named as the best. The same with a meter that loses samples in some
cells, is off by an offset, or was calibrated between two campaigns. And how often a best cell
is found.

    python -m tests.bench.trust [--campaigns N] [--output FILE]

Exit code: 0 if all bars hold, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.energy.interval import EnergyBudget
from joulerig.analysis.runs import modes
from joulerig.analysis.statistics import movements, ranking
from joulerig.analysis.statistics.differences import Systematic, SystematicRuns
from joulerig.analysis.statistics.movements import Deviation
from joulerig.analysis.statistics.ranking import Ranking
from tests.support import ROOT

CELLS = 15
BLOCKS = (2, 3, 4, 5, 10)
BLOCK_SPREAD = 0.02
SEED = 40
MOST_SEPARATED, MOST_NAMED = 0.06, 0.05
BEST, AHEAD, SPREAD, LEAST_FOUND = "cell 00", 0.10, 0.03, 0.85

Logs = NDArray[np.float64]  # (cells, blocks)
Rng = np.random.Generator


class Metered(NamedTuple):
    """Logarithms of runs, and what is wrong with each cell's in all of them: (cells,)."""

    logs: Logs
    systematic: list[Systematic]


def normal(spreads: Callable[[Rng, int], Sequence[float] | Logs], rng: Rng, cells: int, blocks: int) -> Logs:
    """Draw logarithms of runs; `spreads`: each cell's standard deviation."""
    return np.asarray(spreads(rng, cells))[:, None] * rng.normal(size=(cells, blocks))


def alike(spread: float) -> Callable[[Rng, int], Logs]:
    return lambda _, cells: np.full(cells, spread)


def alternating(_: Rng, cells: int) -> Logs:
    return np.where(np.arange(cells) % 2, 0.06, 0.01)


def log_uniform(rng: Rng, cells: int) -> Logs:
    return np.exp(rng.uniform(math.log(0.01), math.log(0.10), cells))


def one_noisy(_: Rng, cells: int) -> Logs:
    return np.where(np.arange(cells) == 0, 0.10, 0.01)


def heavy_tails(rng: Rng, cells: int, blocks: int) -> Logs:
    """Student's t of 3 degrees of freedom, with a standard deviation of 3 %."""
    return 0.03 / math.sqrt(3) * rng.standard_t(3, (cells, blocks))


def drift(rng: Rng, cells: int, blocks: int) -> Logs:
    """2 % between runs, and 20 % over the campaign, in which each block has its own order."""
    places = np.array([rng.permutation(cells) for _ in range(blocks)]).T + cells * np.arange(blocks)
    return 0.02 * rng.normal(size=(cells, blocks)) + 0.2 * places / (cells * blocks)


# Power of a load's samples: bursts over a base, as a drive's are.
BASE_WATTS, MEAN_WATTS, BURST_WATTS = 1.0, 2.0, 5.0
LOST = 0.009  # of a load's samples: below the limit of 1 % at which a run is partial
SECONDS = 60.0


def lossy(spread: float, share: float, rng: Rng, cells: int, blocks: int) -> Metered:
    """Lose samples in a share of the cells, one at least, at random times of each run.

    A run's energy is corrected as the product does it, by the least and the greatest power seen.
    """
    logs = spread * rng.normal(size=(cells, blocks))
    affected = max(1, round(share * cells))
    systematic = []
    for cell in range(cells):
        if cell >= affected:
            systematic.append(Systematic())
            continue
        # The mean power of what was lost is that of some hundred samples drawn from the load.
        burst = (MEAN_WATTS - BASE_WATTS) / (BURST_WATTS - BASE_WATTS)
        lost = (
            LOST
            * SECONDS
            * (BASE_WATTS + (BURST_WATTS - BASE_WATTS) * rng.binomial(540, burst, blocks) / 540)
        )
        gap = EnergyBudget(LOST * SECONDS * BASE_WATTS, LOST * SECONDS * BURST_WATTS)
        true = MEAN_WATTS * SECONDS
        corrected = true - lost + gap.correction
        logs[cell] -= np.log(corrected / true)
        half = (gap.gap_high - gap.gap_low) / 2
        systematic.append(Systematic(own=float(np.mean(half / corrected))))
    return Metered(logs, systematic)


OFFSET_WATTS = 0.020  # limit of the class


def offset(spread: float, rng: Rng, cells: int, blocks: int) -> Metered:
    """Measure cells that draw 1 to 4 W by a meter of one offset, anywhere within its class."""
    watts = np.linspace(1.0, 4.0, cells)
    rng.shuffle(watts)
    error = rng.uniform(-OFFSET_WATTS, OFFSET_WATTS)
    logs = spread * rng.normal(size=(cells, blocks)) - np.log1p(error / watts)[:, None]
    measured = watts + error
    return Metered(logs, [Systematic(common={"offset": OFFSET_WATTS / each}) for each in measured])


METERS: dict[str, Callable[[Rng, int, int], Metered]] = {
    f"{name}, {100 * spread:g} %": partial(simulate, spread, *more)
    for name, simulate, more in (
        ("one cell loses 0.9 %", lossy, (0.0,)),
        ("a third of the cells lose 0.9 %", lossy, (1 / 3,)),
        ("offset in a class of 20 mW", offset, ()),
    )
    for spread in (0.002, 0.005, 0.01)
}

NULLS: dict[str, Callable[[Rng, int, int], Logs | Metered]] = {
    "alike, 1 %": partial(normal, alike(0.01)),
    "alike, 10 %": partial(normal, alike(0.10)),
    "1 % and 6 % alternate": partial(normal, alternating),
    "log-uniform from 1 to 10 %": partial(normal, log_uniform),
    "one 10 %, others 1 %": partial(normal, one_noisy),
    "heavy tails": heavy_tails,
    "drift": drift,
    **METERS,
}


GAIN = 0.005  # limit of what is known of a meter's gain


def recalibrated(spread: float, rng: Rng, cells: int, blocks: int) -> bool:
    """Return whether any cell looks changed in a second campaign, whose meter has another gain."""
    before, after = (spread * rng.normal(size=(cells, blocks)) for _ in range(2))
    after = after - math.log1p(rng.uniform(-GAIN, GAIN))
    errors = [tuple(Systematic(common={campaign: GAIN}) for campaign in ("before", "after"))] * cells
    moved = movements.move(before, after, Deviation(0.0), errors)
    return bool((moved.p < ranking.ALPHA).any() or moved.common_p < ranking.ALPHA)


RECALIBRATED = {f"recalibrated within 0.5 %, {100 * spread:g} %": spread for spread in (0.002, 0.005, 0.01)}


def best_ahead(rng: Rng, cells: int, blocks: int) -> Logs:
    """One cell is ahead of all others, which are alike."""
    logs = normal(alike(SPREAD), rng, cells, blocks)
    logs[0] += math.log1p(AHEAD)
    return logs


def rank(drawn: Logs | Metered, rng: Rng) -> Ranking:
    """Rank the runs of a campaign as the report does: best first, by blocks that differ.

    Nothing shows in which mode the drive was.
    """
    logs, systematic = drawn if isinstance(drawn, Metered) else (drawn, [])
    logs = logs + rng.normal(0, BLOCK_SPREAD, logs.shape[1])
    order = np.argsort(-logs.mean(axis=1))
    values = np.exp(logs)
    found = ranking.rank(
        {
            f"cell {cell:02}": [(block, float(value)) for block, value in enumerate(values[cell], start=1)]
            for cell in order
        },
        systematic={
            f"cell {cell:02}": SystematicRuns.from_pairs(
                [(block, one) for block in range(1, logs.shape[1] + 1)]
            )
            for cell, one in enumerate(systematic)
        },
    )
    counts = dict.fromkeys(found.order, logs.shape[1])
    return replace(found, withheld=modes.why_withheld(found, counts, lambda _: False))


@dataclass(frozen=True)
class Line:
    """Shares of simulated campaigns: any two cells separated, any cell named, the right one."""

    setting: str
    cells: int
    blocks: int
    separated: float
    named: float
    right: float


def line(
    setting: str,
    simulate: Callable[[Rng, int, int], Logs],
    blocks: int,
    campaigns: int,
    cells: int = CELLS,
    seed: int = SEED,
) -> Line:
    """Simulate campaigns of one setting, and rank each."""
    rng = np.random.default_rng([seed, cells, blocks, *setting.encode()])
    found = [rank(simulate(rng, cells, blocks), rng) for _ in range(campaigns)]
    return Line(
        setting,
        cells,
        blocks,
        sum(any(pair.separated for pair in one.pairs) for one in found) / campaigns,
        sum(one.winner is not None for one in found) / campaigns,
        sum(one.winner == BEST for one in found) / campaigns,
    )


def changed_line(setting: str, blocks: int, simulated: int, cells: int = CELLS, seed: int = SEED) -> Line:
    """Simulate pairs of campaigns between which a meter was recalibrated, and nothing changed."""
    rng = np.random.default_rng([seed, cells, blocks, *setting.encode()])
    changed = sum(recalibrated(RECALIBRATED[setting], rng, cells, blocks) for _ in range(simulated))
    return Line(setting, cells, blocks, changed / simulated, 0.0, 0.0)


def nulls(simulated: int) -> list[Line]:
    """Simulate every null with every number of blocks; one block as well, which names no best."""
    found = [
        line(setting, simulate, blocks, simulated if blocks > 1 else 20)
        for setting, simulate in NULLS.items()
        for blocks in (1, *BLOCKS)
    ]
    return found + [changed_line(setting, blocks, simulated) for setting in RECALIBRATED for blocks in BLOCKS]


def power(campaigns: int) -> list[Line]:
    """Simulate a best cell ahead of all others."""
    return [line("best ahead", best_ahead, blocks, campaigns) for blocks in BLOCKS]


def find_failed(null: Sequence[Line], ahead: Sequence[Line]) -> list[str]:
    """Describe each bar that does not hold."""
    failed = []
    for one in null:
        most_separated, most_named = (MOST_SEPARATED, MOST_NAMED) if one.blocks > 1 else (0.0, 0.0)
        if one.separated > most_separated:
            failed.append(f"{one.setting}, {one.blocks} blocks: separated {one.separated:.3f}")
        if one.named > most_named:
            failed.append(f"{one.setting}, {one.blocks} blocks: named {one.named:.3f}")
    failed += [
        f"best ahead, {one.blocks} blocks: found {one.right:.3f}"
        for one in ahead
        if one.blocks >= 5 and one.right < LEAST_FOUND
    ]
    return failed


def show(lines: Sequence[Line]) -> None:
    print(f"{'setting':30} {'blocks':>6} {'separated':>9} {'named':>7} {'right':>7}")
    for one in lines:
        print(
            f"{one.setting:30} {one.blocks:6} {100 * one.separated:8.1f}%"
            f" {100 * one.named:6.1f}% {100 * one.right:6.1f}%"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the cells of simulated campaigns.")
    parser.add_argument("--campaigns", type=int, default=1000, help="of each line")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "comparisons.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    null, ahead = nulls(arguments.campaigns), power(arguments.campaigns)
    show([*null, *ahead])
    failed = find_failed(null, ahead)
    result = {
        "campaigns_per_line": arguments.campaigns,
        "seed": SEED,
        "bars": {"separated": MOST_SEPARATED, "named": MOST_NAMED, "found_in_5_blocks": LEAST_FOUND},
        "lines": [asdict(one) for one in (*null, *ahead)],
    }
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{time.perf_counter() - begin:.0f} s")
    print("\n".join(f"DOES NOT HOLD: {one}" for one in failed) or "holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
