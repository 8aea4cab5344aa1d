#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What iod costs the host that it watches: CPU, memory, and the load's speed.

iod runs at 10 Hz with 8 drives against a real influxd on this machine. What it
reads at each tick:

- diskstats, stat, meminfo: this machine's own /proc (through links), so that
  the kernel's price of making them is in the figure. Where the machine lists
  fewer than 8 block devices, diskstats is a made-up file of 8 drives with a
  partition each;
- the journal statistics of 8 mounted ext4 file systems: made-up files, since
  eight mounts cannot be had everywhere (a plain file costs a little less than
  one of /proc). iod asks a drive's journal while the drive writes and a second
  longer, so what it costs depends on how many of this machine's devices write;
- the drives' serials (every 10 s): a made-up sysfs.

Not in it: the NVMe health log, which needs real drives (one command a drive
every 10 s).

CPU is the run time of all of iod's threads (schedstat, ns) after a warm-up;
memory is VmHWM. The load is fio, 4 KiB random writes with an fsync each, one
job per CPU so that nothing is left idle for iod to hide in, on a small file in
--directory (never a block device). Each round runs it without iod, with,
without: ratio = with / mean of the two without; control = one without / the
other, which is what the machine does by itself. influxd runs here too, as it
would not in a lab, so the price of its ingesting is in the ratio.

"No measurable effect" needs a machine quiet enough to measure one: the 95 %
interval of the median ratio (order statistics, no assumption on the spread)
has to contain 1 or lie above it, and must not reach below 0.95. Where other
work makes it wider, the verdict is that nothing was shown, which is a failure.

Exit code: 0 if CPU, memory and load are within the bars, 1 if not or not
shown, 2 if the bench could not run.
"""

import argparse
import json
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from tests.support import ROOT

DRIVES = 8
INTERVAL_HZ = 10
CPU_BAR_PERCENT = 0.3
RSS_BAR_MEGABYTES = 20.0
RESOLUTION_BAR = 0.95
WARM_UP_SECONDS = 3.0
JOURNAL = """{n} transactions ({n} requested), each up to 8192 blocks
average: 
  0ms waiting for transaction
  0ms request delay
  20ms running transaction
  0ms transaction was being locked
  0ms flushing data (in ordered mode)
  20ms logging transaction
  15981us average transaction commit time
  67 handles per transaction
  1 blocks per transaction
  3 logged blocks per transaction
"""  # noqa: W291


class CannotRun(Exception):
    """The bench lacks something; its text is one line for the user."""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_host(root: Path) -> tuple[list[str], str]:
    """Make the proc and sys trees; return the serials and the source of diskstats."""
    listed = [line.split()[2] for line in Path("/proc/diskstats").read_text().splitlines()]
    names = [name for name in listed if Path("/sys/block", name).exists()][:DRIVES]
    (root / "proc").mkdir(parents=True)
    for name in ("stat", "meminfo", "mounts"):
        (root / "proc" / name).symlink_to(f"/proc/{name}")
    if len(names) == DRIVES:
        (root / "proc" / "diskstats").symlink_to("/proc/diskstats")
        source = f"/proc/diskstats of this machine, {len(listed)} devices"
    else:
        names = [f"nvme{i}n1" for i in range(DRIVES)]
        counts = (
            "96590 24348 7321002 31360 154568 104621 16640592 48181 0"
            " 18972 82489 27662 23 4648688 1840 34382 1107"
        )
        write(
            root / "proc" / "diskstats",
            "".join(
                f" 259 {2 * i + p:7d} {name}{'p1' * p} {counts}\n"
                for i, name in enumerate(names)
                for p in (0, 1)
            ),
        )
        source = f"made up, {2 * DRIVES} devices"
    serials = []
    for i, name in enumerate(names):
        serial = f"BENCH{i:04d}"
        write(root / "sys/block" / name / "serial", serial + "\n")
        write(root / "sys/block" / name / "device/serial", serial + "\n")
        write(root / "sys/block" / name / "size", "16777216\n")
        write(root / f"proc/fs/jbd2/{name}-8/info", JOURNAL.format(n=2092 + i))
        serials.append(serial)
    return serials, source


class Influxd:
    """A real influxd in a directory and on a port of the bench."""

    def __init__(self, directory: Path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        write(directory / "influxd.conf", "")
        env = os.environ | {
            "INFLUXDB_META_DIR": f"{directory}/meta",
            "INFLUXDB_DATA_DIR": f"{directory}/data",
            "INFLUXDB_DATA_WAL_DIR": f"{directory}/wal",
            "INFLUXDB_DATA_INDEX_VERSION": "tsi1",
            "INFLUXDB_HTTP_BIND_ADDRESS": f"127.0.0.1:{port}",
            "INFLUXDB_BIND_ADDRESS": "127.0.0.1:0",
            "INFLUXDB_REPORTING_DISABLED": "true",
            "INFLUXDB_MONITOR_STORE_ENABLED": "false",
        }
        with open(directory / "influxd.log", "wb") as log:
            self.process = subprocess.Popen(
                ["influxd", "run", "-config", str(directory / "influxd.conf")],
                env=env,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 15
        while True:
            try:
                urllib.request.urlopen(self.url + "/ping", timeout=1).close()
                break
            except OSError as error:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    self.stop()
                    raise CannotRun(f"influxd does not answer: {error}") from None
                time.sleep(0.05)
        self.query("CREATE DATABASE bench")

    def query(self, q: str):
        body = urllib.parse.urlencode({"db": "bench", "q": q}).encode()
        with urllib.request.urlopen(self.url + "/query", data=body, timeout=10) as answer:
            return json.load(answer)["results"][0]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class Iod:
    """The agent, with its own spool."""

    def __init__(self, program: str, directory: Path, influxd: Influxd, serials: list[str]):
        directory.mkdir()
        config = directory / "iod.json"
        config.write_text(
            json.dumps(
                {
                    "host": "bench",
                    "interval_seconds": 1 / INTERVAL_HZ,
                    "health_interval_seconds": 0,
                    "spool_dir": str(directory / "spool"),
                    "socket": str(directory / "iod.sock"),
                    "proc_root": str(directory.parent / "host/proc"),
                    "sys_root": str(directory.parent / "host/sys"),
                    "influx": {"url": influxd.url, "database": "bench"},
                    "drives": [{"name": f"drive{i}", "serial": serial} for i, serial in enumerate(serials)],
                }
            )
        )
        self.log = directory / "stderr"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program, "--config", str(config)], stderr=log)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=15) != 0:
            raise CannotRun(f"iod ended with code {self.process.returncode}: {self.log.read_text()}")


def cpu_seconds(pid: int) -> float:
    """Run time of all threads of a process, from the scheduler's ns."""
    return (
        sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    )


