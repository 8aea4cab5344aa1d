# SPDX-License-Identifier: GPL-3.0-or-later
"""What a campaign's comparisons say, as tables: pairs, effects, uncertainty budgets, Cemp."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import polars as pl

from joulerig.analysis import studies
from joulerig.analysis.compare import cemp, cross_talk, drift, outliers
from joulerig.analysis.compare import elasticity as elasticities
from joulerig.analysis.compare.cells import RUN_TO_RUN, Comparison
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.schema import level_texts
from joulerig.analysis.statistics.effects import BLOCK, Effects
from joulerig.analysis.statistics.interval import Interval
from joulerig.analysis.statistics.ranking import Pair

_COMPARED = {
    "campaign": pl.String,
    "drive": pl.String,
    "workload": pl.String,
    "further": pl.String,
    "quantity": pl.String,
}
PAIR_COLUMNS = {
    **_COMPARED,
    "first": pl.String,
    "second": pl.String,
    "less_percent": pl.Float64,
    "less_percent_low": pl.Float64,
    "less_percent_high": pl.Float64,
    "less_percent_meter": pl.Float64,
    "p": pl.Float64,
    "separated": pl.Boolean,
    "method": pl.String,
    "why_untested": pl.String,
}
BEST_COLUMNS = {
    **_COMPARED,
    "best": pl.String,
    "cell": pl.String,
    "less_percent": pl.Float64,
    "less_percent_low": pl.Float64,
    "less_percent_high": pl.Float64,
    "less_percent_meter": pl.Float64,
    "less_percent_detectable": pl.Float64,
    "may_be_best": pl.Boolean,
}
EFFECT_COLUMNS = {
    **_COMPARED,
    "source": pl.String,
    "degrees_of_freedom": pl.Int64,
    "share_percent": pl.Float64,
    "f": pl.Float64,
    "p": pl.Float64,
    "deviation_percent": pl.Float64,
}
BUDGET_COLUMNS = {
    **_COMPARED,
    "cell": pl.String,
    "source": pl.String,
    "standard_uncertainty_percent": pl.Float64,
    "share_percent": pl.Float64,
    "unknown": pl.String,
}
CEMP_COLUMNS = {
    **_COMPARED,
    "definition": pl.String,
    "anchor": pl.String,
    "cell": pl.String,
    "energy_change_percent": pl.Float64,
    "performance_change_percent": pl.Float64,
    "cemp": pl.Float64,
    "energy_quantity": pl.String,
    **{
        f"{name}_{end}": pl.Float64
        for name in ("energy_change_percent", "performance_change_percent", "cemp")
        for end in ("low", "high")
    },
    "why": pl.String,
}
ELASTICITY_COLUMNS = {
    "campaign": pl.String,
    "drive": pl.String,
    "filesystem": pl.String,
    "scheduler": pl.String,
    "held": pl.String,
    "factor": pl.String,
    "levels": pl.String,
    "elasticity": pl.Float64,
    "elasticity_low": pl.Float64,
    "elasticity_high": pl.Float64,
    "watts_variation_percent": pl.Float64,
    "why": pl.String,
}
CLAIM_COLUMNS = {
    "campaign": pl.String,
    "study": pl.String,
    "claim": pl.String,
    "where": pl.String,
    "verdict": pl.String,
    "effect": pl.Float64,
    "effect_low": pl.Float64,
    "effect_high": pl.Float64,
    "blocks": pl.Int64,
    "expected": pl.String,
    "why": pl.String,
    "text": pl.String,
    "origin": pl.String,
}


def pairs(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row for each pair of cells of one comparison. Columns: `PAIR_COLUMNS`.

    The better cell is first. A row says how much less the second gives, relative to the first, with
    an interval and p adjusted for all pairs of the campaign.
    """
    rows = [
        {
            **_head(campaign, one),
            "first": pair.first,
            "second": pair.second,
            **_difference(pair),
            "p": pair.p,
            "separated": pair.separated,
            "method": one.ranking.method,
            "why_untested": one.ranking.why,
        }
        for one in compared
        for pair in one.ranking.pairs
    ]
    return pl.DataFrame(rows, schema=PAIR_COLUMNS)


