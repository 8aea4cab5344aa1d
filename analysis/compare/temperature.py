# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether compared cells ran equally warm, and whether work per joule goes with temperature.

A drive's leakage, and what a meter's shunt reads, change with temperature. It is a usual cause of
what blocks differ by.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import polars as pl

from joulerig.analysis.compare import drift
from joulerig.analysis.compare.cells import AI, Comparison
from joulerig.analysis.compare.drift import Residual
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.runs.temperature import Temperatures
from joulerig.analysis.statistics import ranking, trend

# Between the means of compared cells, at the start of their runs. Drives report whole degrees, and
# vary by a few from run to run.
NOTABLE_KELVIN = 5.0

COLUMNS = {
    "campaign": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "further": pl.String,
    "quantity": pl.String,
    "runs": pl.Int64,
    "start_least_celsius": pl.Float64,
    "start_greatest_celsius": pl.Float64,
    "cells_differ_kelvin": pl.Float64,
    "coolest_cell": pl.String,
    "warmest_cell": pl.String,
    "percent_per_kelvin": pl.Float64,
    "percent_per_kelvin_low": pl.Float64,
    "percent_per_kelvin_high": pl.Float64,
    "p": pl.Float64,
    "seen": pl.Boolean,
    "why": pl.String,
}


@dataclass(frozen=True)
class Warmth:
    """The temperatures of one comparison's runs, at their start.

    `starts`: of each run that has one, in degrees Celsius. `cells`: mean by cell. `residuals`: of
    runs in cells with two or more, each with its temperature: what is left of log(quantity) when
    the cell's mean is taken out, which is block and chance. `trend`: of these logarithms per
    kelvin, cells as groups; None where `why` says that it is unknown. `p`: of no relation, adjusted
    for all comparisons of the campaign.
    """

    comparison: Comparison
    starts: Mapping[str, float]
    cells: Mapping[str, float]
    residuals: tuple[tuple[float, Residual], ...]
    trend: trend.Trend | None
    p: float | None
    why: str

    @property
    def seen(self) -> bool:
        return self.p is not None and self.p < ranking.ALPHA

    @property
    def cells_differ(self) -> float | None:
        """Return by how many kelvins the warmest cell's mean is above the coolest one's."""
        return max(self.cells.values()) - min(self.cells.values()) if self.cells else None

    @property
    def coolest(self) -> str | None:
        return min(self.cells, key=lambda cell: (self.cells[cell], cell), default=None)

    @property
    def warmest(self) -> str | None:
        return max(self.cells, key=lambda cell: (self.cells[cell], cell), default=None)

    def per_kelvin(self, slope: float | None) -> float | None:
        """Return the relative change in a kelvin that a slope of logarithms amounts to."""
        return None if slope is None else math.expm1(slope)


def compare(
    campaign: Campaign, compared: Sequence[Comparison], found: Mapping[str, Temperatures]
) -> list[Warmth]:
    """Relate work per joule to temperature in each comparison.

    The test is seasonal Kendall's with temperature in the place of time and cells as seasons
    (analysis.statistics.trend). Temperatures are in whole degrees: equal ones form no pair, and
    leave the test a little cautious. A relation is no cause: what drifts with time, such as the
    room, warms drives too.
    """
    drifts = drift.estimate_drifts(campaign, compared)
    return [_relate(campaign, one, found, len(drifts)) for one in drifts]


def _relate(campaign: Campaign, one: drift.Drift, found: Mapping[str, Temperatures], family: int) -> Warmth:
    starts: dict[str, float] = {}
    by_cell: dict[str, list[float]] = {}
    for cell, runs in drift.values(campaign, one.comparison).items():
        for run, _ in runs:
            if (start := found[run.id].start) is not None:
                starts[run.id] = start
                by_cell.setdefault(cell, []).append(start)
    warm = [(starts[residual.run.id], residual) for residual in one.residuals if residual.run.id in starts]
    groups: dict[str, tuple[list[float], list[float]]] = {}
    for start, residual in warm:
        degrees, values = groups.setdefault(residual.run.cell, ([], []))
        degrees.append(start)
        values.append(residual.value)
    why, slope = "", None
    if not starts:
        why = "no drive reports its temperature"
    elif len(set(starts.values())) == 1:
        why = f"every run began at {next(iter(starts.values())):g} °C"
    elif not warm:
        why = one.why
    else:
        slope = trend.common_trend(groups.values())
        why = "" if slope else "too few runs of a cell at different temperatures"
    return Warmth(
        one.comparison,
        starts,
        {cell: fmean(values) for cell, values in by_cell.items()},
        tuple(warm),
        slope,
        ranking.sidak(slope.p, family) if slope else None,
        why,
    )


def warnings(found: Sequence[Warmth]) -> Iterator[str]:
    """Say where compared cells ran at notably different temperatures, and where it mattered."""
    for one in found:
        differ = one.cells_differ
        if differ is not None and one.coolest and one.warmest and differ > NOTABLE_KELVIN:
            names = [
                f"{one.comparison.cells[cell].combination} at {one.cells[cell]:.0f} °C"
                for cell in (one.coolest, one.warmest)
            ]
            yield (
                f"{one.comparison.name}: cells ran at different temperatures, {names[0]} and {names[1]}"
                f" at the start, {differ:.1f} K apart"
            )
        if one.seen and one.trend:
            quantity = "work per joule" if one.comparison.quantity == AI else "performance"
            change = one.per_kelvin(one.trend.slope)
            assert change is not None
            yield (
                f"{one.comparison.name}: {quantity} goes with the drive's temperature, {100 * change:+.2g} %"
                " per kelvin, in the same cell"
            )


def table(campaign: Campaign, found: Sequence[Warmth]) -> pl.DataFrame:
    """Return one row for each comparison. Columns: `COLUMNS`."""
    rows = []
    for one in found:
        slope, low, high, _ = one.trend or (None, None, None, None)
        percent = {
            name: None if (value := one.per_kelvin(end)) is None else 100 * value
            for name, end in (("", slope), ("_low", low), ("_high", high))
        }
        rows.append(
            {
                "campaign": campaign.id,
                **one.comparison.columns,
                "runs": len(one.starts),
                "start_least_celsius": min(one.starts.values(), default=None),
                "start_greatest_celsius": max(one.starts.values(), default=None),
                "cells_differ_kelvin": one.cells_differ,
                "coolest_cell": one.coolest,
                "warmest_cell": one.warmest,
                **{f"percent_per_kelvin{name}": value for name, value in percent.items()},
                "p": one.p,
                "seen": one.seen,
                "why": one.why,
            }
        )
    return pl.DataFrame(rows, schema=COLUMNS)