def high_water_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise CannotRun(f"/proc/{pid}/status has no VmHWM")


def measure_cost(iod: Iod, influxd: Influxd, seconds: float) -> dict:
    time.sleep(WARM_UP_SECONDS)
    if iod.process.poll() is not None:
        raise CannotRun(f"iod ended: {iod.log.read_text()}")
    pid, start = iod.process.pid, time.monotonic()
    iod_before, influxd_before = cpu_seconds(pid), cpu_seconds(influxd.process.pid)
    time.sleep(seconds)
    elapsed = time.monotonic() - start
    used = cpu_seconds(pid) - iod_before
    influxd_used = cpu_seconds(influxd.process.pid) - influxd_before
    rss = high_water_megabytes(pid)
    iod.stop()
    points = {}
    for measurement, field in (
        ("blockio", "reads"),
        ("fsjournal", "transactions"),
        ("hostload", "agent_cpu_seconds"),
    ):
        series = influxd.query(f"SELECT count({field}) FROM {measurement}").get("series")
        points[measurement] = series[0]["values"][0][1] if series else 0
    # A cheap agent that writes nothing would be no result.
    expected = DRIVES * INTERVAL_HZ * (elapsed + WARM_UP_SECONDS)
    for measurement in ("blockio", "fsjournal"):
        if not 0.95 * expected <= points[measurement] <= 1.1 * expected:
            raise CannotRun(
                f"{points[measurement]} {measurement} points in InfluxDB, about {expected:.0f} expected"
            )
    return {
        "seconds": round(elapsed, 1),
        "cpu_percent_of_one_core": round(100 * used / elapsed, 4),
        "rss_megabytes": round(rss, 2),
        "points": points,
        "influxd_cpu_percent_of_one_core": round(100 * influxd_used / elapsed, 3),
    }


