# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulate races by other rules than the shipped one (docs/decisions/032-racing.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from unittest import mock

import numpy as np

from joulerig.analysis.statistics import differences, shrinkage
from joulerig.analysis.statistics.racing import Design
from tests.support.simulated_races import tally

CAMPAIGNS, CELLS, SEED = 500, 15, 3
SHIPPED = Design.even(10)
LATE = dataclasses.replace(SHIPPED, looks=SHIPPED.looks[1:], spending=(SHIPPED.alpha / 8,) * 8)
FREE = dataclasses.replace(SHIPPED, early_look=1)

_shrink, _compare = shrinkage.shrink, differences.Fit.compare_with_leader


def shrink_without_floor(variances: np.ndarray, degrees: np.ndarray) -> shrinkage.Shrunk:
    prior = shrinkage.fit_prior(variances[degrees > 0], degrees[degrees > 0])
    if np.isinf(prior.degrees):
        shrunk = np.full(len(variances), prior.variance)
    else:
        shrunk = (prior.degrees * prior.variance + degrees * variances) / (prior.degrees + degrees)
    return dataclasses.replace(_shrink(variances, degrees), variances=shrunk)


def pool(variances: np.ndarray, degrees: np.ndarray) -> shrinkage.Shrunk:
    total = float(degrees.sum())
    pooled = float(variances @ degrees) / total
    return shrinkage.Shrunk(np.full(len(degrees), pooled), np.full(len(degrees), total), total)


def compare_one_sided(fit, cells, level):
    return _compare(fit, cells, 2 * level)


RULES: dict[str, tuple[Callable, Callable, Design]] = {
    "as shipped": (_shrink, _compare, SHIPPED),
    "one-sided tests": (_shrink, compare_one_sided, SHIPPED),
    "no floor": (shrink_without_floor, _compare, SHIPPED),
    "one pooled variance": (pool, _compare, SHIPPED),
    "looks from the third block": (_shrink, _compare, LATE),
    "second look as all others": (_shrink, _compare, FREE),
}


def main() -> None:
    print("rule | ladder: runs, right | slippage: runs, right | noisy: false | two alike: false")
    for rule, (shrink, compare, design) in RULES.items():
        with (
            mock.patch.object(shrinkage, "shrink", shrink),
            mock.patch.object(differences.Fit, "compare_with_leader", compare),
        ):
            ladder, slippage, noisy = (
                tally(line, CELLS, design, CAMPAIGNS, SEED)
                for line in ("ladder", "slippage", "one cell noisy")
            )
            two = tally("alike", 2, design, 2 * CAMPAIGNS, SEED)
        print(
            f"{rule} | {100 * ladder.share:.1f} %, {100 * ladder.right:.1f} % | {100 * slippage.share:.1f} %,"
            f" {100 * slippage.right:.1f} % | {100 * noisy.any_winner:.1f} % | {100 * two.any_winner:.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
