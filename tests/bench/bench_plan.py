#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a campaign of 100,000 runs takes: `rig plan`, and the journal as its executor uses it.

The plan: 20,000 cells of seven factors on the shipped lab, five replicates, some cells excluded;
the command as a user starts it, without asking the hosts (--offline). The median of the rounds
counts. The results folder has the journal of an earlier campaign of the same plan, from which it
takes what its runs took.

The journal: runs are taken and finished, each with its rows of phases, energy and results, where
the journal is empty, half full and nearly full. `take` is taking a host's next run; `finish` is
ending it and what the executor reads to say so. The median of the slowest of the three counts, the
journal's write to the disk included.

Exit code: 0 if all are within their bars, 1 if not, 2 if the bench could not run.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import yaml

from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.lab import model
from tests.support import ROOT

PLAN_BAR_SECONDS = 5.0
JOURNAL_BAR_MILLISECONDS = 5.0
RUNS = 100_000
SECOND = 1_000_000_000
CAMPAIGN = {
    "name": "bench-plan",
    "question": "How long does it take to plan 100,000 runs?",
    "drives": ["nvme-plp", "nvme-consumer", "sata-plp", "sata-consumer"],
    "factors": {
        "filesystem": ["ext4", "xfs", "f2fs", "btrfs", "jfs"],
        "scheduler": ["none", "mq-deadline"],
        "workload": ["overwrite-fsync", "append-fsync"],
        "sync": ["fsync", "fdatasync"],
        "journal": ["internal"],
        "fill": [0, 0.2, 0.4, 0.6, 0.9],
        "run_seconds": [],
    },
    "exclude": [{"filesystem": "btrfs", "fill": 0.9, "reason": "too full for it"}],
    "replicates": 5,
}


def campaign(runs):
    """The campaign with as many lengths of a load as give `runs`."""
    factors = CAMPAIGN["factors"]
    cells = len(CAMPAIGN["drives"])
    for name, levels in factors.items():
        cells *= 1 if name == "run_seconds" else len(levels)
    lengths, left = divmod(runs, cells * CAMPAIGN["replicates"])
    if left or not lengths:
        raise ValueError(f"{runs} runs; allowed: a multiple of {cells * CAMPAIGN['replicates']}")
    lengths = [10 * number for number in range(1, lengths + 1)]
    return {**CAMPAIGN, "factors": {**factors, "run_seconds": lengths}}


def tables(ordinal):
    """The rows that a run leaves: five phases, one rail, two counts of its I/O."""
    begin = 1_794_600_000 * SECOND + ordinal * 60 * SECOND
    names = ("prepare", "setup", "idle", "workload", "tail")
    phases = [
        {
            "phase": name,
            "start_ns": begin + number * 5 * SECOND,
            "end_ns": begin + (number + 1) * 5 * SECOND,
            "clock_offset_ns": 0,
            "clock_error_ns": 100_000,
        }
        for number, name in enumerate(names)
    ]
    rail = {"meter": "tap1a", "rail": "12v", "drive": "nvme-plp", "joules": 20.0 + ordinal % 7}
    counts = {"samples": 5000, "expected": 5000, "lost": 0, "gap_seconds": 0.0}
    return {
        "phase": phases,
        "performance": [{"seconds": 5.0, "ops": 50_000 + ordinal, "ops_per_second": 10_000.0}],
        "energy": [{"phase": name, **rail, **counts} for name in names],
        "result": [{"joules": 20.0, "ai_ops_per_joule": 2500.0 + ordinal % 11, "mean_watts": 4.0}],
        "io": [{"source": source, "writes": 50_000, "write_bytes": 2 * 10**8} for source in ("host", "iod")],
    }


def use_journal(journal, host, times):
    """Take and finish the next runs as the executor does; return the milliseconds of each."""
    taken, finished = [], []
    for _ in range(times):
        begin = time.perf_counter()
        run = journal.take(host)
        between = time.perf_counter()
        journal.finish(run["id"], "ok", "", tables(run["ordinal"]))
        journal.run(run["id"])
        journal.size()
        end = time.perf_counter()
        taken.append(1e3 * (between - begin))
        finished.append(1e3 * (end - between))
    return taken, finished


