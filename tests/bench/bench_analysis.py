#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the analysis takes at scale: seconds and peak memory, compared with plain pandas.

AI of 10,000 simulated runs: from the journal to each cell's AI with its intervals, bootstrap and
ranking. pandas: the same cells' AI alone, a join and a grouped ratio of sums.

Tables of the same runs and of their cells, with what is in the files of each run: from the journal
to both frames. The comparisons are made for the second one.

Joules of a waveform of 100 million samples in powerd's format. pandas: both columns in memory, the
sum of their product; DuckDB reads the file for it, as pandas itself has no Parquet reader.

The lab report of 1,000 simulated runs (200 cells, ten rankings), HTML and PDF, and that of 18 runs
with their power traces.

Each part has its own process, whose greatest resident memory counts (of a report, that of the
greater of its two processes), and its seconds count its imports. What both ways give has to agree.
This process imports nothing large: Linux counts the memory of who starts a program as the
program's.

Exit code: 0 if the reports take at most 15 s and 4 s, 1 if not or if results differ, 2 if the bench
could not run. The 15 s are judged for 1,000 runs and no other number.
"""

import argparse
import json
import math
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import ROOT

REPORT_RUNS = 1_000
REPORT_BAR_SECONDS = 15.0  # for REPORT_RUNS runs
SMALL_RUNS = 18  # of two drives, three file systems and three schedulers
SMALL_BAR_SECONDS = 4.0
FREE_BYTES_A_SAMPLE = 24  # on the disk, more than the file takes
RATE_HZ = 1_000_000
MATRIX = {
    "drives": ("nvme-consumer", "nvme-plp"),
    "filesystems": ("ext4", "xfs", "f2fs", "ext2", "btrfs"),
    "schedulers": ("none", "mq-deadline", "bfq", "kyber"),
    "workloads": ("randwrite-fsync", "varmail", "fileserver", "webserver", "oltp"),
}
CELLS = math.prod(map(len, MATRIX.values()))
FEWEST_TO_RESAMPLE = 3  # runs of a cell: with fewer it has no bootstrap
PARTS = ("ai", "pandas_ai", "tables", "waveform", "pandas_waveform", "report", "small_report")
BUILDS = ("build_ai", "build_report", "build_small_report", "build_waveform")


class CannotRun(Exception):
    """The bench lacks something; its text is one line for the user."""


def build_ai(place: Path, args: argparse.Namespace) -> None:
    _build_campaign(place / "ai", args.ai_runs)


def build_report(place: Path, args: argparse.Namespace) -> None:
    _build_campaign(place / "report", args.report_runs)


def build_small_report(place: Path, _) -> None:
    from tests.support import simulated_campaign

    simulated_campaign.build(place / "small", traces=True)


def _build_campaign(folder: Path, runs: int) -> None:
    from tests.support import simulated_campaign

    simulated_campaign.build(folder, replicates=runs // CELLS, **MATRIX)


def build_waveform(place: Path, args: argparse.Namespace) -> None:
    """Write one rail's quantised window means, with at most a row group in memory."""
    import duckdb

    from joulerig.analysis.results.waveform import METADATA_KEY

    path, samples = place / "waveform.parquet", args.samples
    clock = [{"stream": 0, "index": i, "utc_ns": 1_700_000_000 * 10**9 + i * 1000} for i in (0, samples)]
    meta = {
        "version": 1,
        "meter": "tap1a",
        "sample_rate_hz": RATE_HZ,
        "samples": "window-mean",
        "clock": clock,
    }
    duckdb.execute(
        f"""COPY (SELECT 'vhost1' AS host, 'nvme-plp' AS drive, '12v' AS rail, 0::INTEGER AS stream,
        i::BIGINT AS index, (12 + (hash(i) % 1024) / 8192)::FLOAT AS volts,
        (0.4 + (hash(i + 1) % 8192) / 16384)::FLOAT AS amps FROM range({samples}) AS one(i))
        TO '{path}' (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE 262144,
        KV_METADATA {{'{METADATA_KEY}': '{json.dumps(meta)}'}})"""
    )


def ai(place: Path, args: argparse.Namespace) -> dict[str, float]:
    from joulerig.analysis import results
    from joulerig.analysis.compare import cells

    compared = cells.compare_cells(results.load(place / "ai"))
    if args.ai_runs >= FEWEST_TO_RESAMPLE * CELLS:
        for one in compared:
            assert one.ranking.method
            assert all(found.interval and found.bootstrap for found in one.precision.values())
    return {cell: point.ai for one in compared for cell, point in one.points.items()}


def tables(place: Path, _) -> dict[str, float]:
    from joulerig.analysis import results
    from joulerig.analysis.runs import over_time
    from joulerig.analysis.tables import runs_and_cells

    campaign = results.load(place / "ai")
    over, _ = over_time.power_by_run(campaign)
    rows = runs_and_cells.runs(campaign, over)
    assert rows.height == len(campaign.runs)
    cells = runs_and_cells.cells(campaign, over=over)
    return dict(cells.select("cell", "ai_ops_per_joule").iter_rows())


def pandas_ai(place: Path, _) -> dict[str, float]:
    import pandas

    with sqlite3.connect(f"file:{place / 'ai' / 'journal.sqlite'}?mode=ro", uri=True) as database:
        runs = pandas.read_sql("SELECT id AS run, cell, status FROM run", database)
        done = pandas.read_sql("SELECT run, ops FROM performance", database)
        energy = pandas.read_sql("SELECT run, corrected_joules AS joules FROM result", database)
    found = runs[runs.status == "ok"].merge(done, on="run").merge(energy, on="run").groupby("cell")
    sums = found[["ops", "joules"]].sum()
    return (sums.ops / sums.joules).to_dict()


