# SPDX-License-Identifier: GPL-3.0-or-later
"""How methods agree that read the energies of one campaign, one row two methods on a drive."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from joulerig.analysis.agreement import methods, own_word
from joulerig.analysis.agreement.methods import Compared
from joulerig.analysis.results.campaign import Campaign

COLUMNS = {
    "campaign": pl.String,
    "drive": pl.String,
    "method": pl.String,
    "other_method": pl.String,
    "pairs": pl.Int64,
    "bias_percent": pl.Float64,
    "bias_percent_low": pl.Float64,
    "bias_percent_high": pl.Float64,
    "agreement_percent_low": pl.Float64,
    "agreement_percent_high": pl.Float64,
    "beyond_percent": pl.Float64,
    "verdict": pl.String,
    "why": pl.String,
}


def compared(campaign: Campaign) -> list[Compared]:
    """Return how methods agree where a drive has more than meters and, on a virtual lab, a twin.

    What a meter is off by of its twin stands elsewhere, by run.
    """
    if not own_word.is_there(campaign):
        return []
    known = methods.of_campaign(campaign)
    return methods.compare(campaign, known) if own_word.METHOD in known else []


def table(campaign: Campaign, found: Sequence[Compared]) -> pl.DataFrame:
    """Return it as a table. Columns: `COLUMNS`."""
    return pl.DataFrame([{"campaign": campaign.id, **_row(one)} for one in found], schema=COLUMNS)


def _row(one: Compared) -> dict[str, object]:
    found = one.found
    bias = [100 * end for end in found.bias] if found.bias else [None] * 3
    return {
        "drive": one.drive,
        "method": one.one,
        "other_method": one.other,
        "pairs": found.pairs,
        "bias_percent": bias[0],
        "bias_percent_low": bias[1],
        "bias_percent_high": bias[2],
        "agreement_percent_low": 100 * found.low_limit[0] if found.low_limit else None,
        "agreement_percent_high": 100 * found.high_limit[0] if found.high_limit else None,
        "beyond_percent": 100 * found.beyond[0] if found.beyond else None,
        "verdict": found.verdict.value,
        "why": found.why,
    }
