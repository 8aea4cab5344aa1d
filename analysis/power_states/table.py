# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives declare of their power states and what was measured, as a table: one row a check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from joulerig.analysis.power_states.campaign import DriveStates, Setting
from joulerig.analysis.power_states.checks import UNITS, Check, Quantity, Verdict
from joulerig.analysis.results.campaign import Campaign

COLUMNS = {
    "campaign": pl.String,
    "host": pl.String,
    "drive": pl.String,
    "factor": pl.String,
    "level": pl.String,
    "condition": pl.String,
    "quantity": pl.String,
    "unit": pl.String,
    "state": pl.Int64,
    "runs_measured": pl.Int64,
    "value": pl.Float64,
    "value_low": pl.Float64,
    "value_high": pl.Float64,
    "declared": pl.Float64,
    "bound": pl.Float64,
    "rests_a_run": pl.Float64,
    "verdict": pl.String,
    "reason": pl.String,
}


def table(campaign: Campaign, found: Sequence[DriveStates]) -> pl.DataFrame:
    """Return the checks as a table. Columns: `COLUMNS`."""
    rows = [
        {**dict.fromkeys(COLUMNS), "campaign": campaign.id, "host": one.host, "drive": one.drive, **row}
        for one in found
        for setting in one.settings
        for row in _rows(setting)
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def _rows(setting: Setting) -> Iterator[dict[str, Any]]:
    where = {"factor": setting.factor, "level": setting.level, "condition": setting.condition}
    for one in setting.checks:
        yield {**where, **_row(one), "rests_a_run": _rests(setting)}
    if setting.never:
        verdict = Verdict.CONTRADICTED.value
        yield {**where, "quantity": Quantity.RESTS_AFTER.value, "rests_a_run": 0.0, "verdict": verdict}


def _row(one: Check) -> dict[str, Any]:
    return {
        "quantity": one.quantity.value,
        "unit": UNITS[one.quantity],
        "state": one.state,
        "runs_measured": one.runs,
        "value": one.value,
        "value_low": one.interval.low if one.interval else None,
        "value_high": one.interval.high if one.interval else None,
        "declared": one.declared,
        "bound": one.bound,
        "verdict": one.verdict.value,
        "reason": one.why or None,
    }


def _rests(setting: Setting) -> float | None:
    """Return how many rests a run's load has in the mean; None where none was found."""
    return sum(one.count for one in setting.rests) / len(setting.rests) if setting.rests else None
