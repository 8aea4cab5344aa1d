#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a local NBD client sees each drive profile's latency, rates and bandwidth.

The null model (a twin without a model of time) says what the transport takes: nbdkit, its unix
socket and the client (fio's NBD engine, libnbd). Its 4 KiB operations a second at depth 32 say how
much the server serves, by this machine's clock; nbdkit's own memory plugin, measured in turn with
it, how much of that is the twin's.

Drives are measured in slow motion: twin and client are on a lab's clock (virtuallab/clock) that
goes so many times slower than the machine's, and the machine, its late wake-ups and whatever else
it does take as much less of a drive's time: SLOWNESS, with which the fastest drive's 32 reads at
once are some thousands of the machine's a second; hard disks, of which the mean of many seconds is
taken, DISK_SLOWNESS. What the transport takes all the same is subtracted:
off the latency that the client sees goes what lay outside the twin in that very load: what the
client saw on average less what the twin itself served; as medians are judged, less what the null
model's mean lies above its median. Several at once wait for each other there, as at a server that
does as many a second as the null model's client sees. A rate or bandwidth for which the null model
does not reach MARGIN times as much is listed under `beyond_this_machine` and not judged. With
--slow-motion 1 the machine's own pace is judged.

The backing files are in memory (/dev/shm): the disk under a checkout is no part of a twin.
Latencies are the median of operations that all take the same time in the model (of a hard disk, the
mean).

A machine that halts for a moment makes a drive look slower, never faster: each figure is measured
until it is within NEAR percent of the expected, up to ATTEMPTS times, and the fastest kept. One
that is too fast stays so at any attempt.

Exit code: 0 if the null model reaches 80 % of the memory plugin's operations a second, and each
judged figure is within 10 %, 1 if not, 2 if the bench could not run.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from joulerig.virtuallab import profile
from joulerig.virtuallab.clock.page import LabClock
from joulerig.virtuallab.profile import Profile
from tests.support import ROOT
from tests.support.drive_figures import (
    alone_us,
    outermost_bytes_per_second,
    page_us,
    random_read_us,
    rate_of_several,
)
from tests.support.nbd_load import Load, load
from tests.support.programs import end, wait_for
from tests.support.slow_motion import slow_down, slow_motion
from tests.support.twins import Twin, twin_as

BAR_PERCENT = 10.0
NEAR = 3.0
LONGER = 12.0  # a measurement of drives than one of servers: fio counts a load's milliseconds
ATTEMPTS = 20
SLOWNESS = 60.0
DISK_SLOWNESS = 20.0
SHARE = 0.8  # of the memory plugin's operations a second
MARGIN = 3.0
BYTES = 2 << 30
# At this many operations at once the client sees a drive's own rate, as long as this machine can
# serve it.
DEPTH = 4
FULL_QUEUE = 32
LARGE = 128 << 10


@dataclass(frozen=True)
class Client:
    """Loads servers for some seconds of its clock, which a load makes so many times slower.

    fio starts at the machine's pace: it first times its processor's clock for a while.
    """

    seconds: float
    clock: LabClock | None = None
    slowness: float = 1.0

    def load(self, server, pattern, *, seconds=None, **options) -> Load:
        """Run a load, options as of nbd_load.load; `seconds`: in place of the client's."""
        seconds = seconds or self.seconds
        if self.clock is None:
            return load(server, pattern, seconds=seconds, **options)
        try:
            begin = partial(slow_down, self.clock, self.slowness)
            return load(server, pattern, seconds=seconds, before_it=begin, **options)
        finally:
            self.clock.set_slowness(1.0)


@dataclass(frozen=True)
class Alone:
    """One operation at a time, in microseconds.

    The client's view, and the share outside the twin.
    """

    median_us: float
    mean_us: float
    outside_us: float


@dataclass
class Machine:
    """What the transport alone gives here."""

    bytes_per_second: dict[str, float]
    alone: dict[str, Alone]
    iops: dict[int, float]  # by depth

    def reads(self, depth: int, drive_us: float) -> float:
        """Return the reads a second of a drive that takes so long for each, however many."""
        service_us = 1e6 / self.iops[depth]
        away_us = drive_us + max(0.0, self.alone["read"].outside_us - service_us)
        return rate_of_several(depth, away_us, service_us)


@dataclass
class Figures:
    """Of one drive: errors in percent that are judged, and what this machine cannot show."""

    judged: dict[str, float] = field(default_factory=dict)
    beyond: dict[str, dict[str, float]] = field(default_factory=dict)
    outside_us: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, seen: float, expected: float, null_model: float | None = None) -> None:
        """`null_model`: what the transport reaches where it might set the pace."""
        error = round(100 * (seen - expected) / expected, 2)
        if null_model is None or null_model >= MARGIN * expected:
            self.judged[name] = error
        else:
            self.beyond[name] = {
                "error_percent": error,
                "expected": round(expected),
                "null_model": round(null_model),
            }


