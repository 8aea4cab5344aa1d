# SPDX-License-Identifier: GPL-3.0-or-later
"""Count how often tests of all pairs err where no cells differ (docs/decisions/009-pairs.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from joulerig.analysis.statistics import ranking

UNEQUAL = (1.0, 3.0)  # standard deviations in per cent, of every other cell


def no_difference(cells: int, blocks: int, spread: Sequence[float], rng: np.random.Generator) -> ranking.Runs:
    """Runs of cells of one mean, with blocks that differ; the cell with the greatest mean first."""
    shift = rng.normal(0, 0.02, blocks)
    runs = {
        f"cell {index}": [
            (block, 100 * math.exp(shift[block] + spread[index % len(spread)] / 100 * rng.normal()))
            for block in range(blocks)
        ]
        for index in range(cells)
    }
    return dict(sorted(runs.items(), key=lambda item: -sum(value for _, value in item[1])))


def games_howell(runs: ranking.Runs) -> bool:
    """Whether it separates any pair: differences within blocks against the studentized range."""
    logs = np.array([[math.log(value) for _, value in found] for found in runs.values()])
    one, other = np.triu_indices(len(logs), 1)
    differences, blocks = logs[one] - logs[other], logs.shape[1]
    t = differences.mean(axis=1) / differences.std(axis=1, ddof=1) * math.sqrt(blocks)
    critical = ranking._studentized_range(ranking.ALPHA, len(logs), blocks - 1) / math.sqrt(2)
    return bool(np.any(np.abs(t) > critical))


def ranked(runs: ranking.Runs) -> bool:
    return any(pair.separated for pair in ranking.rank(runs).pairs)


def sidak(runs: ranking.Runs) -> bool:
    return any(pair.separated for pair in ranking._paired(runs, ranking.ALPHA))


def tukey(runs: ranking.Runs) -> bool:
    return any(pair.separated for pair in ranking._Model.from_runs(runs).tukey(runs, ranking.ALPHA))


TESTS: dict[str, Callable[[ranking.Runs], bool]] = {
    "Games-Howell": games_howell,
    "Šidák": sidak,
    "Tukey-Kramer": tukey,
    "as shipped": ranked,
}


def errs(cells: int, blocks: int, spread: Sequence[float], campaigns: int = 500) -> list[float]:
    """Return of each test the share of campaigns in which it separates equal cells."""
    rng = np.random.default_rng(9)
    simulated = [no_difference(cells, blocks, spread, rng) for _ in range(campaigns)]
    return [sum(map(test, simulated)) / campaigns for test in TESTS.values()]


def main() -> None:
    print("spread, %", "cells", "blocks", *TESTS, sep=" | ")
    for spread in ((1.0,), UNEQUAL):
        for cells, blocks in ((3, 5), (6, 4), (6, 8), (12, 5)):
            shares = [f"{100 * share:.0f} %" for share in errs(cells, blocks, spread)]
            print(" and ".join(map(str, spread)), cells, blocks, *shares, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
