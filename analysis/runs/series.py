# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of level, and a trend, in a run's quantities over time while its load ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import Status
from joulerig.analysis.runs.over_time import Floats, PowerOverTime
from joulerig.analysis.statistics import segments, trend
from joulerig.analysis.statistics.ranking import ALPHA

COLUMNS = {
    "campaign": pl.String,
    "run": pl.String,
    "ordinal": pl.Int64,
    "cell": pl.String,
    "quantity": pl.String,
    "steps": pl.Int64,
    "steps_measured": pl.Int64,
    "step_seconds": pl.Float64,
    "changes": pl.Int64,
    "change_seconds": pl.String,
    "levels": pl.String,
    "slope_percent_per_minute": pl.Float64,
    "slope_p": pl.Float64,
}


POWER = "W"


@dataclass(frozen=True)
class Series:
    """A quantity of a run over its workload phase, at regular steps.

    `instants` are the steps' middles in seconds since the phase began, `values` NaN where it was
    not measured.
    """

    quantity: str
    instants: Floats
    values: Floats
    step_seconds: float

    @property
    def known(self) -> Floats:
        """Return which values were measured: bool."""
        return ~np.isnan(self.values)


@dataclass(frozen=True)
class Course:
    """What a series did.

    `changes`: seconds since the phase began at which a new level begins, None where the series is
    too short to tell; `levels`: the means before, between and after them. `slope`: per minute,
    relative to the mean, with the `p` of no trend; None where there is nothing to judge by. Steps
    that were not measured are left out of all of it.
    """

    series: Series
    changes: tuple[float, ...] | None
    levels: tuple[float, ...]
    slope: float | None
    p: float | None

    @property
    def rises_or_falls(self) -> bool:
        """Return whether there is a trend, and no changes of level that describe it better."""
        return self.p is not None and self.p < ALPHA and not self.changes

    @property
    def trend_over_load(self) -> float | None:
        """Return what the slope comes to from begin to end of the load, relative to the mean."""
        seconds = self.series.step_seconds * len(self.series.values)
        return None if self.slope is None else self.slope * seconds / 60

    @property
    def swing(self) -> float:
        """Return the greatest level less the least, relative to the mean; 0 for one level."""
        known = self.series.values[self.series.known]
        mean = abs(float(known.mean())) if len(known) else 0.0
        return (max(self.levels) - min(self.levels)) / mean if self.levels and mean > 0 else 0.0


def course(series: Series) -> Course:
    """Find a series' changes of level, and its trend.

    By analysis.statistics.segments.changes and analysis.statistics.trend.series_trend.
    """
    known = series.known
    values, instants = series.values[known], series.instants[known]
    begins = segments.changes(values)
    found = None if begins is None else trend.series_trend(instants, values)
    mean = float(values.mean()) if len(values) else 0.0
    relative = found is not None and mean > 0
    return Course(
        series,
        None if begins is None else tuple(float(instants[k]) - series.step_seconds / 2 for k in begins),
        tuple(float(part.mean()) for part in np.split(values, begins or []) if len(part)),
        60 * found.slope / mean if relative else None,
        found.p if relative else None,
    )


def courses_by_run(campaign: Campaign, over: Mapping[str, PowerOverTime]) -> dict[str, list[Course]]:
    """Return the courses by run, in order, of runs that ended well and have power over time."""
    return {
        run.id: [course(series) for series in _run_series(over[run.id])]
        for run in campaign.runs
        if run.status == Status.OK and run.id in over
    }


def _run_series(found: PowerOverTime) -> Iterable[Series]:
    yield Series(POWER, found.instants, found.watts, found.step_seconds)
    if work := found.work:
        yield Series("ops/s", work.instants, work.ops_per_second, work.step_seconds)
        yield Series("ops/J", work.instants, work.ops_per_joule, work.step_seconds)


def table(campaign: Campaign, found: Mapping[str, list[Course]]) -> pl.DataFrame:
    """Return a frame with a row a run and quantity.

    `changes` is null where the series is too short to judge; `change_seconds`, `levels`: lists, by
    ";".

    Columns: `COLUMNS`.
    """
    rows = [
        {
            "campaign": campaign.id,
            "run": run.id,
            "ordinal": run.ordinal,
            "cell": run.cell,
            "quantity": shown.series.quantity,
            "steps": len(shown.series.values),
            "steps_measured": int(shown.series.known.sum()),
            "step_seconds": shown.series.step_seconds,
            "changes": None if shown.changes is None else len(shown.changes),
            "change_seconds": ";".join(map(repr, shown.changes or ())),
            "levels": ";".join(map(repr, shown.levels)),
            "slope_percent_per_minute": None if shown.slope is None else 100 * shown.slope,
            "slope_p": shown.p,
        }
        for run in campaign.runs
        for shown in found.get(run.id, [])
    ]
    return pl.DataFrame(rows, schema=COLUMNS)
