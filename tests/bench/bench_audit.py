# SPDX-License-Identifier: GPL-3.0-or-later
"""How often drives that report their own power are judged rightly: simulated campaigns of 12 twins.

Each twin is true, or wrong in its own way (tests/support/simulated_reports.py). Judged is by the
rig's own code. A false accusation is a report said to be contradicted that is not, or contradicted
by something that is right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from joulerig.analysis.audit.checks import Verdict
from tests.support import ROOT
from tests.support.simulated_reports import METER_LIMIT, REPLICATES, TWINS, audit

SEED = 20_261_126
MOST_FALSE = 1  # accusations, over all campaigns


def measure(campaigns: int) -> list[dict[str, Any]]:
    lines = []
    for twin in TWINS:
        found = [audit(twin, SEED + number) for number in range(campaigns)]
        right = [(one.verdict, one.finding) == (twin.verdict, twin.finding) for one in found]
        accused = [one.verdict == Verdict.CONTRADICTED for one in found]
        lines.append(
            {
                "twin": twin.name,
                "expected": twin.verdict.value,
                "finding": twin.finding.value,
                "right": sum(right),
                "false_accusations": sum(a and not r for a, r in zip(accused, right, strict=True)),
                "campaigns": campaigns,
            }
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=20, help="of each twin")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "audit.json")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    lines = measure(arguments.campaigns)
    false = sum(one["false_accusations"] for one in lines)
    wrong = [one["twin"] for one in lines if one["right"] < one["campaigns"]]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "seed": SEED, "meter_limit": METER_LIMIT, "replicates": REPLICATES,
        "false_accusations": false, "twins": lines,
    }  # fmt: skip
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    for one in lines:
        print(f"{one['twin']:20} {one['right']} of {one['campaigns']} judged rightly: {one['expected']}")
    print(f"false accusations: {false}, at most {MOST_FALSE}; {time.perf_counter() - begin:.0f} s")
    for name in wrong:
        print(f"DOES NOT HOLD: {name}")
    return 1 if wrong or false > MOST_FALSE else 0


if __name__ == "__main__":
    sys.exit(main())