def waveform(place: Path, _) -> dict[str, float]:
    from joulerig.analysis.runs import waveform_chunks

    path = place / "waveform.parquet"
    stretches = (waveform_chunks.stretches(block) for block in waveform_chunks.split_file(path))
    found = waveform_chunks.joules(path, stretches)
    return {rail: value.joules for (_, _, rail), value in found.items()}


def pandas_waveform(place: Path, _) -> dict[str, float]:
    import duckdb

    frame = duckdb.sql(f"SELECT volts, amps FROM read_parquet('{place / 'waveform.parquet'}')").df()
    return {"12v": float((frame.volts.astype("float64") * frame.amps.astype("float64")).sum()) / RATE_HZ}


def report(place: Path, _) -> dict[str, float]:
    return _report(place / "report")


def small_report(place: Path, _) -> dict[str, float]:
    return _report(place / "small")


def _report(folder: Path) -> dict[str, float]:
    from joulerig.analysis import report as reports

    return {path.name: path.stat().st_size for path in reports.write(folder, ("html", "pdf"))}


def measured(part: str, place: Path, args: argparse.Namespace) -> dict:
    """Do one part in its own process: seconds, peak memory, and what it gave."""
    command = [sys.executable, "-m", "tests.bench.bench_analysis", "--part", part, "--place", str(place)]
    command += [f"--ai-runs={args.ai_runs}", f"--report-runs={args.report_runs}", f"--samples={args.samples}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise CannotRun(f"{part}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return json.loads(done.stdout)


def alone(part: str, args: argparse.Namespace) -> None:
    begin = time.perf_counter()
    gave = globals()[part](args.place, args)
    seconds = time.perf_counter() - begin
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in usage)
    peak = max(one.ru_maxrss for one in usage) / 1024
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "peak_megabytes": peak, "gave": gave}))


def agree(one: dict[str, float], other: dict[str, float]) -> bool:
    return one.keys() == other.keys() and all(math.isclose(one[k], other[k], rel_tol=1e-9) for k in one)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the analysis at scale.")
    parser.add_argument("--ai-runs", type=int, default=10_000, help=f"a multiple of {CELLS}")
    parser.add_argument("--report-runs", type=int, default=REPORT_RUNS, help=f"a multiple of {CELLS}")
    parser.add_argument("--samples", type=int, default=100_000_000)
    parser.add_argument("--output", default=str(ROOT / "results/bench/analysis.json"))
    parser.add_argument("--part", choices=(*PARTS, *BUILDS), help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        alone(args.part, args)
        return 0
    place = Path(tempfile.mkdtemp(prefix="bench-analysis-"))
    try:
        if shutil.disk_usage(place).free < FREE_BYTES_A_SAMPLE * args.samples:
            raise CannotRun(f"{place}: less than {FREE_BYTES_A_SAMPLE * args.samples / 1e9:.1f} GB free")
        print("making campaigns and a waveform")
        for part in BUILDS:
            measured(part, place, args)
        megabytes = (place / "waveform.parquet").stat().st_size / 1e6
        found = {}
        for part in PARTS:
            found[part] = measured(part, place, args)
            print(
                f"  {part:16} {found[part]['seconds']:8.2f} s  {found[part]['cpu_seconds']:8.2f} s of CPU"
                f"  {found[part]['peak_megabytes']:7.0f} MB",
                flush=True,
            )
    except (CannotRun, OSError) as error:
        print(f"bench_analysis: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(place, ignore_errors=True)
    verdicts = {
        "AI agrees with pandas": agree(found["ai"]["gave"], found["pandas_ai"]["gave"]),
        "the table of cells agrees": agree(found["tables"]["gave"], found["pandas_ai"]["gave"]),
        "the waveform's joules agree with pandas": agree(
            found["waveform"]["gave"], found["pandas_waveform"]["gave"]
        ),
    }
    if args.report_runs == REPORT_RUNS:
        seconds = found["report"]["seconds"]
        verdict = f"report of {REPORT_RUNS} runs in {seconds:.1f} s, at most {REPORT_BAR_SECONDS:g}"
        verdicts[verdict] = seconds <= REPORT_BAR_SECONDS
        seconds = found["small_report"]["seconds"]
        verdict = f"report of {SMALL_RUNS} runs in {seconds:.1f} s, at most {SMALL_BAR_SECONDS:g}"
        verdicts[verdict] = seconds <= SMALL_BAR_SECONDS
    names = {
        "ai": "ai_10000_runs",
        "tables": "tables_10000_runs",
        "waveform": "waveform_100m",
        "report": "report_1000_runs",
    }
    names["small_report"] = f"report_{SMALL_RUNS}_runs"
    names |= {f"pandas_{part}": f"pandas_{name}" for part, name in names.items()}
    result = {f"{names[part]}_seconds": round(one["seconds"], 2) for part, one in found.items()}
    result |= {f"{names[part]}_peak_megabytes": round(one["peak_megabytes"]) for part, one in found.items()}
    result |= {
        "ai_runs": args.ai_runs,
        "report_runs": args.report_runs,
        "samples": args.samples,
        "waveform_file_megabytes": round(megabytes),
        "cpus": len(os.sched_getaffinity(0)),
    }
    output = Path(args.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    for verdict, holds in verdicts.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {verdict}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
