#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how often a winner is named because its runs met the better of two modes, on simulations.

15 cells of one mean. In a quarter of the runs a drive collects garbage and does 25 % less work per
joule: in all cells, or in one whose mean is that of the others all the same. `led`: one cell alone
is left, which was named before there was a rule; `named`: with the rule, where nothing shows the
modes of runs (unseen) or the drive's counts do (seen). A winner that is named where all finalists
are known to have met one mode alone is `of that mode`, and not in `named`. Races of 10 blocks:
"-" in place of the number of blocks.

    python -m tests.bench.modes [--campaigns N] [--output FILE]

Exit code: 0 if all bars hold, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare import races
from joulerig.analysis.runs import modes
from joulerig.analysis.statistics import racing
from joulerig.analysis.statistics.ranking import Ranking
from tests.bench import trust
from tests.support import ROOT

CELLS, SHARE, BEHIND, SPREAD = 15, 0.25, 0.25, 0.01
BLOCKS, RACE_BLOCKS = (2, 3, 5, 10), 10
SETTINGS = ("all cells", "one cell")
MOST_NAMED = 0.05

Modes = NDArray[np.bool_]  # (cells, blocks): whether a run met the mode that does less work


@dataclass(frozen=True)
class Line:
    """Shares of simulated campaigns; `blocks` 0: races."""

    setting: str
    seen: bool
    blocks: int
    led: float
    named: float
    of_one_mode: float


def simulate(setting: str, rng: np.random.Generator, blocks: int) -> tuple[trust.Logs, Modes]:
    """Draw logarithms of runs, and the mode of each."""
    met = rng.random((CELLS, blocks)) < SHARE
    if setting == "one cell":
        met[1:] = False
    logs = SPREAD * rng.normal(size=met.shape) + rng.normal(0, trust.BLOCK_SPREAD, blocks)
    less = math.log1p(-BEHIND)
    logs = logs + less * met
    logs[0] -= SHARE * less if setting == "one cell" else 0.0
    return logs, met


def alike(met: Modes, cells: Sequence[str], look: int) -> bool:
    """Return whether cells met the same modes up to a look, where all are seen."""
    return len({frozenset(met[_row(cell), :look].tolist()) for cell in cells}) == 1


def line(setting: str, seen: bool, blocks: int, campaigns: int, seed: int = trust.SEED) -> Line:
    """Simulate campaigns of one setting; `blocks` 0: races."""
    rng = np.random.default_rng([seed, blocks, *setting.encode()])
    led = named = of_one_mode = 0
    for _ in range(campaigns):
        logs, met = simulate(setting, rng, blocks or RACE_BLOCKS)
        before, after = (_ranked if blocks else _raced)(logs, met, seen)
        led += before.winner is not None
        if after.winner is None:
            continue
        looks = after.race.looks[-1].look if isinstance(after, racing.RaceRanking) else blocks
        rows = [_row(cell) for cell in after.finalists]
        one_mode = seen and len(set(met[rows, :looks].ravel().tolist())) == 1
        named, of_one_mode = named + (not one_mode), of_one_mode + one_mode
    return Line(setting, seen, blocks, led / campaigns, named / campaigns, of_one_mode / campaigns)


def _row(cell: str) -> int:
    return int(cell.removeprefix("cell "))


def _values(logs: trust.Logs) -> dict[str, list[tuple[int, float]]]:
    order = np.argsort(-logs.mean(axis=1))
    return {
        f"cell {cell:02}": list(enumerate(np.exp(logs[cell]).tolist(), start=1)) for cell in order.tolist()
    }


def _ranked(logs: trust.Logs, met: Modes, seen: bool) -> tuple[Ranking, Ranking]:
    """Return the ranking without the rule and with it."""
    values = _values(logs)
    found = trust.ranking.rank(values)
    counts = {cell: len(runs) for cell, runs in values.items()}
    withheld = modes.why_withheld(found, counts, lambda cells: seen and alike(met, cells, met.shape[1]))
    return found, replace(found, withheld=withheld)


def _raced(logs: trust.Logs, met: Modes, seen: bool) -> tuple[Ranking, Ranking]:
    design = races.design_for(RACE_BLOCKS, 1, None)
    before = racing.rank(_values(logs), replace(design, least_runs=0))
    after = racing.rank(_values(logs), design, met_alike=lambda cells, look: seen and alike(met, cells, look))
    return before, after


def measure(campaigns: int) -> list[Line]:
    return [
        line(setting, seen, blocks, campaigns)
        for setting in SETTINGS
        for seen in (False, True)
        for blocks in (*BLOCKS, 0)
    ]


def judged(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that have a bar.

    With enough runs, a mode that was not met and that nothing shows is beyond any rule: the lines
    of one cell whose modes are unseen have no bar there.
    """
    few = range(1, modes.ENOUGH)
    return [one for one in lines if one.setting == "all cells" or one.seen or one.blocks in few]


def find_failed(lines: Sequence[Line]) -> list[str]:
    """Describe each bar that does not hold."""
    return [
        f"{one.setting}, {one.blocks} blocks, seen {one.seen}: named {one.named:.3f}"
        for one in judged(lines)
        if one.named > MOST_NAMED
    ]


def show(lines: Sequence[Line]) -> None:
    print(f"{'in two modes':12} {'modes':>6} {'blocks':>6} {'led':>7} {'named':>7} {'of one mode':>12}")
    for one in lines:
        print(
            f"{one.setting:12} {'seen' if one.seen else 'unseen':>6} {one.blocks or '-':>6}"
            f" {100 * one.led:6.1f}% {100 * one.named:6.1f}% {100 * one.of_one_mode:11.1f}%"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare simulated cells that have two modes.")
    parser.add_argument("--campaigns", type=int, default=1000, help="of each line")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "modes.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    lines = measure(arguments.campaigns)
    show(lines)
    failed = find_failed(lines)
    result = {
        "campaigns_per_line": arguments.campaigns,
        "seed": trust.SEED,
        "bars": {"named": MOST_NAMED},
        "lines": [asdict(one) for one in lines],
    }
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{time.perf_counter() - begin:.0f} s")
    print("\n".join(f"DOES NOT HOLD: {one}" for one in failed) or "holds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
