# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare fixed with random blocks: how often a factor with and without effect is found.

`PYTHONPATH=. .venv/bin/python tests/support/simulated_blocks.py` prints the table of
docs/decisions/013-blocks.md; three minutes.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.formula.api import mixedlm

from joulerig.analysis.statistics import effects

CAMPAIGNS = 400
NOISE = 0.02


def campaign(rng: np.random.Generator, blocks: int, missing: int, between: float, effect: float):
    """Logarithms of 3 x 2 cells in blocks, some runs missing; the second factor has `effect`."""
    rows = [(f, s, b) for f in "abc" for s in "xy" for b in range(blocks)]
    frame = pd.DataFrame(rows, columns=["f", "s", "b"])
    of_block = rng.normal(0, between, blocks)
    frame["y"] = of_block[frame.b] + rng.normal(0, NOISE, len(frame)) + effect * (frame.s == "y")
    return frame.drop(rng.choice(len(frame), missing, replace=False)).reset_index(drop=True)


def p_values(frame: pd.DataFrame) -> tuple[float, float]:
    """Return p of the second factor by statistics.effects, and by the mixed model (REML, Wald)."""
    found = effects.two_way_anova(frame.f.tolist(), frame.s.tolist(), frame.b.tolist(), np.exp(frame.y))
    fixed = {part.source: part.p for part in found.sources}["scheduler"]
    try:
        z = mixedlm("y ~ C(f) + C(s)", frame, groups=frame.b).fit().tvalues["C(s)[T.y]"]
    except np.linalg.LinAlgError:
        return fixed, np.nan
    return fixed, 2 * stats.norm.sf(abs(z))


def main() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # a warning for nearly every fit
    rng = np.random.default_rng(14)
    print("blocks  missing  between  effect   fixed   random  (share with p < 5 %)  no fit")
    for blocks, missing, between in ((3, 0, 0.02), (3, 4, 0.02), (5, 6, 0.02), (3, 4, 0.0)):
        for effect in (0.0, 0.02):
            p = np.array(
                [p_values(campaign(rng, blocks, missing, between, effect)) for _ in range(CAMPAIGNS)]
            )
            shares = [f"{100 * np.nanmean(of < 0.05):6.1f}" for of in p.T]
            print(
                f"{blocks:6} {missing:8} {between:8} {effect:7} {shares[0]:>8} {shares[1]:>8}"
                f" {np.isnan(p[:, 1]).sum():27}"
            )


if __name__ == "__main__":
    main()
