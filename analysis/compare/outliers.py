# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that lie far from the others of their cell.

They stay in all figures; what they change is shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare import drift
from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics import LOG_ROUNDING

FAR = 3.5  # modified z-score
FEWEST_IN_CELL = 3  # runs: of two it is unknown which one is off
FEWEST = 10  # residuals of a comparison
MOST = 0.2  # of the residuals: with more, they are the spread

COLUMNS = {
    "campaign": pl.String,
    "run": pl.String,
    "ordinal": pl.Int64,
    "cell": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "further": pl.String,
    "quantity": pl.String,
    "off_percent": pl.Float64,
    "modified_z": pl.Float64,
}


@dataclass(frozen=True)
class Outlier:
    """A run that lies far from the others of its cell.

    `off`: the run over the geometric mean of its cell's other runs that are no outliers, less 1;
    `z`: modified z-score.
    """

    run: Run
    off: float
    z: float


@dataclass(frozen=True)
class Judged:
    """Outliers of one comparison, worst first. `judged`: the runs that could be one."""

    comparison: Comparison
    judged: int
    outliers: tuple[Outlier, ...]


def find_outliers(campaign: Campaign, compared: Sequence[Comparison]) -> list[Judged]:
    """Find the outliers of each comparison, in their order."""
    return [_judge(campaign, one) for one in compared]


def without(campaign: Campaign, found: Sequence[Judged]) -> tuple[Campaign, list[Comparison]]:
    """Return the campaign without its outliers, and its comparisons in the same order.

    There are no comparisons where there are no outliers.
    """
    outliers = {outlier.run.id for one in found for outlier in one.outliers}
    if not outliers:
        return campaign, []
    rest = replace(campaign, runs=tuple(run for run in campaign.runs if run.id not in outliers))
    return rest, comparison.compare_cells(rest)


def _judge(campaign: Campaign, one: Comparison) -> Judged:
    cells = {
        cell: {run.id: math.log(value) for run, value in runs}
        for cell, runs in drift.values(campaign, one).items()
    }
    runs = {run.id: run for run in campaign.runs}
    judged = sum(len(logs) for logs in cells.values() if len(logs) >= FEWEST_IN_CELL)
    found = []
    names = find_outlying(cells)
    outlying = {run for _, run, _ in names}
    for cell, run, z in names:
        rest = [log for other, log in cells[cell].items() if other not in outlying]
        found.append(Outlier(runs[run], math.expm1(cells[cell][run] - sum(rest) / len(rest)), z))
    return Judged(one, judged, tuple(found))


def find_outlying(cells: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str, float]]:
    """Find the values that lie far from their cell's, worst first.

    Parameters
    ----------
    cells : by cell, values by run
        Logarithms. Cells with fewer than `FEWEST_IN_CELL` are left out.

    Returns
    -------
    list of (cell, run, modified z-score)
        Empty where fewer than `FEWEST` residuals are left, or half of them are alike.

    Notes
    -----
    The modified z-score ``0.6745 (r - median(r)) / median(|r - median(r)|)`` above 3.5 (B.
    Iglewicz, D. C. Hoaglin, How to Detect and Handle Outliers, ASQC, 1993) of the residuals of all
    cells together, each r a value less its cell's mean, times sqrt(n / (n - 1)) as a mean of n
    hides part of it. The worst is taken out, and then the rest is judged again: one far value moves
    its cell's mean, and with it the others.
    """
    left = {cell: dict(values) for cell, values in cells.items()}
    most = MOST * sum(len(values) for values in cells.values())
    found: list[tuple[str, str, float]] = []
    while len(found) + 1 <= most:
        residuals = [
            (cell, run, (value - mean) * math.sqrt(len(values) / (len(values) - 1)))
            for cell, values in left.items()
            if len(values) >= FEWEST_IN_CELL
            for mean in [sum(values.values()) / len(values)]
            for run, value in values.items()
        ]
        if len(residuals) < FEWEST:
            break
        alone = np.array([residual for *_, residual in residuals])
        deviations = alone - np.median(alone)
        scale = float(np.median(np.abs(deviations)))
        if scale <= LOG_ROUNDING:
            break
        scores = 0.6745 * deviations / scale
        worst = int(np.argmax(np.abs(scores)))
        if abs(scores[worst]) <= FAR:
            break
        cell, run, _ = residuals[worst]
        found.append((cell, run, float(scores[worst])))
        del left[cell][run]
    return found


def table(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Tabulate outliers, a row for each. Columns: `COLUMNS`."""
    rows = [
        {
            "campaign": campaign.id,
            **{name: getattr(outlier.run, name) for name in ("ordinal", "cell")},
            "run": outlier.run.id,
            **one.comparison.columns,
            "off_percent": 100 * outlier.off,
            "modified_z": outlier.z,
        }
        for one in find_outliers(campaign, compared)
        for outlier in one.outliers
    ]
    return pl.DataFrame(rows, schema=COLUMNS)
