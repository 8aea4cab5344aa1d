# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of coefficients: every one of each drive, also those that are not exported."""

from __future__ import annotations

import math
from collections.abc import Mapping

import polars as pl

from joulerig.analysis.coefficients import design, estimates
from joulerig.analysis.coefficients.estimates import DriveEstimates, Estimate
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.runs.idle import Idle

COLUMNS = {
    "campaign": pl.String,
    "host": pl.String,
    "drive": pl.String,
    "cell": pl.String,
    "coefficient": pl.String,
    "value": pl.Float64,
    "value_low": pl.Float64,
    "value_high": pl.Float64,
    "unit": pl.String,
    "runs": pl.Int64,
    "exported": pl.Boolean,
    "withheld": pl.String,
    "condition_number": pl.Float64,
    "residual_percent": pl.Float64,
    "held_out_percent": pl.Float64,
}


def table(campaign: Campaign, idles: Mapping[str, Idle] | None = None) -> pl.DataFrame:
    """Return one row a drive and coefficient. Columns: `COLUMNS`.

    `idles` as in `estimates.of_campaign`.
    """
    found = estimates.of_campaign(campaign, idles)
    rows = [_row(campaign, drive, one) for drive in found for one in drive.estimates]
    return pl.DataFrame(rows, schema=COLUMNS)


def _row(campaign: Campaign, drive: DriveEstimates, one: Estimate) -> dict[str, object]:
    interval = one.interval
    row: dict[str, object] = {
        "campaign": campaign.id,
        "host": drive.place[0],
        "drive": drive.place[1],
        "cell": one.cell,
        "coefficient": one.name,
        "value": one.value,
        "value_low": interval.low if interval else None,
        "value_high": interval.high if interval else None,
        "unit": one.unit,
        "runs": one.runs,
        "exported": not one.withheld,
        "withheld": one.withheld,
    }
    fit = drive.fit if one.name in design.TERMS else None
    if fit is not None and not fit.saturated:
        held_out = fit.held_out_rms
        row |= {
            "condition_number": fit.condition if math.isfinite(fit.condition) else None,
            "residual_percent": 100 * fit.residual_rms,
            "held_out_percent": None if held_out is None else 100 * held_out,
        }
    return row
