# SPDX-License-Identifier: GPL-3.0-or-later
"""The deviation between campaigns of the past in which nothing changed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.gate.figures import DEFAULT, FIGURES, Figure
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.statistics import movements
from joulerig.analysis.statistics.movements import Deviation
from joulerig.plural import counted

FEWEST = 3  # campaigns: two show one difference


def mean_logarithm(runs: Sequence[Run], figure: Figure) -> float:
    """Return the mean logarithm of a figure over runs, NaN where none has it."""
    logs = [math.log(value) for run in runs if (value := figure.of(run)) is not None]
    return math.fsum(logs) / len(logs) if logs else math.nan


def table(
    campaigns: Sequence[Campaign], figure: Figure = FIGURES[DEFAULT]
) -> tuple[list[str], NDArray[np.float64]]:
    """Return the cells of campaigns, and their mean logarithms, (cells, campaigns)."""
    cells = list(dict.fromkeys(cell for campaign in campaigns for cell in campaign.cells()))
    by_campaign = [campaign.cells() for campaign in campaigns]
    values = [[mean_logarithm(each.get(cell, []), figure) for each in by_campaign] for cell in cells]
    return cells, np.array(values, dtype=float).reshape(len(cells), len(campaigns))


def deviation(campaigns: Sequence[Campaign]) -> Deviation:
    """Estimate the deviation between campaigns in which nothing changed.

    Raises ValueError where they are fewer than `FEWEST`, or no cell has a value in all of them.
    """
    cells, values = table(campaigns)
    values = values[~np.isnan(values).any(axis=1)]
    if len(campaigns) < FEWEST or not len(values):
        raise ValueError(
            f"{counted(len(values), 'cell')} of {len(cells)} in all of {counted(len(campaigns), 'campaign')}:"
            f" at least {FEWEST} campaigns are needed, with one cell"
        )
    return deviation_of(values)


def deviation_of(values: NDArray[np.float64]) -> Deviation:
    """Estimate the deviation between campaigns from values without a gap, (cells, campaigns).

    What the runs' noise adds to the campaigns' values is in it, so that with few replicates it is
    more than what campaigns differ by, and never less.
    """
    cells, count = values.shape
    common = movements.common_movement(values)
    own = values - values.mean(axis=1, keepdims=True) - common
    degrees = count - 1.0  # cells of one day are not independent of each other
    if cells < movements.FEWEST_CELLS:
        return Deviation(math.sqrt(float(np.sum(own**2)) / cells / degrees), 0.0, degrees)
    variance, own_degrees = movements.own_variance(
        own.ravel(), np.zeros(own.size), (cells - 1) * (count - 1) / (cells * count)
    )
    return Deviation(math.sqrt(float(common @ common) / degrees), math.sqrt(variance), degrees, own_degrees)
