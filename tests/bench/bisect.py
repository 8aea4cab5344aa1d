#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often `rig bisect` names the wrong one of 16 kernels, and what that costs, simulated.

A regression of 1.5, 2, 3 and 5 standard deviations of a boot, before any of 15 kernels; blocks vary
by one deviation and drift; noise is normal, or has heavy tails. Wrong is another kernel than the
planted one, and any at all where none is planted. Exit code: 0 if all bars hold, 1 if not.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from joulerig.analysis.bisect.search import Design, Outcome
from tests.support import ROOT
from tests.support.simulated_bisect import NOISES, Rig, conclude, planted

SEED = 71
LEVELS = 16
MOST_BLOCKS = 60
SIZES = (0.0, 1.5, 2.0, 3.0, 5.0)
DRIFT = 0.1  # deviations a block
WRONG_AT_MOST = 0.05
RIGHT_AT_LEAST = 0.9  # of those of three deviations and more, within the budget


def line(size: float, noise: str, searches: int) -> dict[str, Any]:
    rng = np.random.default_rng([SEED, round(10 * size), len(noise)])
    design, outcomes, blocks, wrong = Design(LEVELS, MOST_BLOCKS), [], [], 0
    for number in range(searches):
        first_bad = 1 + number % (LEVELS - 1)
        rig = Rig(planted(LEVELS, first_bad, size), rng, noise, drift=DRIFT)
        found = conclude(rig, design)
        outcomes.append(found.outcome)
        blocks.append(found.blocks)
        wrong += found.outcome is Outcome.FOUND and (size == 0 or found.first_bad != first_bad)
    counts = {str(one): outcomes.count(one) / searches for one in Outcome if one in outcomes}
    wrong_share = wrong / searches
    return {
        "size": size, "noise": noise, "wrong": wrong_share,
        "right": counts.get(str(Outcome.FOUND), 0.0) - wrong_share,
        "mean_blocks": fmean(blocks), "outcomes": counts,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=1000, help="of each line")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "bisect.json")
    given = parser.parse_args()
    lines = []
    for noise in NOISES:
        for size in SIZES:
            lines.append(found := line(size, noise, given.searches))
            print(
                f"{noise:12} {size:3g} deviations: right {100 * found['right']:5.1f} %, wrong"
                f" {100 * found['wrong']:4.1f} %, {found['mean_blocks']:4.1f} blocks; {found['outcomes']}",
                flush=True,
            )
    worst = max(one["wrong"] for one in lines)
    least = min(one["right"] for one in lines if one["size"] >= 3)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "searches_per_line": given.searches, "seed": SEED, "levels": LEVELS, "most_blocks": MOST_BLOCKS,
        "wrong_worst": worst, "right_of_large_least": least, "lines": lines,
    }  # fmt: skip
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrong: {worst:.3f}, at most {WRONG_AT_MOST}; right: {least:.3f}, at least {RIGHT_AT_LEAST}")
    return int(worst > WRONG_AT_MOST or least < RIGHT_AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
