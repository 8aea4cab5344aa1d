#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a local NBD client sees each drive profile's latency, rates and bandwidth.

A twin without a model of time (null model) says what the transport takes: nbdkit, its unix socket and the
client (fio's NBD engine, libnbd). Its 4 KiB operations a second at depth 32 say how much the server serves.
`transport_us` is its round trip of one operation at a time less the part of it that the twin itself was at
work, by its own account: with a profile the twin does that work within the drive's time. It is taken off
the latencies that the client sees of the profiles' drives. Of several operations at once, what the transport
takes is the null model's response time at the same depth (Little: depth / operations a second). Nothing else
is taken off: what this machine adds is in the errors, so run it on a machine that is idle. The backing files
are in memory (/dev/shm): the disk under a checkout is no part of a twin. Latencies are the median of
operations that all take the same time in the model (of a hard disk, the mean). Each figure is measured three
times and the best kept.

Exit code: 0 if the null model reaches 100 k operations a second and each profile's figures are within 10 %,
1 if not, 2 if the bench could not run.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "virtuallab")]

from drive_figures import outermost_bytes_per_second, random_read_us  # noqa: E402
from nbd_load import load  # noqa: E402
from twins import Twin, twin_of  # noqa: E402

from rig.virtuallab import profile  # noqa: E402

ROOT = TESTS.parent
BAR_IOPS = 100_000
BAR_PERCENT = 10.0
ATTEMPTS = 3
BYTES = 2 << 30
# At this many operations at once the client sees a drive's own rate, as long as this machine can serve it.
DEPTH = 4


@contextlib.contextmanager
def fresh(folder, name):
    """A twin of a profile; its file has its memory, and no data: a fresh drive. Removed after use."""
    folder.mkdir(parents=True)
    try:
        with (folder / "drive.img").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, BYTES)
        with twin_of(folder, name, str(BYTES)) as twin:
            yield twin
    finally:
        shutil.rmtree(folder)


def best(measure, better):
    return better(measure() for _ in range(ATTEMPTS))


def null_model(folder, seconds):
    with Twin(folder, size="256M") as twin:
        load(twin, "write", depth=4, block=1 << 20, seconds=1)  # no holes: reads are of data
        iops = {
            kind: best(lambda kind=kind: load(twin, f"rand{kind}", depth=32, seconds=seconds).iops, max)
            for kind in ("read", "write")
        }
        transport = {
            kind: best(lambda kind=kind: outside_us(twin, kind, seconds), min) for kind in ("read", "write")
        }
        rate = best(lambda: load(twin, "randread", depth=DEPTH, seconds=seconds).iops, max)
    return iops, transport, 1e6 * DEPTH / rate


def outside_us(twin, kind, seconds):
    """What an operation of one at a time takes outside the twin: seen by the client less seen by the twin."""
    before = twin.ask("latency")[kind]
    seen = load(twin, f"rand{kind}", seconds=seconds)
    after = twin.ask("latency")[kind]
    served = sum(after["served_counts"]) - sum(before["served_counts"])
    return seen.mean_us - (after["served_ns_total"] - before["served_ns_total"]) / 1e3 / served


def error_percent(seen, expected):
    return 100 * (seen - expected) / expected


def flash_errors(folder, name, transport, crowd, seconds):
    """Percent by which the client's view is off: latencies alone, rate of a queue, bandwidth.

    `transport`: of one operation; `crowd`: of one of DEPTH at once. Both in microseconds.
    """
    flash = profile.load(name).flash
    latency = flash.latency_us
    alone = {
        "read": latency.read + latency.page_read + 4096e6 / flash.read_bytes_per_second,
        "write": latency.write + 4096e6 / flash.write_bytes_per_second,
    }
    bandwidth = {"read": flash.read_bytes_per_second, "write": flash.write_bytes_per_second}
    errors = {}
    with fresh(folder, name) as twin:
        for kind, expected in alone.items():
            seen = best(lambda kind=kind: load(twin, f"rand{kind}", seconds=seconds).median_us, min)
            errors[f"{kind}_latency"] = error_percent(seen - transport[kind], expected)
        expected = min(DEPTH / (alone["read"] + crowd), flash.channels / latency.page_read) * 1e6
        seen = best(lambda: load(twin, "randread", depth=DEPTH, seconds=seconds).iops, max)
        errors[f"read_rate_of_{DEPTH}"] = error_percent(seen, expected)
        seen = best(
            lambda: load(twin, "read", depth=8, block=128 << 10, seconds=seconds).bytes_per_second, max
        )
        errors["read_bandwidth"] = error_percent(seen, bandwidth["read"])
    # Fresh each time: what is written first goes at the link's rate, into whatever takes it.
    small = (flash.slc_fraction or 1) * BYTES * 0.6
    rates = []
    for attempt in range(ATTEMPTS):
        with fresh(folder.with_name(f"{name}-{attempt}"), name) as twin:
            brief = max(0.05, min(seconds, small / bandwidth["write"]))
            rates.append(load(twin, "write", depth=8, block=128 << 10, seconds=brief).bytes_per_second)
    errors["write_bandwidth"] = error_percent(max(rates), bandwidth["write"])
    return errors


def disk_errors(folder, name, transport, _crowd, seconds):
    disk = profile.load(name).disk
    with fresh(folder, name) as twin:
        # The mean of a few hundred places, not the best of three: places differ, not only the machine.
        alone = load(twin, "randread", seconds=8 * seconds)
        sequential = best(
            lambda: (
                load(twin, "read", depth=2, block=256 << 10, seconds=seconds, extent="10%").bytes_per_second
            ),
            max,
        )
    return {
        "read_latency": error_percent(alone.mean_us - transport["read"], random_read_us(disk)),
        "read_bandwidth": error_percent(sequential, outermost_bytes_per_second(disk)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench/drives.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jr", dir="/dev/shm") as place:
        folder = Path(place)
        iops, transport, crowd = null_model(folder / "null", arguments.seconds)
        details = {}
        for name in profile.names():
            measure = flash_errors if profile.load(name).flash else disk_errors
            details[name] = measure(folder / name, name, transport, crowd, arguments.seconds)
    result = {
        "iops_null_model": round(min(iops.values())),
        "iops_null_model_by_operation": {kind: round(value) for kind, value in iops.items()},
        "transport_us": {kind: round(value, 2) for kind, value in transport.items()},
        f"response_us_of_{DEPTH}_null_model": round(crowd, 2),
        "latency_error_percent_by_profile": {
            name: round(max((e for key, e in errors.items() if "latency" in key), key=abs), 2)
            for name, errors in details.items()
        },
        "error_percent": {
            name: {key: round(e, 2) for key, e in errors.items()} for name, errors in details.items()
        },
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    missed = [f"null model: {result['iops_null_model']} operations a second, the bar is {BAR_IOPS}"]
    if result["iops_null_model"] >= BAR_IOPS:
        missed = []
    missed += [
        f"{name}: {key} is off by {e:.1f} %, the bar is {BAR_PERCENT:g} %"
        for name, errors in details.items()
        for key, e in errors.items()
        if abs(e) > BAR_PERCENT
    ]
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, AssertionError) as error:
        print(f"bench_drives: {error}", file=sys.stderr)
        sys.exit(2)
