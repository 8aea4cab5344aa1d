# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy of a test host's processor packages over a run's workload phase.

The readings are from InfluxDB, and are kept as the run's `processor.csv`. Hosts without RAPL have
none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from joulerig.analysis.results import run_file
from joulerig.analysis.results.influxdb.client import Queries, quote_string
from joulerig.analysis.results.schema import Phase

FILE = "processor.csv"
COLUMNS = {"time_ns": pl.Int64, "package_joules": pl.Float64}
_AROUND_NS = 3_000_000_000  # the agent reads once a second


def points(client: Queries, host: str, load: Phase) -> pl.DataFrame:
    """Query the readings of the packages' counter around a run's workload phase.

    The counter is of all the host's packages, J, cumulative. From the last reading before the phase
    to the first one after it, on the controller's clock.

    Columns: `COLUMNS`, by time. Without rows where the host has no RAPL, or none is reported yet.
    Raises joulerig.analysis.results.influxdb.client.InfluxError.
    """
    offset = load.clock_offset_ns
    found = client.query(
        f"SELECT package_joules FROM hostload WHERE host = {quote_string(host)}"
        f" AND time >= {load.start_ns - offset - _AROUND_NS} AND time <= {load.end_ns - offset + _AROUND_NS}",
        host=host,
    )
    if found.is_empty():
        return pl.DataFrame(schema=COLUMNS)
    found = found.with_columns(time_ns=pl.col("time") + offset).drop_nulls("package_joules").sort("time_ns")
    time = pl.col("time_ns")
    before = found.filter(time <= load.start_ns).tail(1)
    within = found.filter((time > load.start_ns) & (time < load.end_ns))
    after = found.filter(time >= load.end_ns).head(1)
    kept = pl.concat([before, within, after])
    return kept.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())


def enclose(frame: pl.DataFrame, load: Phase) -> bool:
    """Return whether the readings reach from before the phase to after it."""
    times = frame["time_ns"]
    return len(times) > 1 and times[0] <= load.start_ns and times[-1] >= load.end_ns


def joules(frame: pl.DataFrame, load: Phase) -> float | None:
    """Compute the J of all packages over the phase, linear between the readings around its ends.

    None where the readings do not enclose it, or the counter restarted among them (the agent was
    restarted).
    """
    if not enclose(frame, load):
        return None
    times, counter = frame["time_ns"].to_numpy(), frame["package_joules"].to_numpy()
    if np.any(np.diff(counter) < 0):
        return None
    start = times[0]  # so that no nanosecond is lost in a float
    ends = np.interp([load.start_ns - start, load.end_ns - start], times - start, counter)
    return float(ends[1] - ends[0])


def write(frame: pl.DataFrame, folder: Path) -> Path:
    """Keep `frame` as the processor.csv of a run's folder (atomic)."""
    return run_file.write(frame, folder / FILE, COLUMNS)


def read(folder: Path) -> pl.DataFrame | None:
    """Read the processor.csv of a run's folder; None where there is none or it has no rows.

    Raises joulerig.analysis.results.run_file.RunFileError where it cannot be read.
    """
    return run_file.read(folder / FILE, COLUMNS)
