# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of a campaign's drives as a table, one row a comparison, and a row for the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from joulerig.analysis.audit.checks import LifetimeCheck, PowerCheck
from joulerig.analysis.audit.verdict import DriveAudit
from joulerig.analysis.results.campaign import Campaign

COLUMNS = {
    "campaign": pl.String,
    "host": pl.String,
    "drive": pl.String,
    "quantity": pl.String,
    "condition": pl.String,
    "runs_compared": pl.Int64,
    "rails_watts": pl.Float64,
    "reported_watts": pl.Float64,
    "ratio": pl.Float64,
    "ratio_low": pl.Float64,
    "ratio_high": pl.Float64,
    "meter_limit_percent": pl.Float64,
    "stated_error_percent": pl.Float64,
    "reported_watt_hours": pl.Float64,
    "rails_watt_hours_low": pl.Float64,
    "rails_watt_hours_high": pl.Float64,
    "verdict": pl.String,
    "finding": pl.String,
}
DRIVE, HISTOGRAM, LIFETIME = "drive", "histogram", "lifetime"  # rows other than of a power


def table(campaign: Campaign, found: Sequence[DriveAudit]) -> pl.DataFrame:
    """Return the audits as a table. Columns: `COLUMNS`."""
    rows = [
        {**dict.fromkeys(COLUMNS), "campaign": campaign.id, "host": one.host, "drive": one.drive, **row}
        for one in found
        for row in _rows(one)
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def _rows(one: DriveAudit) -> Iterator[dict[str, Any]]:
    finding = f"{one.finding} ({one.detail})" if one.finding else None
    yield {"quantity": DRIVE, "verdict": one.verdict.value, "finding": finding}
    yield from map(_power, one.powers)
    if one.histogram.readings:
        yield {
            "quantity": HISTOGRAM,
            "runs_compared": one.histogram.readings,
            "verdict": one.histogram.verdict.value,
            "finding": next(iter(one.histogram.contradictions), None),
        }
    if one.lifetime is not None:
        yield _lifetime(one.lifetime)


def _power(check: PowerCheck) -> dict[str, Any]:
    return {
        "quantity": check.quantity,
        "condition": check.condition,
        "runs_compared": check.runs,
        "rails_watts": check.watts,
        "reported_watts": check.reported_watts,
        "ratio": check.ratio,
        "ratio_low": check.interval.low if check.interval else None,
        "ratio_high": check.interval.high if check.interval else None,
        "meter_limit_percent": 100 * check.limit,
        "stated_error_percent": check.error_percent,
        "verdict": check.verdict.value,
    }


def _lifetime(check: LifetimeCheck) -> dict[str, Any]:
    return {
        "quantity": LIFETIME,
        "stated_error_percent": check.error_percent,
        "reported_watt_hours": float(check.watt_hours),
        "rails_watt_hours_low": check.least,
        "rails_watt_hours_high": check.most if check.most != float("inf") else None,
        "verdict": check.verdict.value,
        "finding": "; ".join(f"{how} in {run}" for run, how in check.falls) or None,
    }
