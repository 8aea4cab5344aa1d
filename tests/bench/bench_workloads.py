#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the workload engine costs an operation, and how its throughput grows with threads.

Cost: varmail with 16 threads on 2 CPUs, without the system calls (flowop run
--null: everything else is done, measuring included). An operation's cost is
the process's CPU seconds by its operations; the median of the rounds counts.

Growth: varmail's loop with the kernel's calls, in memory (--directory, a
tmpfs; on a drive the drive would be measured), with 1, 2, 4, 8 and 16 threads,
in turn, for several rounds; the median of each counts. Its mails are in
directories of about 64, not in one, whose lock would be measured otherwise.
Throughput has to grow up to as many threads as there are CPUs. A machine that
is busy with other work cannot show that.

Exit code: 0 if both hold, 1 if not, 2 if the bench could not run.
"""

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import ROOT

COST_BAR_MICROSECONDS = 2.0
COST_THREADS = 16
COST_CPUS = 2
GROWTH_THREADS = (1, 2, 4, 8, 16)
SPREAD = ("--set=nfiles=4096", "--set=meandirwidth=64")


class CannotRun(Exception):
    """The bench lacks something; its text is one line for the user."""


def flowop(program: str, directory: Path, threads: int, seconds: float, *more: str) -> dict:
    """Run varmail once and give its report."""
    command = [program, "run", "varmail", f"--directory={directory}", f"--seconds={seconds}"]
    command += [f"--set=nthreads={threads}", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotRun(f"flowop ended with code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure_cost(program: str, directory: Path, rounds: int, seconds: float) -> float:
    """Median CPU time of an operation without its system call, in microseconds."""
    costs = []
    for _ in range(rounds):
        report = flowop(program, directory, COST_THREADS, seconds, "--null")
        costs.append(1e6 * report["cpu_seconds_per_op"])
        print(f"  {COST_THREADS} threads: {costs[-1]:.3f} us an operation, {report['ops']} operations")
    return statistics.median(costs)


def measure_growth(program: str, directory: Path, rounds: int, seconds: float) -> dict[int, float]:
    """Median operations a second by number of threads, with the kernel's calls."""
    rates: dict[int, list[float]] = {threads: [] for threads in GROWTH_THREADS}
    for i in range(rounds):
        for threads in GROWTH_THREADS:
            report = flowop(program, directory, threads, seconds, *SPREAD)
            rates[threads].append(report["ops_per_second"])
        print(f"  round {i + 1}/{rounds}: " + ", ".join(f"{n}: {r[-1]:.0f}" for n, r in rates.items()))
    return {threads: round(statistics.median(values)) for threads, values in rates.items()}


def grows(rates: dict[int, float], cpus: int) -> bool:
    """Whether each step up to the number of CPUs does more."""
    steps = [rates[threads] for threads in GROWTH_THREADS if threads <= cpus]
    return all(more > fewer for fewer, more in itertools.pairwise(steps))


def main() -> int:
    here = ROOT
    parser = argparse.ArgumentParser(description="Measure what the workload engine costs, and how it scales.")
    parser.add_argument("--flowop", default=str(here / "build/flowop"), help="the engine (build/flowop)")
    parser.add_argument("--rounds", type=int, default=5, help="of each measurement")
    parser.add_argument("--seconds", type=float, default=3, help="of one run")
    parser.add_argument("--directory", default="/dev/shm", help="where the files are made: a tmpfs")
    parser.add_argument("--output", default=str(here / "results/bench/workloads.json"))
    args = parser.parse_args()
    if shutil.which(args.flowop) is None:
        print(f"bench_workloads: {args.flowop}: not found: expected a program that runs", file=sys.stderr)
        return 2
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < COST_CPUS:
        print(f"bench_workloads: {len(cpus)} CPU: expected at least {COST_CPUS}", file=sys.stderr)
        return 2
    work = Path(tempfile.mkdtemp(prefix="bench-workloads-", dir=args.directory))
    try:
        print("throughput in memory, operations a second by threads")
        rates = measure_growth(args.flowop, work, args.rounds, args.seconds)
        print(f"cost on {COST_CPUS} CPUs without system calls")
        os.sched_setaffinity(0, cpus[:COST_CPUS])
        cost = measure_cost(args.flowop, work, args.rounds, args.seconds)
    except CannotRun as error:
        print(f"bench_workloads: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(work, ignore_errors=True)
    result = {
        "threads": COST_THREADS,
        "us_per_op": round(cost, 3),
        "ops_per_second_by_threads": {str(threads): rate for threads, rate in rates.items()},
        "cpus": len(cpus),
        "rounds": args.rounds,
    }
    output = Path(args.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    verdicts = {
        f"{cost:.3f} us an operation, at most {COST_BAR_MICROSECONDS:g}": cost <= COST_BAR_MICROSECONDS,
        f"throughput grows with threads up to {len(cpus)} CPUs": grows(rates, len(cpus)),
    }
    for what, holds in verdicts.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {what}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