def fill(folder, until):
    """Finish the runs up to the ordinal `until` in one go."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as database, database:
        rows = database.execute(
            "SELECT id, ordinal FROM run WHERE ordinal <= ? AND status = 'planned'", (until,)
        ).fetchall()
        for run, ordinal in rows:
            for table, content in tables(ordinal).items():
                for row in content:
                    columns = {"run": run, **row}
                    marks = ", ".join("?" for _ in columns)
                    database.execute(
                        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", list(columns.values())
                    )
        database.execute(
            "UPDATE run SET status = 'ok', started_ns = ordinal * 60000000000,"
            " ended_ns = ordinal * 60000000000 + 35000000000 WHERE ordinal <= ? AND status = 'planned'",
            (until,),
        )
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else the next runs' writes wait for it


def measure_journal(results, planned, times):
    """Return the medians of take and finish, in milliseconds, where they were slowest."""
    name = "bench-plan-20261113-082640"
    row = {
        "id": name,
        "name": "bench-plan",
        "question": planned.campaign.question,
        "kind": planned.kind,
        "created_ns": time.time_ns(),
        "definition": planned.campaign.model_dump_json(),
        "lab": planned.lab.model_dump_json(exclude={"inventory": True}),
        "virtual": 1,
        "provenance": "{}",
    }
    begin = time.perf_counter()
    journal = Journal.create(results / name, row, list(planned.rows(name)))
    print(f"  journal made in {time.perf_counter() - begin:.1f} s")
    host = planned.runs[0].host
    medians = []
    try:
        for filled in (0, len(planned.runs) // 2, len(planned.runs) - 2 * times):
            fill(results / name, filled)
            taken, finished = use_journal(journal, host, times)
            medians.append((statistics.median(taken), statistics.median(finished)))
            print(f"  {filled:7} runs ended: take {medians[-1][0]:.2f} ms, finish {medians[-1][1]:.2f} ms")
    finally:
        journal.close()
    take, finish = map(max, zip(*medians, strict=True))
    megabytes = (results / name / "journal.sqlite").stat().st_size / 1e6
    return {
        "take_ms": round(take, 2),
        "finish_ms": round(finish, 2),
        "journal_megabytes": round(megabytes),
    }


def measure_plan(state, playbook, rounds):
    """Return the median of the command's seconds."""
    folders = {"JOULERIG_VAR": str(state / "var"), "JOULERIG_RESULTS": str(state / "results")}
    command = [sys.executable, "-m", "joulerig.rig.cli.main", "plan", "--offline", str(playbook)]
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **folders}, capture_output=True, text=True
        )
        seconds.append(time.perf_counter() - begin)
        if done.returncode:
            raise OSError(f"rig plan ended with code {done.returncode}: {done.stderr.strip()}")
    print(done.stdout)
    return statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "bench" / "plan.json")
    arguments = parser.parse_args()
    try:
        mapping = campaign(arguments.runs)
        with tempfile.TemporaryDirectory(prefix="bench-plan-") as folder:
            state = Path(folder)
            planned = make_plan(mapping, model.load(ROOT / "inventory.ini"), "bench")
            result = measure_journal(state / "results", planned, arguments.times)
            playbook = state / "big.yml"
            play = {"import_playbook": "campaign.yml", "vars": {"campaign": mapping}}
            playbook.write_text(yaml.safe_dump([play]))
            seconds = measure_plan(state, playbook, arguments.rounds)
    except (OSError, ValueError) as error:
        print(f"bench_plan: {error}", file=sys.stderr)
        return 2
    result = {
        "runs": len(planned.runs),
        "cells": planned.block_size,
        "plan_seconds": round(seconds, 2),
        **result,
        "plan_bar_seconds": PLAN_BAR_SECONDS,
        "journal_bar_ms": JOURNAL_BAR_MILLISECONDS,
        "cpus": len(os.sched_getaffinity(0)),
    }
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    bars = [
        ("rig plan", seconds, PLAN_BAR_SECONDS, "s"),
        ("taking a run", result["take_ms"], JOURNAL_BAR_MILLISECONDS, "ms"),
        ("finishing a run", result["finish_ms"], JOURNAL_BAR_MILLISECONDS, "ms"),
    ]
    for what, value, bar, unit in bars:
        print(f"{'holds' if value <= bar else 'DOES NOT HOLD'}: {what} {value:.2f} {unit}, at most {bar:g}")
    return 0 if all(value <= bar for _, value, bar, _ in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