def best(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row for each cell compared with the greatest of its comparison.

    Columns: `BEST_COLUMNS`. A row says how much less the cell gives than the greatest, with an
    interval that holds for all comparisons with the best at once. Without a test there is no row.
    """
    rows = [
        {
            **_head(campaign, one),
            "best": pair.first,
            "cell": pair.second,
            **_difference(pair),
            "less_percent_detectable": _percent(pair.detectable),
            "may_be_best": not pair.separated,
        }
        for one in compared
        for pair in one.ranking.with_best
    ]
    return pl.DataFrame(rows, schema=BEST_COLUMNS)


def _difference(pair: Pair) -> dict[str, float | None]:
    low, high = pair.relative_difference_interval or (None, None)
    return {
        "less_percent": _percent(pair.relative_difference),
        "less_percent_low": _percent(low),
        "less_percent_high": _percent(high),
        "less_percent_meter": None if pair.systematic is None else 100 * -math.expm1(-pair.systematic),
    }


def effects(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row for each source of variation of a comparison. Columns: `EFFECT_COLUMNS`.

    A row has the source's share of the sums of squares, F and p; blocks and what remains have their
    relative standard deviation.
    """
    rows = [
        {**_head(campaign, one), **row}
        for one in compared
        if one.by_factor
        for row in _sources(one.by_factor)
    ]
    return pl.DataFrame(rows, schema=EFFECT_COLUMNS)


def _sources(found: Effects) -> Iterator[dict[str, object]]:
    for part in found.sources:
        spread = found.block_deviation if part.source == BLOCK else None
        yield {
            "source": part.source,
            "degrees_of_freedom": part.freedom,
            "share_percent": 100 * part.share,
            "f": part.f,
            "p": part.p,
            "deviation_percent": _percent(spread),
        }
    yield {
        "source": RUN_TO_RUN,
        "degrees_of_freedom": found.residual_freedom,
        "share_percent": 100 * found.residual_share,
        "deviation_percent": _percent(found.residual_deviation),
    }


def budget(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row for each source of uncertainty of a cell's AI. Columns: `BUDGET_COLUMNS`.

    A row has the relative standard uncertainty and the share of the variance; a source that is not
    known is a row without figures.
    """
    rows = []
    for one in compared:
        for cell, precision in one.precision.items():
            head = {**_head(campaign, one), "cell": cell}
            rows += [
                {
                    **head,
                    "source": source,
                    "standard_uncertainty_percent": 100 * part,
                    "share_percent": _percent(precision.shares.get(source)),
                }
                for source, part in precision.parts.items()
            ]
            rows += [{**head, "source": source, "unknown": why} for source, why in precision.unknown.items()]
    return pl.DataFrame(rows, schema=BUDGET_COLUMNS)


def changes(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row for each anchor of a comparison that has AI. Columns: `CEMP_COLUMNS`.

    A row has Cemp with dE and dP.
    """
    rows = [
        {
            **_head(campaign, one),
            "definition": cemp.DEFINITION,
            "anchor": change.anchor,
            "cell": change.cell,
            "energy_change_percent": 100 * change.energy,
            "performance_change_percent": 100 * change.performance,
            "cemp": change.cemp,
            "energy_quantity": change.quantity,
            **_ends("energy_change_percent", change.energy_interval, 100),
            **_ends("performance_change_percent", change.performance_interval, 100),
            **_ends("cemp", change.cemp_interval),
            "why": change.why,
        }
        for one in compared
        for change in one.changes
    ]
    return pl.DataFrame(rows, schema=CEMP_COLUMNS)


def elasticity(campaign: Campaign, compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row for each combination and factor that varies its load.

    Columns: `ELASTICITY_COLUMNS`.
    """
    rows = [
        {
            "campaign": campaign.id,
            "drive": place.drive,
            "filesystem": place.filesystem,
            "scheduler": place.scheduler,
            "held": ", ".join(level_texts(place.held)),
            "factor": place.factor,
            "levels": ", ".join(place.levels),
            "elasticity": found.value,
            **_ends("elasticity", found.interval),
            "watts_variation_percent": 100 * found.watts_variation,
            "why": found.why,
        }
        for place, found in elasticities.by_combination(campaign, compared)
    ]
    return pl.DataFrame(rows, schema=ELASTICITY_COLUMNS)


def _ends(name: str, found: Interval | None, unit: float = 1.0) -> dict[str, float | None]:
    low, high = found or (None, None)
    return {
        f"{name}_low": None if low is None else unit * low,
        f"{name}_high": None if high is None else unit * high,
    }


def _head(campaign: Campaign, one: Comparison) -> dict[str, str]:
    return {"campaign": campaign.id, **one.columns}


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def claims(campaign: Campaign, _compared: Sequence[Comparison]) -> pl.DataFrame:
    """Return one row for each verdict on a claim. Columns: `CLAIM_COLUMNS`.

    The claims are those of the study that the campaign repeats.
    """
    study = studies.find_study(campaign)
    rows = [
        {
            "campaign": campaign.id,
            "study": study.name,
            "claim": one.claim.key,
            "where": one.where,
            "verdict": one.verdict,
            "effect": one.effect.value if one.effect else None,
            "effect_low": one.effect.low if one.effect else None,
            "effect_high": one.effect.high if one.effect else None,
            "blocks": one.effect.blocks if one.effect else None,
            "expected": one.expected,
            "why": one.why,
            "text": one.claim.text,
            "origin": one.claim.origin,
        }
        for one in studies.verdicts(campaign)
    ]
    return pl.DataFrame(rows, schema=CLAIM_COLUMNS)


# By the name of their CSV file.
TABLES = {
    "pairs": pairs,
    "best": best,
    "effects": effects,
    "budget": budget,
    "cemp": changes,
    "elasticity": elasticity,
    "drift": drift.table,
    "outliers": outliers.table,
    "cross_talk": cross_talk.table,
    "claims": claims,
}
