# SPDX-License-Identifier: GPL-3.0-or-later
"""Power points of drives, and the energy of a phase by them.

The points are from InfluxDB, and are kept as a run's `power.csv`; energy is computed from either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import polars as pl

from joulerig import atomic
from joulerig.analysis.energy.interval import (
    DEFAULT_MAX_GAP_NS,
    CounterPoints,
    IntervalEnergy,
    Source,
    Supply,
    energy_between,
)
from joulerig.analysis.results.influxdb.client import Queries, quote_string
from joulerig.errors import JoulerigError

# power.csv: the first seven columns are what a trace needs; with the rest the run's energy can be
# computed again.
COLUMNS = {
    "time_ns": pl.Int64,
    "rail": pl.String,
    "watts": pl.Float64,
    "watts_min": pl.Float64,
    "watts_max": pl.Float64,
    "joules": pl.Float64,
    "drive": pl.String,
    "meter": pl.String,
    "volts": pl.Float64,
    "amps": pl.Float64,
    "samples": pl.Int64,
    "expected": pl.Int64,
    "lost": pl.Int64,
    "gap_seconds": pl.Float64,
    "session": pl.String,
    "joules_low": pl.Float64,
    "joules_high": pl.Float64,
    "duplicate": pl.Int64,
    "repeated": pl.Int64,
    "surplus": pl.Int64,
    "clock_residual_seconds": pl.Float64,
    "over_range": pl.Int64,
    "unbounded_seconds": pl.Float64,
    "impossible": pl.Int64,
}
NEEDED = ("time_ns", "rail", "watts")
_FIELDS = tuple(name for name in COLUMNS if name not in ("time_ns", "meter", "rail", "drive"))
_FAR_NS = 600_000_000_000  # as far away as the points next to a gap are looked for


class PowerFileError(JoulerigError):
    """A power.csv that is none; the message is one line that names it."""


def points(
    client: Queries,
    host: str,
    drives: Sequence[str],
    start_ns: int,
    end_ns: int,
    *,
    margin_ns: int = 1_000_000_000,
) -> pl.DataFrame:
    """Query the power points of a host's drives over an interval, with a margin at both ends.

    From `start_ns` to `end_ns`, with `margin_ns` more at both ends. The margin holds the points
    that enclose the interval; where a rail has a gap there, its nearest point beyond it is looked
    for. Columns: `COLUMNS`, sorted by drive, rail, meter and time; without rows where there are
    none. Raises joulerig.analysis.results.influxdb.client.InfluxError.
    """
    schema = pl.DataFrame(schema=COLUMNS)
    if not drives:
        return schema
    among = " OR ".join(f'"drive" = {quote_string(drive)}' for drive in drives)

    def select(first_ns: int, last_ns: int, nearest: str = "") -> pl.DataFrame:
        found = client.query(
            f'SELECT {", ".join(_FIELDS)} FROM power WHERE "host" = {quote_string(host)} AND ({among})'
            f" AND time >= {first_ns} AND time <= {last_ns} GROUP BY meter, rail, drive{nearest}"
        )
        return schema if found.is_empty() else _conform(found.rename({"time": "time_ns"}))

    frame = select(start_ns - margin_ns, end_ns + margin_ns)
    if frame.is_empty():
        return schema
    ends = frame.group_by("drive", "meter", "rail").agg(
        first=pl.col("time_ns").min(), last=pl.col("time_ns").max()
    )
    parts = [frame]
    if ends["first"].max() > start_ns:
        before = start_ns - margin_ns - 1
        parts.append(select(before - _FAR_NS, before, " ORDER BY time DESC LIMIT 2"))
    if ends["last"].min() < end_ns:
        after = end_ns + margin_ns + 1
        parts.append(select(after, after + _FAR_NS, " ORDER BY time ASC LIMIT 2"))
    return pl.concat(parts).sort("drive", "rail", "meter", "time_ns")


def whole(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the points of `points` up to the last one of each rail of which all has arrived.

    InfluxDB takes a batch of points field by field, and answers a query meanwhile: the newest
    points may then have watts and no joules, or joules and not the seconds of gaps in them. A
    point is whole that has all that any point of its rail and session has; so are then those before
    it.
    """
    rail = ["drive", "meter", "rail"]
    values = [name for name in _FIELDS if name != "session"]
    has_all = pl.all_horizontal(
        pl.col(name).is_not_null() | pl.col(name).is_null().all().over(*rail, "session") for name in values
    )
    known = pl.col("session").is_not_null() & has_all
    last = pl.col("time_ns").filter(known).max().over(rail)
    return frame.filter(pl.col("time_ns") <= last)


def split_by_session(frame: pl.DataFrame, known: Collection[str]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the points of `known` sessions, and how many there are of each other session.

    A point whose session has not arrived yet stays.
    """
    strange = ~pl.col("session").is_in(list(known)).fill_null(True)
    others = frame.filter(strange).group_by("session").len().sort("session")
    return frame.filter(~strange), dict(others.iter_rows())


def energy_by_rail(
    frame: pl.DataFrame,
    start_ns: int,
    end_ns: int,
    *,
    max_gap_ns: int = DEFAULT_MAX_GAP_NS,
    edge_error_ns: Mapping[str, int] | None = None,
    mean_products: Callable[[str, str, str], Supply | None] | None = None,
    source: Callable[[str, str, str], Source] | None = None,
) -> dict[tuple[str, str, str], IntervalEnergy]:
    """Compute an interval's energy by (drive, meter, rail), from a frame of `points` or `read`.

    `edge_error_ns`, `mean_products`, `source`: analysis.energy.interval.energy_between's, by
    meter, and for a drive, meter and rail. The result has the rails of the frame: a rail that ought
    to be there and is not must be missed by a caller that knows the lab.
    """
    errors = edge_error_ns or {}
    return {
        key: energy_between(
            CounterPoints.from_frame(rows),
            start_ns,
            end_ns,
            max_gap_ns=max_gap_ns,
            edge_error_ns=errors.get(key[1], 0),
            mean_products=mean_products(*key) if mean_products else None,
            source=source(*key) if source else "stream",
        )
        for key, rows in frame.group_by("drive", "meter", "rail", maintain_order=True)
    }


def write(frame: pl.DataFrame, path: Path) -> Path:
    """Keep `frame` as a run's power.csv (atomic).

    Floats are written so that they read back the same. Columns that it lacks are written as nulls.
    """
    return atomic.write(path, _conform(frame).write_csv().encode())


def read(path: Path, columns: Sequence[str] = tuple(COLUMNS)) -> pl.DataFrame | None:
    """Read `columns` of a run's power.csv; None where there is none or it has no rows.

    Columns that it lacks are null. Raises PowerFileError where it cannot be read, or lacks time_ns,
    rail or watts.
    """
    if not path.is_file():
        return None
    try:
        lines = pl.scan_csv(path, infer_schema=False)
        names = lines.collect_schema().names()
        missing = [name for name in NEEDED if name not in names]
        if missing:
            raise PowerFileError(f"{path}: no column {missing[0]!r}; needed are {', '.join(NEEDED)}")
        frame = lines.select(name for name in columns if name in names).collect()
        return None if frame.is_empty() else _conform(frame, columns)
    except pl.exceptions.NoDataError:
        return None
    except pl.exceptions.PolarsError as error:
        raise PowerFileError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}") from None


def _conform(frame: pl.DataFrame, columns: Sequence[str] = tuple(COLUMNS)) -> pl.DataFrame:
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in COLUMNS.items()
        if name in columns
    )
