# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift of work per joule over a campaign: each cell with several runs is its own control."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from joulerig.analysis.compare.cells import AI, Comparison
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.statistics import LOG_ROUNDING, trend
from joulerig.analysis.statistics.ranking import ALPHA

COLUMNS = {
    "campaign": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "further": pl.String,
    "quantity": pl.String,
    "runs": pl.Int64,
    "cells": pl.Int64,
    "span_seconds": pl.Float64,
    "drift_percent": pl.Float64,
    "drift_percent_low": pl.Float64,
    "drift_percent_high": pl.Float64,
    "drift_percent_per_hour": pl.Float64,
    "p": pl.Float64,
    "why": pl.String,
}


@dataclass(frozen=True)
class Residual:
    """A run's logarithm of the quantity less the mean of its cell's.

    `seconds`: after the first run's load.
    """

    run: Run
    seconds: float
    value: float


@dataclass(frozen=True)
class Drift:
    """The drift in one comparison.

    It is of the runs in cells with two or more, from the first to the last `span_seconds`. `trend`:
    of logarithms per second, cells as groups; None where `why` says that it is unknown.
    """

    comparison: Comparison
    residuals: tuple[Residual, ...]
    cells: int
    span_seconds: float
    trend: trend.Trend | None
    why: str

    @property
    def seen(self) -> bool:
        return self.trend is not None and self.trend.p < ALPHA

    def change(self, slope: float | None, seconds: float | None = None) -> float | None:
        """Return the change that a slope of logarithms amounts to over the span: 0.01 is 1 % more.

        `seconds`: over so many seconds instead. None where `slope` is None.
        """
        return (
            None if slope is None else math.expm1(slope * (self.span_seconds if seconds is None else seconds))
        )


def estimate_drifts(campaign: Campaign, compared: Sequence[Comparison]) -> list[Drift]:
    """Compute the drift of each comparison, in their order.

    Order within a block is random, so that a cell's runs are spread over the campaign and their
    differences are those of time. With few blocks a shift of a whole block looks like drift: it is
    one, of that campaign.
    """
    return [_estimate_drift(campaign, one) for one in compared]


def values(campaign: Campaign, one: Comparison) -> dict[str, list[tuple[Run, float]]]:
    """Return a comparison's runs by cell, each with its ops/J, or ops/s without measured rails."""
    found: dict[str, list[tuple[Run, float]]] = {cell: [] for cell in one.ranking.order}
    for run in campaign.runs:
        if run.cell not in found:
            continue
        if one.quantity == AI and run.counts:
            value = run.result.ai_ops_per_joule
        elif one.quantity != AI and run.unmetered:
            value = run.performance.ops_per_second
        else:
            continue
        if value is not None and value > 0:
            found[run.cell].append((run, value))
    return found


def _estimate_drift(campaign: Campaign, one: Comparison) -> Drift:
    cells = {cell: runs for cell, runs in values(campaign, one).items() if len(runs) > 1}
    instants = [_instant(run) for runs in cells.values() for run, _ in runs]
    if not instants:
        return Drift(one, (), 0, 0.0, None, "no cell has two runs")
    first = min(instants)
    residuals: list[Residual] = []
    groups = []
    for runs in cells.values():
        logs = np.log([value for _, value in runs])
        seconds = [(_instant(run) - first) * 1e-9 for run, _ in runs]
        groups.append((seconds, logs))
        mean = float(logs.mean())
        residuals += [
            Residual(run, at, float(log) - mean)
            for (run, _), at, log in zip(runs, seconds, logs, strict=True)
        ]
    span = (max(instants) - first) * 1e-9
    found = None
    why = "" if _spread(residuals) else "the runs of each cell are all alike"
    if not why and (found := trend.common_trend(groups)) is None:
        why = "too few runs"
    ordered = tuple(sorted(residuals, key=lambda residual: residual.seconds))
    return Drift(one, ordered, len(cells), span, found, why)


def _instant(run: Run) -> int:
    phase = run.phases.get(PhaseName.WORKLOAD)
    return phase.start_ns if phase else run.started_ns or 0


def _spread(residuals: Sequence[Residual]) -> bool:
    return any(abs(residual.value) > LOG_ROUNDING for residual in residuals)


def table(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Tabulate drift, a row for each comparison.

    Columns: `COLUMNS`; `why`: why the drift is unknown.
    """
    rows = []
    for one in estimate_drifts(campaign, compared):
        slope, low, high, p = one.trend or (None, None, None, None)
        percent = {
            "": one.change(slope), "_low": one.change(low), "_high": one.change(high),
            "_per_hour": one.change(slope, 3600.0),
        }  # fmt: skip
        rows.append(
            {
                "campaign": campaign.id,
                **one.comparison.columns,
                "runs": len(one.residuals),
                "cells": one.cells,
                "span_seconds": one.span_seconds,
                **{f"drift_percent{name}": None if v is None else 100 * v for name, v in percent.items()},
                "p": p,
                "why": one.why,
            }
        )
    return pl.DataFrame(rows, schema=COLUMNS)
