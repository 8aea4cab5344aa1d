# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads a twin through fio's NBD engine (libnbd), as a client that knows nothing of twins."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import installed, wait_for


@dataclass(frozen=True)
class Load:
    """A load as its client saw it: operations and bytes a second, latencies in microseconds."""

    iops: float
    bytes_per_second: float
    mean_us: float
    median_us: float
    least_us: float
    count: int


def load(
    twin,
    pattern,
    *,
    depth=1,
    block=4096,
    seconds=1.0,
    extent="100%",
    seed=1,
    before_it: Callable[[], object] | None = None,
) -> Load:
    """Run a fio pattern (read, randread, write, randwrite) on `extent` of a twin.

    `twin`: any server with a `uri`. `before_it`: called when fio has started and is about to begin.
    """
    fio = installed("fio", "fio")
    words = [
        fio, "--name=load", "--ioengine=nbd", f"--uri={twin.uri}", f"--rw={pattern}", f"--bs={block}",
        f"--iodepth={depth}", f"--size={extent}", "--time_based", f"--runtime={seconds * 1e6:.0f}us",
        "--norandommap", f"--randseed={seed}", "--percentile_list=50", "--lat_percentiles=1",
        "--clocksource=clock_gettime", "--output-format=json",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="fio") as folder:  # where fio leaves what `cat` says
        gate = Path(folder) / "gate"
        if before_it:
            os.mkfifo(gate)
            words.append(f"--exec_prerun=cat {gate}")
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
        ) as process:
            if before_it:
                with wait_for(lambda: _opened(gate) or _ended(process), 60, "fio is about to begin"):
                    before_it()
            out, errors = process.communicate(timeout=100 * seconds + 120)
    assert process.returncode == 0, out + errors
    # fio writes warnings before its JSON.
    job = json.loads(out[out.index("{") :])["jobs"][0]
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


def _opened(gate: Path) -> contextlib.AbstractContextManager | None:
    """Return a pipe, opened to write, once it has a reader."""
    try:
        return os.fdopen(os.open(gate, os.O_WRONLY | os.O_NONBLOCK), "w")
    except OSError:
        return None


def _ended(process: subprocess.Popen) -> contextlib.AbstractContextManager | None:
    return contextlib.nullcontext() if process.poll() is not None else None
