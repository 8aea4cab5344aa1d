# SPDX-License-Identifier: GPL-3.0-or-later
"""How often tests of all pairs err where no two cells differ; run it for docs/decisions/009-pairs.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
from scipy import stats

from analysis.statistics import ranking

UNEQUAL = (1.0, 3.0)  # standard deviations in per cent of the first half of the cells, and of the others


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
    logs = {cell: np.log([value for _, value in found]) for cell, found in runs.items()}
    blocks = len(next(iter(logs.values())))
    critical = ranking._studentized_range(ranking.ALPHA, len(runs), blocks - 1) / math.sqrt(2)
    return any(abs(statistic) > critical for statistic in _paired_t(logs))


def _paired_t(logs: dict[str, np.ndarray]) -> Iterator[float]:
    for one, other in combinations(logs.values(), 2):
        yield float(stats.ttest_rel(one, other).statistic)


def ranked(runs: ranking.Runs) -> bool:
    return any(pair.separated for pair in ranking.rank(runs).pairs)


def sidak(runs: ranking.Runs) -> bool:
    return any(pair.separated for pair in ranking._paired(runs, ranking.ALPHA))


def tukey(runs: ranking.Runs) -> bool:
    return any(pair.separated for pair in ranking._Model.of(runs).tukey(runs, ranking.ALPHA))


def errs(
    test: Callable[[ranking.Runs], bool], cells: int, blocks: int, spread: Sequence[float], campaigns: int
) -> float:
    """Share of simulated campaigns in which the test separates something, though nothing differs."""
    rng = np.random.default_rng(9)
    return float(np.mean([test(no_difference(cells, blocks, spread, rng)) for _ in range(campaigns)]))


def main() -> None:
    tests = {"Games-Howell": games_howell, "Šidák": sidak, "Tukey-Kramer": tukey, "as shipped": ranked}
    print("spread, %", "cells", "blocks", *tests, sep=" | ")
    for spread in ((1.0,), UNEQUAL):
        for cells, blocks in ((3, 3), (3, 5), (6, 4), (6, 8), (12, 5), (12, 15)):
            shares = [f"{100 * errs(test, cells, blocks, spread, 1000):.1f} %" for test in tests.values()]
            print(" and ".join(map(str, spread)), cells, blocks, *shares, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
