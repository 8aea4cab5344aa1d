# SPDX-License-Identifier: GPL-3.0-or-later
"""Long views of watts and I/O: minutes to months in as many buckets as a page has pixels.

InfluxDB decimates, in one query each: no point of the stored rate is fetched, however long the
range. Ranges are rounded to whole buckets of a few widths, so that viewers who look at nearly the
same get the same reply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from joulerig.analysis.results.influxdb.client import Queries, quote_string
from joulerig.analysis.results.schema import FORMER_PHASES
from joulerig.rig.dashboard.counters import rates
from joulerig.rig.dashboard.feed import COUNTERS, IO, SECOND

MOST_POINTS = 4000
USUAL_POINTS = 1000
LONGEST_NS = 400 * 24 * 3600 * SECOND
MINUTE, HOUR, DAY = 60, 3600, 86_400
WIDTHS_NS = tuple(
    int(seconds * SECOND)
    for seconds in (
        0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
        *(n * HOUR for n in (1, 2, 3, 6, 12)), *(n * DAY for n in (1, 2, 5, 10, 30, 100, 400)),
    )
)  # fmt: skip
TENS_NS = 10 * SECOND  # of a point of power_10s; wider buckets are multiples of it
# A rate is of counters at the ends of a stretch. Agents read ten times a second, and the last
# reading of a stretch may be so much older than its end: shorter stretches would show that.
LEAST_RATE_NS = SECOND
RATES_A_BUCKET = 5  # at most
MOST_BANDS = 500
MOST_PHASES = 4000
LONGEST_PHASE_NS = 24 * 3600 * SECOND


@dataclass(frozen=True)
class View:
    """A range in whole buckets: from `start_ns`, `buckets` of `width_ns`."""

    host: str
    drive: str
    start_ns: int
    width_ns: int
    buckets: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.buckets * self.width_ns


def rounded(host: str, drive: str, from_ns: int, to_ns: int, points: int) -> View:
    """Return the view of a range with the narrowest buckets of which there are at most `points`."""
    for width in WIDTHS_NS:
        first, end = from_ns // width, -(-to_ns // width)
        if end - first <= points:
            return View(host, drive, first * width, width, end - first)
    first = from_ns // WIDTHS_NS[-1]  # one or two of the widest, if so few are wanted
    return View(host, drive, first * WIDTHS_NS[-1], WIDTHS_NS[-1], -(-to_ns // WIDTHS_NS[-1]) - first)


def power(influx: Queries, view: View) -> dict[str, Any]:
    """Return each rail's mean, least and greatest watts by bucket. Raises InfluxError."""
    frame = pl.DataFrame()
    if view.width_ns >= TENS_NS:
        frame = _power(influx, view, "sum(measured_joules) / sum(measured_seconds)", "power_10s")
    if not frame.height:
        # The mean is that of points, which stand for equal intervals; the extremes are of samples.
        frame = _power(influx, view, "mean(watts)", "power")
    rails = []
    for key, part in _series(frame, ("meter", "rail")):
        at = (part["time"].to_numpy() - view.start_ns) // view.width_ns
        gaps = np.minimum(_numbers(part["gap_seconds"]), view.width_ns / SECOND)
        rails.append(
            {
                **key,
                "mean": _column(view, at, _numbers(part["watts"])),
                "min": _column(view, at, _numbers(part["watts_min"])),
                "max": _column(view, at, _numbers(part["watts_max"])),
                "gap_seconds": _column(view, at, gaps),
            }
        )
    return {**_grid(view), "rails": rails}


def _power(influx: Queries, view: View, watts: str, measurement: str) -> pl.DataFrame:
    return influx.query(
        f"SELECT {watts} AS watts, min(watts_min) AS watts_min, max(watts_max) AS watts_max,"
        f" spread(gap_seconds) AS gap_seconds FROM {measurement} WHERE {_where(view)}"
        f" GROUP BY time({view.width_ns}ns), meter, rail fill(none)"
    )


