# SPDX-License-Identifier: GPL-3.0-or-later
"""Rank simulated campaigns by other rules than the shipped one (decision 040)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike

from joulerig.analysis.statistics import differences, shrinkage
from tests.bench.trust import NULLS, best_ahead, line

CAMPAIGNS = 1000
SETTINGS = ("1 % and 6 % alternate", "one 10 %, others 1 %")


def pool(variances: ArrayLike, degrees: ArrayLike, *_: object) -> shrinkage.Shrunk:
    found, each = np.asarray(variances), np.asarray(degrees)
    total = float(each.sum())
    return shrinkage.Shrunk(np.full(len(each), float(found @ each) / total), np.full(len(each), total), total)


RULES: dict[str, Mapping[str, object]] = {
    "as shipped": {},
    "without caution": {"CAUTION": 0.0},
    "no floor": {"FEW_RUNS": 0, "FEW_CELLS": 0},
    "floor with any number of runs": {"FEW_RUNS": 1000},
    "one pooled variance": {"shrinkage.shrink": pool},
}


def main() -> None:
    print(
        "rule", *(f"{setting}, {blocks}" for setting in SETTINGS for blocks in (2, 3, 5)), "found", sep=" | "
    )
    for rule, changes in RULES.items():
        with contextlib.ExitStack() as stack:
            for name, value in changes.items():
                where = shrinkage if "." in name else differences
                stack.enter_context(mock.patch.object(where, name.rsplit(".", maxsplit=1)[-1], value))
            found = [
                line(setting, NULLS[setting], blocks, CAMPAIGNS)
                for setting in SETTINGS
                for blocks in (2, 3, 5)
            ]
            ahead = line("best ahead", best_ahead, 5, CAMPAIGNS)
        shown = [f"{100 * one.separated:.1f}, {100 * one.named:.1f}" for one in found]
        print(rule, *shown, f"{100 * ahead.right:.0f}", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