def fio_iops(directory: Path, seconds: float) -> float:
    job = [
        "fio",
        "--name=load",
        f"--directory={directory}",
        "--ioengine=psync",
        "--rw=randwrite",
        "--bs=4k",
        "--size=16m",
        "--fsync=1",
        f"--numjobs={os.cpu_count()}",
        "--time_based",
        f"--runtime={seconds}",
        "--group_reporting",
        "--randrepeat=1",
        "--output-format=json",
    ]
    done = subprocess.run(job, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotRun(f"fio ended with code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["write"]["iops"]


def median_interval(values: list[float]) -> tuple[float, float]:
    """95 % confidence interval of the median from order statistics (binomial)."""
    n, ordered = len(values), sorted(values)
    rank, tail = 0, 0.0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 0.05:
            break
        rank += 1
    return ordered[rank - 1], ordered[n - rank]


def measure_load(
    program: str,
    work: Path,
    load_directory: Path,
    influxd: Influxd,
    serials: list[str],
    rounds: int,
    seconds: float,
) -> dict:
    ratios, controls = [], []
    fio_iops(load_directory, 1)  # lays the files out
    for i in range(rounds):
        before = fio_iops(load_directory, seconds)
        iod = Iod(program, work / f"load{i}", influxd, serials)
        try:
            time.sleep(1)
            during = fio_iops(load_directory, seconds)
        finally:
            iod.stop()
        after = fio_iops(load_directory, seconds)
        ratios.append(during / ((before + after) / 2))
        controls.append(after / before)
        print(
            f"  round {i + 1}/{rounds}: {before:.0f} IOPS without, {during:.0f} with, {after:.0f} without: "
            f"ratio {ratios[-1]:.4f}, control {controls[-1]:.4f}"
        )
    low, high = median_interval(ratios)
    return {
        "pairs": rounds,
        "load_ratio_ci95": [round(low, 4), round(high, 4)],
        "load_ratio_median": round(statistics.median(ratios), 4),
        "load_ratio_min": round(min(ratios), 4),
        "load_ratio_max": round(max(ratios), 4),
        "control_ratio_median": round(statistics.median(controls), 4),
        "control_ratio_min": round(min(controls), 4),
        "control_ratio_max": round(max(controls), 4),
        "load": f"fio randwrite 4k, fsync each, {os.cpu_count()} jobs, {seconds:g} s",
        "load_directory_is_tmpfs": is_tmpfs(load_directory),
    }


def is_tmpfs(path: Path) -> bool:
    out = subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True)
    return out.stdout.strip() == "tmpfs"


def main() -> int:
    here = ROOT
    parser = argparse.ArgumentParser(description="Measure what iod costs the host that it watches.")
    parser.add_argument("--iod", default=str(here / "build/iod"), help="the agent (build/iod)")
    parser.add_argument("--seconds", type=float, default=30, help="of measuring CPU and memory")
    parser.add_argument(
        "--pairs", type=int, default=12, help="rounds of the load without, with, without; at least 6"
    )
    parser.add_argument("--fio-seconds", type=float, default=2, help="of one run of the load")
    parser.add_argument(
        "--directory",
        default="/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir(),
        help="where the load's files are made",
    )
    parser.add_argument("--output", default=str(here / "results/bench/agent.json"))
    args = parser.parse_args()
    if args.pairs < 6:
        print(
            f"bench_agent: --pairs {args.pairs}: too few for a 95 % interval: expected at least 6",
            file=sys.stderr,
        )
        return 2
    for program in (args.iod, "influxd", "fio"):
        if shutil.which(program) is None:
            print(f"bench_agent: {program}: not found: expected a program that runs", file=sys.stderr)
            return 2
    work = Path(tempfile.mkdtemp(prefix="bench-agent-"))
    load_directory = Path(tempfile.mkdtemp(prefix="bench-agent-", dir=args.directory))
    influxd = None
    try:
        serials, source = make_host(work / "host")
        (work / "influxd").mkdir()
        influxd = Influxd(work / "influxd")
        print(f"iod, {DRIVES} drives at {INTERVAL_HZ} Hz for {args.seconds:g} s; diskstats: {source}")
        result = {"drives": DRIVES, "interval_hz": INTERVAL_HZ, "diskstats": source, "cpus": os.cpu_count()}
        iod = Iod(args.iod, work / "cost", influxd, serials)
        try:
            result |= measure_cost(iod, influxd, args.seconds)
        finally:
            iod.process.kill()
            iod.process.wait()
        print(
            f"  {result['cpu_percent_of_one_core']} % of one core (at most {CPU_BAR_PERCENT}), "
            f"{result['rss_megabytes']} MB (at most {RSS_BAR_MEGABYTES:g})"
        )
        result |= measure_load(args.iod, work, load_directory, influxd, serials, args.pairs, args.fio_seconds)
    except CannotRun as error:
        print(f"bench_agent: {error}", file=sys.stderr)
        return 2
    finally:
        if influxd is not None:
            influxd.stop()
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(load_directory, ignore_errors=True)
    output = Path(args.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    low, high = result["load_ratio_ci95"]
    verdicts = {
        f"CPU <= {CPU_BAR_PERCENT} % of one core": result["cpu_percent_of_one_core"] <= CPU_BAR_PERCENT,
        f"memory <= {RSS_BAR_MEGABYTES:g} MB": result["rss_megabytes"] <= RSS_BAR_MEGABYTES,
        f"load not slower: the median ratio's interval {low} to {high} reaches 1": high >= 1,
        f"load measured well enough: {low} to {high} does not reach below {RESOLUTION_BAR} "
        f"(the machine by itself: {result['control_ratio_min']} to {result['control_ratio_max']})": low
        >= RESOLUTION_BAR,
    }
    for what, holds in verdicts.items():
        print(f"{'holds' if holds else 'NOT SHOWN'}: {what}")
    return 0 if all(verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
