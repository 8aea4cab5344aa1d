# SPDX-License-Identifier: GPL-3.0-or-later
"""How far results can be trusted: statistics, planted faults, sealed runs, and the AI at scale.

    python -m tests.bench.bench_trust [--output results/bench/trust.json]

- how often the interval of a cell's AI holds the truth, in twenty settings (coverage.py)
- how often comparisons err where nothing differs, and find what does (trust.py)
- how often a winner is named because its runs met the better of two modes (modes.py)
- how often a gate, a series and a bisection name what is not so (between.py)
- which of twenty planted faults a campaign reports and which a check with a resistor alone, and in
  how many of sixty sealed runs the truth is within the bounds (sealed/)
- signals that are hostile to a meter: whether their energy lies within the bounds (hostile/)
- how often idle power is right or not known, and honest drives are accused (idle.py)
- the AI of 10,000 runs, compared with pandas (bench_analysis.py)

The statistics are computed while the measurements wait for their loads; the AI has the machine for
itself. Prints a line for each bar. Exit code: 0 if all hold, 1 if not, 2 if the bench could not
run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench import bench_analysis, between, coverage, idle, modes, trust
from tests.bench.hostile import __main__ as hostile
from tests.bench.sealed.__main__ import measure_all
from tests.support import ROOT

CELLS = 20_000  # of each setting: its coverage is known to 0.15 %, the bars are 2 % away
CAMPAIGNS = 1000  # of each line of the comparisons
BETWEEN = 400  # of each line of gates and series
SEALED_RUNS = 60
AI_RUNS = 10_000
LEAST_SETTINGS, LEAST_PLANTED, LEAST_INSIDE = 20, 20, 57
LEAST_REPORTED, LEAST_FOUND = 15, 18  # by a campaign; by that or by a check with a resistor
REPORTED = "faults_told"  # the name by which readers of the file know it
BY_CHECK = "faults_by_check_alone"
MOST_AI_SECONDS = 0.6
LEAST_POWER_BLOCKS = 5


def statistics(cells: int, campaigns: int) -> dict[str, Any]:
    """Return the figures of coverage.py, trust.py and modes.py."""
    null, ahead, in_modes = trust.nulls(campaigns), trust.power(campaigns), modes.measure(campaigns)
    several = [one for one in null if one.blocks > 1]
    return {
        "cell_coverage": coverage.coverage(cells),
        "null_false_separation_worst": max(one.separated for one in several),
        "null_false_winner_worst": max(one.named for one in several),
        "n1_names_a_winner": max(one.named for one in null if one.blocks == 1),
        "power_10_percent_n5": next(one.right for one in ahead if one.blocks == LEAST_POWER_BLOCKS),
        "modes_false_winner_worst": max(one.named for one in modes.judged(in_modes)),
        **between.figures(between.rates(BETWEEN)),
        "details": {
            "cells_a_setting": cells,
            "campaigns_a_line": campaigns,
            "cell_coverage_where_the_meter_dominates": coverage.coverage(cells, coverage.DOMINATED),
            "modes": [asdict(one) for one in in_modes],
            "comparisons": [asdict(one) for one in (*null, *ahead)],
        },
    }


def time_ai(place: Path, runs: int) -> dict[str, Any]:
    """Return the seconds of the AI of `runs` runs, and of pandas for the same.

    Raises bench_analysis.CannotRun where the two differ.
    """
    amounts = argparse.Namespace(ai_runs=runs, report_runs=bench_analysis.REPORT_RUNS, samples=0)
    bench_analysis.measured("build_ai", place, amounts)
    ours, pandas = (bench_analysis.measured(part, place, amounts) for part in ("ai", "pandas_ai"))
    if not bench_analysis.agree(ours["gave"], pandas["gave"]):
        raise bench_analysis.CannotRun("the AI does not agree with pandas")
    return {
        "ai_10000_runs_seconds": round(ours["seconds"], 3),
        "pandas_ai_seconds": round(pandas["seconds"], 3),
        "details": {
            "ai_peak_megabytes": round(ours["peak_megabytes"]),
            "pandas_ai_peak_megabytes": round(pandas["peak_megabytes"]),
        },
    }


def bars(found: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """Return of each bar whether it holds, and its line."""
    shares = found["cell_coverage"].values()
    least, most = coverage.LEAST, coverage.MOST
    judged = [
        (
            len(shares) >= LEAST_SETTINGS and least <= min(shares) and max(shares) <= most,
            f"cell_coverage: {min(shares):.3f} to {max(shares):.3f} in {len(shares)} settings"
            f" (bar: {least} to {most} in each of {LEAST_SETTINGS})",
        )
    ]
    for key, limit in (
        ("null_false_separation_worst", trust.MOST_SEPARATED),
        ("null_false_winner_worst", trust.MOST_NAMED),
        ("n1_names_a_winner", 0),
        ("modes_false_winner_worst", modes.MOST_NAMED),
        ("hostile_outside", 0),
        ("hostile_median_ratio", hostile.MOST_RATIO),
        ("ai_10000_runs_seconds", MOST_AI_SECONDS),
    ):
        judged.append((found[key] <= limit, f"{key}: {found[key]} (bar: at most {limit})"))
    either = found[REPORTED] + found[BY_CHECK]
    judged.append(
        (either >= LEAST_FOUND, f"{BY_CHECK}: {found[BY_CHECK]} (bar: {LEAST_FOUND} with {REPORTED})")
    )
    judged += [
        (
            share <= between.MOST_WRONG,
            f"between_campaigns_wrong_worst: {question}: {share} (bar: at most {between.MOST_WRONG})",
        )
        for question, share in found["between_campaigns_wrong_worst"].items()
    ]
    for key, limit in (
        ("power_10_percent_n5", trust.LEAST_FOUND),
        ("planted_faults", LEAST_PLANTED),
        (REPORTED, LEAST_REPORTED),
        ("sealed_runs", SEALED_RUNS),
        ("sealed_inside", LEAST_INSIDE),
        ("hostile_signals", hostile.LEAST_SIGNALS),
        ("hostile_chosen_after_the_code", hostile.LEAST_CHOSEN),
    ):
        judged.append((found[key] >= limit, f"{key}: {found[key]} (bar: at least {limit})"))
    return [*judged, *idle.bars(found)]


def measure(seed: int, runs: int = SEALED_RUNS) -> dict[str, Any]:
    """Measure all parts; return the figures, with `details` last."""
    begin = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="jr") as place,
        ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), initializer=os.nice, initargs=(19,)
        ) as other,
    ):
        simulated = [other.submit(statistics, CELLS, CAMPAIGNS), other.submit(idle.measure)]
        sealed = measure_all(runs, seed, Path(place), lambda text: print(text, flush=True))
        (signals := Path(place) / "hostile").mkdir()
        against = hostile.figures(hostile.measure(signals))
        parts = [*(one.result() for one in simulated), sealed, against, time_ai(Path(place), AI_RUNS)]
    found: dict[str, Any] = {}
    details: dict[str, Any] = {"cpus": len(os.sched_getaffinity(0))}
    for part in parts:
        details |= part.pop("details")
        found |= part
    found[REPORTED] = found.pop("faults_reported")
    details["seconds"] = round(time.perf_counter() - begin)
    return {**found, "details": details}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, help="of the sealed draws; random where it is not given")
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/trust.json")
    arguments = parser.parse_args()
    seed = secrets.randbits(63) if arguments.seed is None else arguments.seed
    try:
        found = measure(seed)
    except (bench_analysis.CannotRun, OSError) as error:
        print(f"bench_trust: {error}", file=sys.stderr)
        return 2
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    judged = bars(found)
    for holds, text in judged:
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {text}")
    return 0 if all(holds for holds, _ in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