def io(influx: Queries, view: View, offset_ns: int = 0) -> dict[str, Any]:
    """Return a drive's rates: mean, and the least and greatest over `rate_seconds`, by bucket.

    `offset_ns`: the controller's clock less the host's, which the stored times are of. Raises
    InfluxError.
    """
    bucket_ns = max(view.width_ns, LEAST_RATE_NS)
    stretch_ns = _stretch(bucket_ns)
    view = View(
        view.host, view.drive, view.start_ns // bucket_ns * bucket_ns, bucket_ns,
        -(-view.end_ns // bucket_ns) - view.start_ns // bucket_ns,
    )  # fmt: skip
    first_ns = view.start_ns - stretch_ns  # the counters at the beginning
    counters = ", ".join(f"last({name}) AS {name}" for name in COUNTERS)
    frame = influx.query(
        f"SELECT {counters} FROM blockio WHERE {_where(view, first_ns - offset_ns, view.end_ns - offset_ns)}"
        f" GROUP BY time({stretch_ns}ns, {-offset_ns % stretch_ns}ns) fill(none)",
        host=view.host,
    )
    stretches = (view.end_ns - first_ns) // stretch_ns
    seconds = np.full(stretches, np.nan)
    counts = np.full((len(COUNTERS), stretches), np.nan)
    if frame.height:
        frame = frame.drop_nulls(COUNTERS)
        at = (frame["time"].to_numpy() + offset_ns - first_ns) // stretch_ns
        inside = (at >= 0) & (at < stretches)
        seconds[at[inside]] = at[inside] * (stretch_ns / SECOND)
        counts[:, at[inside]] = frame.select(pl.col(COUNTERS).cast(pl.Float64)).to_numpy()[inside].T
    # Only between stretches that lie side by side: what was in a gap has no rate.
    found = rates(seconds, counts, 1.5 * stretch_ns / SECOND)[:, 1:] * IO.SCALE[:, None]
    by_bucket = found.reshape(len(COUNTERS), view.buckets, -1)
    return {
        **_grid(view),
        "rate_seconds": stretch_ns / SECOND,
        "columns": {
            name: {key: _listed(of(by_bucket[number])) for key, of in REDUCED.items()}
            for number, name in enumerate(NAMES)
        },
    }


def _stretch(bucket_ns: int) -> int:
    """Return the narrowest width into a few of which a bucket divides."""
    few = (one for one in WIDTHS_NS if bucket_ns % one == 0 and bucket_ns // one <= RATES_A_BUCKET)
    return min(one for one in few if one >= LEAST_RATE_NS)


NAMES = ("reads", "writes", "flushes", "read_mb", "write_mb")  # of a second, as COUNTERS has them
REDUCED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": lambda values: _reduced(np.nanmean, values),
    "min": lambda values: _reduced(np.nanmin, values),
    "max": lambda values: _reduced(np.nanmax, values),
}


def _reduced(how: Any, values: np.ndarray) -> np.ndarray:
    """Reduce [buckets, stretches] to [buckets], NaN where a bucket has no value."""
    found = np.full(len(values), np.nan)
    has = ~np.isnan(values).all(axis=1)
    if has.any():
        found[has] = how(values[has], axis=1)
    return found


def bands(influx: Queries, view: View, drives: Collection[str]) -> dict[str, Any]:
    """Return the phases in a view, of runs on these drives: what is narrower than a bucket is not.

    `drives`: the drive and the arrays that it is a member of. Raises InfluxError.
    """
    wanted = " OR ".join(f"drive = {quote_string(drive)}" for drive in drives)
    frame = influx.query(
        f"SELECT start_ns, end_ns FROM phase WHERE host = {quote_string(view.host)} AND ({wanted})"
        f" AND time >= {view.start_ns - LONGEST_PHASE_NS} AND time < {view.end_ns}"
        f" GROUP BY run, phase ORDER BY time DESC LIMIT 1 SLIMIT {MOST_PHASES}",
        host=view.host,
    )
    found, narrow = [], 0
    for row in frame.iter_rows(named=True) if frame.height else ():
        start_ns = row["start_ns"] if row["start_ns"] is not None else row["time"]
        end_ns = row["end_ns"]
        if end_ns is not None and end_ns <= view.start_ns:
            continue
        if end_ns is not None and end_ns - start_ns < view.width_ns:
            narrow += 1
            continue
        phase = FORMER_PHASES.get(row["phase"], row["phase"])
        found.append({"run": row["run"], "phase": phase, "start_ns": start_ns, "end_ns": end_ns})
    found.sort(key=lambda band: band["start_ns"])
    return {"bands": found[-MOST_BANDS:], "bands_left_out": narrow + max(0, len(found) - MOST_BANDS)}


def _where(view: View, start_ns: int | None = None, end_ns: int | None = None) -> str:
    return (
        f"host = {quote_string(view.host)} AND drive = {quote_string(view.drive)}"
        f" AND time >= {view.start_ns if start_ns is None else start_ns}"
        f" AND time < {view.end_ns if end_ns is None else end_ns}"
    )


def _grid(view: View) -> dict[str, Any]:
    return {
        "host": view.host,
        "drive": view.drive,
        "start_ns": view.start_ns,
        "bucket_ns": view.width_ns,
        "buckets": view.buckets,
    }


def _series(frame: pl.DataFrame, tags: tuple[str, ...]) -> list[tuple[dict[str, str], pl.DataFrame]]:
    """Split a frame by its tags, in their order; a tag that no row has is empty."""
    if not frame.height:
        return []
    for tag in tags:
        if tag not in frame.columns:
            frame = frame.with_columns(pl.lit("").alias(tag))
    parts = frame.with_columns(pl.col(tags).fill_null("")).partition_by(tags, as_dict=True)
    return [(dict(zip(tags, map(str, key), strict=True)), part) for key, part in sorted(parts.items())]


def _numbers(values: pl.Series) -> np.ndarray:
    return values.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _column(view: View, at: np.ndarray, values: np.ndarray) -> list[float | None]:
    """Return values by bucket, None where there is none."""
    column = np.full(view.buckets, np.nan)
    inside = (at >= 0) & (at < view.buckets)
    column[at[inside]] = values[inside]
    return _listed(column)


def _listed(column: np.ndarray) -> list[float | None]:
    """Return a column for JSON: six digits are more than a pixel shows, and half as many bytes."""
    return [None if value != value else float(f"{value:.6g}") for value in column.tolist()]
