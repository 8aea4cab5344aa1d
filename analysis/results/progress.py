# SPDX-License-Identifier: GPL-3.0-or-later
"""What a load reported of itself while it ran: from InfluxDB, kept as the run's `progress.csv`."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from joulerig.analysis.results import run_file
from joulerig.analysis.results.influxdb.client import Queries, quote_string
from joulerig.analysis.results.schema import Phase

FILE = "progress.csv"
COLUMNS = {"time_ns": pl.Int64, "ops": pl.Int64, "read_bytes": pl.Int64, "write_bytes": pl.Int64}
_LATE_NS = 3_000_000_000  # a load's last point is reported a little after its end


def points(client: Queries, host: str, run: str, load: Phase) -> pl.DataFrame:
    """Query the `workload` points of a run's load, on the controller's clock.

    Columns: `COLUMNS`, by time; each what was done since the point before or, of the first, since
    the load began. Without rows where the load reported nothing. Raises
    joulerig.analysis.results.influxdb.client.InfluxError.
    """
    offset = load.clock_offset_ns
    found = client.query(
        f"SELECT ops, read_bytes, write_bytes FROM workload WHERE host = {quote_string(host)}"
        f" AND run = {quote_string(run)} AND time >= {load.start_ns - offset}"
        f" AND time <= {load.end_ns - offset + _LATE_NS}",
        host=host,
    )
    if found.is_empty():
        return pl.DataFrame(schema=COLUMNS)
    found = found.with_columns(time_ns=pl.col("time") + offset)
    return found.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items()).sort("time_ns")


def write(frame: pl.DataFrame, folder: Path) -> Path:
    """Keep `frame` as the progress.csv of a run's folder (atomic)."""
    return run_file.write(frame, folder / FILE, COLUMNS)


def read(folder: Path) -> pl.DataFrame | None:
    """Read the progress.csv of a run's folder; None where there is none or it has no rows.

    Raises joulerig.analysis.results.run_file.RunFileError where it cannot be read.
    """
    return run_file.read(folder / FILE, COLUMNS)
