# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the rig's bounds and flags can be trusted: planted faults, and sealed draws.

    python -m tests.bench.sealed [--runs 60] [--seed N] [--output FILE]

Each of the twenty planted faults (faults.py) is measured once through the real chain (chain.py),
with what a campaign says of it, and what a check of the meter with a resistor says, which a
campaign does not run. Then as many runs as asked for, each with a tap that is as dirty as its
declaration allows. Their draws are sealed before the first run: they are on disk encrypted, and
their digest is printed; the key, which is in this process alone, is printed after the last. What
the rig's programs get to see is the tap's samples.

Prints planted_faults, faults_reported (by a campaign), faults_by_check_alone, sealed_runs and
sealed_inside: in how many of the sealed runs the truth of each rail lies in the bounds of the
workload phase. `make bench-trust` has these figures with others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import secrets
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.bench.sealed import chain, faults
from tests.support.influxd import Influxd

Say = Callable[[str], object]
COUNTS = ("planted_faults", "faults_reported", "faults_by_check_alone", "sealed_runs", "sealed_inside")
LANES = 2  # measurements at a time: they mostly wait


def measure(setups: Sequence[faults.Setup], folder: Path, say: Say) -> list[chain.Outcome]:
    """Measure each of `setups`, some at a time; `say` gets a line for each."""
    with contextlib.ExitStack() as stack:
        free: queue.SimpleQueue[Influxd] = queue.SimpleQueue()
        for lane in range(LANES):
            free.put(stack.enter_context(Influxd(folder / f"influxd{lane}")))

        def one(number: int) -> chain.Outcome:
            influx = free.get()
            try:
                return chain.measure_once(setups[number], folder / str(number), influx)
            finally:
                free.put(influx)

        found = []
        for outcome in stack.enter_context(ThreadPoolExecutor(LANES)).map(one, range(len(setups))):
            say(line(outcome))
            found.append(outcome)
    return found


def line(outcome: chain.Outcome) -> str:
    """Describe an outcome on one line."""
    inside = {True: "inside", False: "OUTSIDE", None: "no bounds"}[outcome.inside]
    error = "" if outcome.error_percent is None else f"{outcome.error_percent:+.3f} %"
    said = "; ".join([*outcome.reported, *outcome.checked]) or "-"
    return f"{outcome.setup.name:28} {inside:10} {error:>12}  {said[:160]}"


def planted(folder: Path, say: Say) -> dict[str, Any]:
    """Measure each planted fault; return how many a campaign reports, and each one's outcome."""
    found = measure(faults.PLANTED, folder, say)
    by_check = [one.setup.name for one in found if one.checked and not one.reported]
    return {
        "planted_faults": len(found),
        "faults_reported": sum(bool(one.reported) for one in found),
        "faults_by_check_alone": len(by_check),
        "details": {
            "faults_neither_reported_nor_bounded": [
                one.setup.name for one in found if not one.reported and one.inside is False
            ],
            "faults_found_by_a_check_alone": by_check,
            "faults": {
                one.setup.name: {
                    "reported": one.reported,
                    "checked": one.checked,
                    "inside": one.inside,
                    "error_percent": one.error_percent,
                }
                for one in found
            },
        },
    }


def sealed_runs(runs: int, seed: int, folder: Path, say: Say) -> dict[str, Any]:
    """Measure `runs` sealed draws; return in how many the truth lies in the bounds."""
    key = secrets.token_bytes(32)
    path = folder / "sealed"
    path.write_bytes(faults.seal([faults.draw(seed, number) for number in range(runs)], key))
    digest = faults.digest(path.read_bytes())
    say(f"sealed draws: sha256 {digest}")
    found = measure(faults.unseal(path.read_bytes(), key), folder, lambda text: None)
    if faults.digest(path.read_bytes()) != digest:
        raise ValueError(f"{path}: the draws were changed while they were measured")
    say(f"key: {key.hex()}")
    for one in found:
        say(line(one))
    return {
        "sealed_runs": len(found),
        "sealed_inside": sum(one.inside is True for one in found),
        "details": {
            "sealed_without_bounds": sum(one.inside is None for one in found),
            "sealed_reported": sum(bool(one.reported or one.checked) for one in found),
            "sealed_false_alarms": sum(bool(false_alarms(one)) for one in found),
            "false_alarms": [text for one in found for text in false_alarms(one)],
            "sealed_digest": digest,
            "sealed_seed": seed,
            "sealed_worst_error_percent": max((one.error_percent or 0.0 for one in found), key=abs),
        },
    }


def false_alarms(outcome: chain.Outcome) -> list[str]:
    """Return what is reported of a sealed run, in which nothing is beyond what is declared.

    Lost and doubled blocks are in the ledger, rightly.
    """
    return [*(text for text in outcome.reported if text.startswith("doubtful")), *outcome.checked]


def measure_all(runs: int, seed: int, folder: Path, say: Say) -> dict[str, Any]:
    """Measure the planted faults and sealed runs; return the figures of both, and `details`."""
    parts = [planted(folder / "planted", say)]
    (folder / "runs").mkdir()
    parts.append(sealed_runs(runs, seed, folder / "runs", say))
    details = {key: value for part in parts for key, value in part.pop("details").items()}
    return {**parts[0], **parts[1], "details": details}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=60, help="sealed runs")
    parser.add_argument("--seed", type=int, help="of the draws; a random one where it is not given")
    parser.add_argument("--output", type=Path, help="write all figures to this file")
    arguments = parser.parse_args()
    seed = secrets.randbits(63) if arguments.seed is None else arguments.seed
    with tempfile.TemporaryDirectory(prefix="jr") as place:
        result = measure_all(arguments.runs, seed, Path(place), print)
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    for key in (
        *("planted_faults", "faults_reported", "faults_by_check_alone"),
        "sealed_runs",
        "sealed_inside",
    ):
        print(f"{key}: {result[key]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