@contextlib.contextmanager
def fresh(folder: Path, described: Profile):
    """A twin whose file has its memory, and no data: a fresh drive. Removed after use."""
    folder.mkdir(parents=True)
    try:
        with (folder / "drive.img").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, BYTES)
        with twin_as(folder, described, str(BYTES)) as twin:
            yield twin
    finally:
        shutil.rmtree(folder)


@dataclass
class MemoryServer:
    """nbdkit with its memory plugin: what a server costs that does nothing."""

    folder: Path

    def __enter__(self):
        self.folder.mkdir()
        nbd = self.folder / "nbd.sock"
        self.uri = f"nbd+unix:///?socket={nbd}"
        self.process = subprocess.Popen(
            ["nbdkit", "-f", "--exit-with-parent", "-U", str(nbd), "memory", "256M"],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for(nbd.exists, 10, "nbdkit listens")
        return self

    def __exit__(self, *_):
        end(self.process)


def most(measure):
    """Of the transport alone, of which nothing is expected."""
    return max(measure() for _ in range(ATTEMPTS // 4))


def fastest(measure, expected, better=max):
    """The best of some measurements, as the module says. `better`: max of rates, min of times."""
    seen = measure()
    for _ in range(ATTEMPTS - 1):
        if abs(seen - expected) <= expected * NEAR / 100:
            break
        seen = better(seen, measure())
    return seen


@dataclass(frozen=True)
class Served:
    """Operations a second at the machine's own pace, by kind: of the null model, and of memory."""

    null_model: dict[str, float]
    memory: dict[str, float]

    @property
    def shares(self) -> dict[str, float]:
        """Return what part of the memory plugin's the null model reaches."""
        return {kind: rate / self.memory[kind] for kind, rate in self.null_model.items()}


def serve(folder, client):
    """Measure both servers in turn, so that a machine that is slow for a while is so for both."""
    with MemoryServer(folder / "memory") as memory, Twin(folder / "served", size="256M") as twin:
        for server in (memory, twin):
            client.load(server, "write", depth=4, block=1 << 20, seconds=1)  # no holes: reads are of data
        found = {name: dict.fromkeys(("read", "write"), 0.0) for name in ("memory", "twin")}
        for _ in range(ATTEMPTS // 4):
            for name, server in (("memory", memory), ("twin", twin)):
                for kind, before in found[name].items():
                    seen = client.load(server, f"rand{kind}", depth=FULL_QUEUE).iops
                    found[name][kind] = max(before, seen)
    return Served(found["twin"], found["memory"])


def measure_machine(folder, client):
    with Twin(folder / "null", size="256M") as twin:
        # No holes: reads are of data.
        client.load(twin, "write", depth=4, block=1 << 20, seconds=2 * client.seconds)
        return Machine(
            bytes_per_second={
                kind: most(lambda kind=kind: rate(twin, kind, client)) for kind in ("read", "write")
            },
            alone={kind: one_at_a_time(twin, kind, client) for kind in ("read", "write")},
            iops={
                depth: most(lambda depth=depth: client.load(twin, "randread", depth=depth).iops)
                for depth in (DEPTH, FULL_QUEUE)
            },
        )


def rate(server, kind, client, seconds=None):
    return client.load(server, kind, depth=8, block=LARGE, seconds=seconds).bytes_per_second


def one_at_a_time(twin, kind, client):
    """Return the least disturbed of many short attempts."""
    attempts = (_one_at_a_time(twin, kind, client) for _ in range(ATTEMPTS // 4))
    return min(attempts, key=lambda one: one.outside_us)


def _one_at_a_time(twin, kind, client):
    before = twin.ask("latency")[kind]
    seen = client.load(twin, f"rand{kind}", seconds=client.seconds / 2)
    after = twin.ask("latency")[kind]
    operations = sum(after["served_counts"]) - sum(before["served_counts"])
    served_us = (after["served_ns_total"] - before["served_ns_total"]) / 1e3 / operations
    return Alone(median_us=seen.median_us, mean_us=seen.mean_us, outside_us=seen.mean_us - served_us)


def fresh_write_rate(folder, described, client):
    """Return the bytes a second that a fresh drive takes before it has to move data."""
    flash = described.flash
    room = (flash.slc_fraction or 1) * BYTES * 0.6
    brief = max(0.05, min(client.seconds, room / flash.write_bytes_per_second))

    def once(attempt):
        with fresh(folder.with_name(f"{folder.name}-{attempt}"), described) as twin:
            return rate(twin, "write", client, brief)

    attempts = itertools.count()
    return fastest(lambda: once(next(attempts)), flash.write_bytes_per_second)


def flash_figures(folder, described, machine, client):
    figures = Figures()
    flash = described.flash
    alone = alone_us(flash)
    with fresh(folder, described) as twin:
        for kind, expected in alone.items():
            seen = one_at_a_time(twin, kind, client)
            figures.outside_us[kind] = round(seen.outside_us, 2)
            null = machine.alone[kind]
            outside = seen.outside_us - (null.mean_us - null.median_us)
            figures.add(f"{kind}_latency", seen.median_us - outside, expected)
        for depth, served in machine.iops.items():
            expected = min(
                machine.reads(depth, alone["read"]),
                1e6 * flash.channels / page_us(flash),
                flash.read_bytes_per_second / 4096,
            )
            seen = fastest(lambda depth=depth: client.load(twin, "randread", depth=depth).iops, expected)
            figures.add(f"read_rate_of_{depth}", seen, expected, served)
        seen = fastest(lambda: rate(twin, "read", client), flash.read_bytes_per_second)
        figures.add("read_bandwidth", seen, flash.read_bytes_per_second, machine.bytes_per_second["read"])
    seen = fresh_write_rate(folder, described, client)
    figures.add("write_bandwidth", seen, flash.write_bytes_per_second, machine.bytes_per_second["write"])
    return figures


def disk_figures(folder, described, client):
    figures = Figures()
    disk = described.disk
    with fresh(folder, described) as twin:
        # The mean of many hundred places, not of a few at their best: places differ, not only the
        # machine.
        expected = random_read_us(disk)
        seconds = 16 * client.seconds
        seen = fastest(lambda: client.load(twin, "randread", seconds=seconds).mean_us, expected, min)
        figures.add("read_latency", seen, expected)
        expected = outermost_bytes_per_second(disk)
        sequential = fastest(
            lambda: client.load(twin, "read", depth=2, block=256 << 10, extent="10%").bytes_per_second,
            expected,
        )
    figures.add("read_bandwidth", sequential, expected)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement, of the machine")
    parser.add_argument(
        "--slow-motion", type=float, default=SLOWNESS, help=f"of disks {DISK_SLOWNESS:g} at most"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/drives.json")
    arguments = parser.parse_args()
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="jr", dir="/dev/shm") as place:
        folder = Path(place)
        served = serve(folder, Client(arguments.seconds))
        longer = LONGER * arguments.seconds
        profiles = {name: profile.load(name) for name in profile.names()}
        with slow_motion(folder / "clock", 1.0) as clock:
            of_flash, of_disks = (
                Client(longer / slowness, clock, slowness)
                for slowness in (arguments.slow_motion, min(arguments.slow_motion, DISK_SLOWNESS))
            )
            machine = measure_machine(folder, of_flash)
            for name, described in profiles.items():
                if described.flash:
                    found[name] = flash_figures(folder / name, described, machine, of_flash)
                else:
                    found[name] = disk_figures(folder / name, described, of_disks)
    result = {"slow_motion": arguments.slow_motion, **summarize(served, machine, found)}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    missed = misses(served, found)
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


def summarize(served, machine, found):
    def rounded(values):
        return {key: round(value, 2 if value < 1000 else None) for key, value in values.items()}

    return {
        "iops_null_model": round(min(served.null_model.values())),
        "iops_null_model_by_operation": rounded(served.null_model),
        "iops_nbdkit_memory_by_operation": rounded(served.memory),
        "null_model_share_of_memory": rounded(served.shares),
        "null_model_bytes_per_second": rounded(machine.bytes_per_second),
        "latency_error_percent_by_profile": {
            name: max((error for key, error in one.judged.items() if "latency" in key), key=abs)
            for name, one in found.items()
        },
        "outside_us": {
            "null model": rounded({kind: one.outside_us for kind, one in machine.alone.items()}),
            **{name: one.outside_us for name, one in found.items() if one.outside_us},
        },
        "error_percent": {name: one.judged for name, one in found.items()},
        "beyond_this_machine": {name: one.beyond for name, one in found.items() if one.beyond},
    }


def misses(served, found):
    lines = [
        f"null model: {share:.2f} of the memory plugin's {kind} operations, the bar is {SHARE}"
        for kind, share in served.shares.items()
        if share < SHARE
    ]
    return lines + [
        f"{name}: {key} is off by {error:.1f} %, the bar is {BAR_PERCENT:g} %"
        for name, one in found.items()
        for key, error in one.judged.items()
        if abs(error) > BAR_PERCENT
    ]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, AssertionError) as error:
        print(f"bench_drives: {error}", file=sys.stderr)
        sys.exit(2)
