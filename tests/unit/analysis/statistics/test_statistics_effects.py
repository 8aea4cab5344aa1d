# SPDX-License-Identifier: GPL-3.0-or-later
"""Effects of factors, Pareto fronts and Cemp."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from statsmodels.formula.api import mixedlm, ols
from statsmodels.stats.anova import anova_lm

from joulerig.analysis.statistics import effects, pareto


def runs(*, missing: int = 0, blocks: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(6)
    rows = [
        {
            "filesystem": f,
            "scheduler": s,
            "block": b,
            "value": math.exp(
                0.2 * (f == "xfs") + 0.1 * (s == "bfq") * (f == "f2fs") + b / 50 + 0.02 * rng.normal()
            ),
        }
        for f in ("ext4", "xfs", "f2fs")
        for s in ("none", "bfq")
        for b in range(blocks)
    ]
    return pl.DataFrame(rows).sample(len(rows) - missing, seed=3)


def effects_of(frame: pl.DataFrame) -> effects.Effects | None:
    return effects.two_way_anova(
        *(frame[name].to_list() for name in ("filesystem", "scheduler", "block", "value"))
    )


@pytest.mark.parametrize("missing", [0, 4])
def test_effects_are_those_of_statsmodels_type_2(missing):
    frame = runs(missing=missing, blocks=4)
    columns = frame.with_columns(y=pl.col("value").log()).to_dict(as_series=False)
    expected = anova_lm(
        ols("y ~ C(filesystem) * C(scheduler) + C(block)", pd.DataFrame(columns)).fit(), typ=2
    )
    named = {
        "file system": "C(filesystem)",
        "scheduler": "C(scheduler)",
        "file system × scheduler": "C(filesystem):C(scheduler)",
        "block": "C(block)",
    }
    found = effects_of(frame)
    total = expected["sum_sq"].sum()
    for part in found.sources:
        row = expected.loc[named[part.source]]
        assert (part.freedom, part.f, part.p, part.share) == pytest.approx(
            (row["df"], row["F"], row["PR(>F)"], row["sum_sq"] / total), rel=1e-8
        )
    residual = expected.loc["Residual"]
    assert found.residual_freedom == residual["df"]
    assert found.residual_deviation == pytest.approx(math.sqrt(residual["sum_sq"] / residual["df"]))


def test_shares_of_a_complete_campaign_add_up_to_one():
    found = effects_of(runs())
    assert sum(part.share for part in found.sources) + found.residual_share == pytest.approx(1)


def test_the_deviation_between_blocks_is_found():
    rng = np.random.default_rng(7)
    shift = rng.normal(0, 0.05, 60)
    levels = [(f, b) for b in range(60) for f in "xy"]
    values = [math.exp(shift[b] + 0.01 * rng.normal()) for _, b in levels]
    found = effects.two_way_anova([f for f, _ in levels], ["none"] * 120, [b for _, b in levels], values)
    assert found.block_deviation == pytest.approx(np.std(shift, ddof=1), rel=0.05)
    assert found.residual_deviation == pytest.approx(0.01, rel=0.2)
    assert [part.source for part in found.sources] == ["file system", "block"]


@pytest.mark.parametrize(
    ("first", "values"),
    [("xx", [1.0, 2.0]), ("xy", [1.0, 1.0]), ("xy", [0.0, 1.0]), ("", [])],
)
def test_where_nothing_varies_or_a_value_is_not_positive_there_are_none(first, values):
    assert effects.two_way_anova(list(first), ["none"] * len(first), [1] * len(first), values) is None


def test_one_run_a_cell_has_shares_and_no_test():
    found = effects.two_way_anova(["x", "y"], ["none", "none"], [1, 1], [1.0, 2.0])
    (part,) = found.sources
    assert (part.share, part.f, part.p) == (pytest.approx(1), None, None)
    assert (found.residual_deviation, found.block_deviation) == (None, None)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ({}, []),
        ({"x": (1, 1)}, ["x"]),
        ({"slow": (1, 1), "fast": (2, 2)}, ["slow", "fast"]),
        ({"good": (2, 1), "bad": (1, 2)}, ["good"]),
        ({"x": (2, 1), "same watts": (1, 1)}, ["x"]),
        ({"x": (2, 1), "same speed": (2, 2)}, ["x"]),
        ({"x": (2, 1), "twin": (2, 1)}, ["x", "twin"]),
    ],
)
def test_pareto_front(points, expected):
    assert pareto.front(points) == expected


def test_rounding_alone_is_not_variation():
    first, second = ["a", "a", "b", "b"] * 2, ["x", "y"] * 4
    values = np.exp(np.random.default_rng(4).normal(size=4))[[0, 1, 2, 3] * 2]
    found = effects.two_way_anova(first, second, [1] * 4 + [2] * 4, values)
    assert found.residual_share == 0.0
    assert next(part.share for part in found.sources if part.source == effects.BLOCK) == 0.0


@pytest.mark.filterwarnings("ignore:The MLE may be on the boundary")
def test_where_no_run_is_missing_deviations_are_those_of_the_mixed_model():
    """With the block as random effect, by REML (docs/decisions/013-blocks.md)."""
    rng = np.random.default_rng(7)
    of_block = rng.normal(0, 0.05, 6)
    frame = runs(blocks=6).with_columns(
        value=pl.col("value") * pl.col("block").map_elements(lambda b: math.exp(of_block[b]), pl.Float64)
    )
    columns = frame.with_columns(y=pl.col("value").log()).to_dict(as_series=False)
    fitted = mixedlm("y ~ C(filesystem) * C(scheduler)", pd.DataFrame(columns), groups="block").fit()
    found = effects_of(frame)
    assert found.block_deviation == pytest.approx(math.sqrt(fitted.cov_re.iloc[0, 0]), rel=1e-3)
    assert found.residual_deviation == pytest.approx(math.sqrt(fitted.scale), rel=1e-3)
