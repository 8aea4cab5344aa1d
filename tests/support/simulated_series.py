# SPDX-License-Identifier: GPL-3.0-or-later
"""How often changes, trends or outliers are seen where there are none; for decision 011."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.compare import outliers
from joulerig.analysis.runs.series import POWER, Series, course
from joulerig.analysis.statistics.ranking import ALPHA

_SETTLING = 60  # values before the series begins


def normal(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.normal(size=count)


def skewed(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.lognormal(size=count)


def flat(
    count: int,
    memory: float,
    rng: np.random.Generator,
    innovations: Callable[[int, np.random.Generator], NDArray[np.float64]] = normal,
) -> NDArray[np.float64]:
    """A first-order autoregression around a level that stays."""
    values = innovations(count + _SETTLING, rng)
    for place in range(1, len(values)):
        values[place] += memory * values[place - 1]
    return values[_SETTLING:]


def errs(count: int, memory: float, series: int, innovations=normal) -> tuple[float, float, float]:
    """Of flat series the share with a change, with a trend, and too short to be judged."""
    rng = np.random.default_rng(11)
    steps = np.arange(count) + 0.5
    found = [
        course(Series(POWER, steps, 1000 + flat(count, memory, rng, innovations), 1.0)) for _ in range(series)
    ]
    changed = sum(bool(one.changes) for one in found)
    trended = sum(one.p is not None and one.p < ALPHA for one in found)
    return changed / series, trended / series, sum(one.changes is None for one in found) / series


def main() -> None:
    print("noise", "memory", "values", "with a change", "with a trend", "not judged", sep=" | ")
    for innovations in (normal, skewed):
        for memory in (0.0, 0.3, 0.6, 0.8):
            for count in (30, 60, 120):
                shares = [f"{100 * share:.1f} %" for share in errs(count, memory, 1000, innovations)]
                print(innovations.__name__, memory, count, *shares, sep=" | ", flush=True)
    print("cells", "runs a cell", "with an outlier", sep=" | ")
    for cells, runs in ((4, 3), (9, 3), (9, 5), (18, 3), (9, 10)):
        print(cells, runs, f"{100 * share_with_an_outlier(cells, runs, 1000):.1f} %", sep=" | ")


def share_with_an_outlier(cells: int, runs: int, comparisons: int) -> float:
    """Of comparisons in which no run is off, the share in which one is called an outlier."""
    rng = np.random.default_rng(12)
    found = (
        outliers.find_outlying({str(cell): dict(enumerate(rng.normal(size=runs))) for cell in range(cells)})
        for _ in range(comparisons)
    )
    return sum(map(bool, found)) / comparisons


if __name__ == "__main__":
    main()
