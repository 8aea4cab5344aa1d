#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether AI in slow motion depends on what else the machine does.

One campaign of two cells on a virtual lab, several times with the machine left alone and as often
with a busy loop that takes one of its processors, at `slow_motion: auto`. With --slow-motion it can
be seen how much it does at another pace.

Writes results/bench/slow_motion.json: AI of each cell in each campaign, and by how much the
greatest of a cell is above the least.

Exit code: 0 if that is at most 5 % in each cell, 1 if not, 2 if a campaign could not be run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.lab_driver import Lab

BAR_PERCENT = 5.0
CAMPAIGN_SECONDS = 3600
CAMPAIGN = {
    "drives": ["nvme-consumer"],
    "factors": {"filesystem": ["ext4", "f2fs"], "scheduler": ["none"], "workload": ["randwrite-fsync"]},
    "replicates": 1,
    "phases": {"rest_seconds": 1, "idle_seconds": 1, "workload_seconds": 4, "tail_seconds": 0},
}


class CannotRunError(Exception):
    """A campaign that was not measured; its text is one line for the user."""


@contextlib.contextmanager
def busy_loop() -> Iterator[None]:
    loop = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def measure(lab: Lab, name: str, slow_motion: float | str) -> dict[str, Any]:
    """Run the campaign; return by cell its AI, pace and slowness."""
    playbook = lab.playbook(name=name, slow_motion=slow_motion, **CAMPAIGN)
    done = lab.rig("run", str(playbook), timeout=CAMPAIGN_SECONDS)
    if done.returncode:
        raise CannotRunError(f"{name}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return {
        run["cell"]: {
            "ai_ops_per_joule": run["ai_ops_per_joule"],
            "device_bound_fraction": run["device_bound_fraction"],
            "slowness": next(one["slowness"] for one in run["phases"] if one["phase"] == "workload"),
        }
        for run in lab.results_of()["runs"]
    }


def apart_percent(campaigns: list[dict[str, Any]]) -> dict[str, float]:
    """Return by cell how much its greatest AI is above its least."""
    found = {}
    for cell in campaigns[0]:
        values = [one[cell]["ai_ops_per_joule"] for one in campaigns]
        found[cell] = round(100 * (max(values) / min(values) - 1), 2)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=3, help="campaigns alone, and as many with a busy loop")
    parser.add_argument(
        "--slow-motion", default="auto", type=lambda word: word if word == "auto" else float(word)
    )
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/slow_motion.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="joulerig-slow-") as folder:
        lab = Lab(Path(folder))
        try:
            up = lab.rig("up", timeout=1800)
            if up.returncode:
                raise CannotRunError(up.stderr.strip())
            found: dict[str, list[dict[str, Any]]] = {"alone": [], "busy": []}
            for number in range(arguments.times):
                for name, meanwhile in (("alone", contextlib.nullcontext()), ("busy", busy_loop())):
                    with meanwhile:
                        one = measure(lab, f"{name}-{number}", arguments.slow_motion)
                    print(name, json.dumps(one), flush=True)
                    found[name].append(one)
        except CannotRunError as error:
            print(f"bench_slow_motion: {error}", file=sys.stderr)
            return 2
        finally:
            lab.rig("down")
    apart = apart_percent(found["alone"] + found["busy"])
    result = {"slow_motion": arguments.slow_motion, "apart_percent": apart, **found}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    for cell, percent in apart.items():
        verdict = "holds" if percent <= BAR_PERCENT else "DOES NOT HOLD"
        print(f"{verdict}: AI of {cell} is within {percent} % (bar: {BAR_PERCENT:g} %)")
    return 0 if max(apart.values()) <= BAR_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
