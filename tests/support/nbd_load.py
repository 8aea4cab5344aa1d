# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads a twin through fio's NBD engine (libnbd), as a client that knows nothing of twins."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from tests.support.programs import installed


@dataclass(frozen=True)
class Load:
    """A load as its client saw it: operations and bytes a second, latencies in microseconds."""

    iops: float
    bytes_per_second: float
    mean_us: float
    median_us: float
    least_us: float
    count: int


def load(twin, pattern, *, depth=1, block=4096, seconds=1.0, extent="100%", seed=1) -> Load:
    """Run a fio pattern (read, randread, write, randwrite) on `extent` of a twin.

    `twin`: any server with a `uri`.
    """
    fio = installed("fio", "fio")
    words = [
        fio, "--name=load", "--ioengine=nbd", f"--uri={twin.uri}", f"--rw={pattern}", f"--bs={block}",
        f"--iodepth={depth}", f"--size={extent}", "--time_based", f"--runtime={seconds * 1e6:.0f}us",
        "--norandommap", f"--randseed={seed}", "--percentile_list=50", "--lat_percentiles=1",
        "--clocksource=clock_gettime", "--output-format=json",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=100 * seconds + 120)
    assert done.returncode == 0, done.stdout + done.stderr
    # fio writes warnings before its JSON.
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    side = job["read" if "read" in pattern else "write"]
    latency = side["lat_ns"]
    return Load(
        iops=side["iops"],
        bytes_per_second=side["bw_bytes"],
        mean_us=latency["mean"] / 1e3,
        median_us=latency["percentile"]["50.000000"] / 1e3,
        least_us=latency["min"] / 1e3,
        count=side["total_ios"],
    )
