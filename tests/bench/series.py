#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often `rig compare --series` shows a change that is none, and finds one, on simulated series.

Series of 4 to 48 campaigns without a change, with normal noise, noise of heavy tails (t of 3
degrees) and noise of exponential skew; then with a step half way, and with a level that comes back.
Exit code: 0 if all bars hold, 1 if not.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from joulerig.analysis.gate import levels
from tests.support import ROOT

SEED = 70
COUNTS = (4, 6, 8, 12, 24, 48)
STEP = 3.0  # standard deviations of a campaign's value
NOISES: dict[str, Callable] = {
    "normal": lambda rng, count: rng.standard_normal(count),
    "heavy tails": lambda rng, count: rng.standard_t(3, count) / 3**0.5,
    "skewed": lambda rng, count: rng.standard_exponential(count) - 1,
}
SHAPES: dict[str, Callable] = {
    "step": lambda count: [count // 2],
    "comes back": lambda count: [count // 3, 2 * count // 3],
}
MOST_FALSE = {"normal": 0.05, "heavy tails": 0.05, "skewed": 0.08}  # the stated rate; skewed noise costs


def false_alarms(noise: Callable, count: int, series: int) -> float:
    rng = np.random.default_rng([SEED, count])
    return sum(bool(levels.steps(noise(rng, count))) for _ in range(series)) / series


def found(places: list[int], count: int, series: int) -> dict[str, float]:
    """Return the shares of series that show each place within one campaign, and others as well."""
    rng = np.random.default_rng([SEED, count, len(places)])
    raised = np.zeros(count)
    raised[places[0] : places[1] if len(places) > 1 else count] = STEP
    right = further = 0
    for _ in range(series):
        at = [step.at for step in levels.steps(raised + rng.standard_normal(count))]
        right += all(any(abs(one - place) <= 1 for one in at) for place in places)
        further += any(all(abs(one - place) > 1 for place in places) for one in at)
    return {"found": right / series, "others": further / series}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=1000, help="of each line")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "series.json")
    given = parser.parse_args()
    lines = []
    for name, noise in NOISES.items():
        for count in COUNTS:
            rate = false_alarms(noise, count, given.series)
            lines.append({"noise": name, "campaigns": count, "false_alarms": rate})
            print(f"{name:12} {count:3} campaigns: {100 * rate:5.2f} % show a change", flush=True)
    for name, shape in SHAPES.items():
        for count in COUNTS[2:]:
            rates = found(shape(count), count, given.series)
            lines.append({"shape": name, "campaigns": count, **rates})
            print(
                f"{name:12} {count:3} campaigns: {100 * rates['found']:5.1f} % found,"
                f" {100 * rates['others']:.1f} % show others too",
                flush=True,
            )
    worst = {name: max(one["false_alarms"] for one in lines if one.get("noise") == name) for name in NOISES}
    given.output.parent.mkdir(parents=True, exist_ok=True)
    result = {"series": given.series, "seed": SEED, "step": STEP, "false_alarms_worst": worst, "lines": lines}
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    for name, rate in worst.items():
        print(f"false alarms, {name}: {rate:.3f}, at most {MOST_FALSE[name]}")
    return int(any(rate > MOST_FALSE[name] for name, rate in worst.items()))


if __name__ == "__main__":
    sys.exit(main())
