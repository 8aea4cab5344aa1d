# SPDX-License-Identifier: GPL-3.0-or-later
"""Full-rate volts and amps of rails: the Parquet file that powerd writes with a run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from joulerig import json_text
from joulerig.errors import JoulerigError

METADATA_KEY = "joulerig.waveform"
COLUMNS = {
    "time_ns": pl.Int64,
    "host": pl.String,
    "drive": pl.String,
    "rail": pl.String,
    "stream": pl.Int32,
    "index": pl.Int64,
    "volts": pl.Float32,
    "amps": pl.Float32,
}


class WaveformError(JoulerigError):
    """A waveform file that is none; the message is one line that names it."""


@dataclass(frozen=True)
class Waveform:
    """`frame`: a row a sample, columns `COLUMNS`, ordered by host, drive, rail, stream, index.

    `time_ns` is the UTC end of the sample, as in power points; null where the stream has no clock.
    Samples that were lost have no row. `meta`: what the file says of itself (package waveform of
    the collectors: Contents), among it meter, session, sample_rate_hz, samples, rails with their
    corrections (applied already), clock, gaps, recorded, dropped, cut, truncated, error.
    """

    frame: pl.DataFrame
    meta: dict[str, Any]


def metadata(path: Path) -> dict[str, Any]:
    """Read what a waveform file says of itself, without its samples. Raises WaveformError."""
    try:
        text = pl.read_parquet_metadata(path).get(METADATA_KEY)
        meta = json_text.parse(text) if text is not None else None
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise WaveformError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(meta, dict) or meta.get("version") != 1:
        raise WaveformError(f"{path}: no metadata {METADATA_KEY!r} of version 1: not a waveform file")
    return meta


def read(
    path: Path,
    *,
    rails: Collection[str] | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Waveform:
    """Read a waveform file, or of it some rails and the samples of an interval.

    `rails`: their names. The interval's samples are those that end in (start_ns, end_ns]. Row
    groups outside it are not read. Samples without a time are in no interval. Raises WaveformError.
    """
    meta = metadata(path)
    lazy = pl.scan_parquet(path)
    if rails is not None:
        lazy = lazy.filter(pl.col("rail").is_in(list(rails)))
    if start_ns is not None or end_ns is not None:
        lazy = lazy.filter(_about(meta, start_ns, end_ns))
    try:
        frame = lazy.collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise WaveformError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}") from None
    parts = [
        part.with_columns(sample_times(meta, stream, part["index"]))
        for (stream,), part in frame.group_by("stream", maintain_order=True)
    ]
    if not parts:
        return Waveform(pl.DataFrame(schema=COLUMNS), meta)
    frame = pl.concat(parts).select(list(COLUMNS)).sort("host", "drive", "rail", "stream", "index")
    if start_ns is not None:
        frame = frame.filter(pl.col("time_ns") > start_ns)
    if end_ns is not None:
        frame = frame.filter(pl.col("time_ns") <= end_ns)
    return Waveform(frame, meta)


def sample_times(meta: dict[str, Any], stream: int, index: pl.Series) -> pl.Series:
    """Return the UTC ns of the ends of samples: `time_ns`, as long as `index`.

    Nulls where the stream has no clock. Linear between the clock's pairs (index i, UTC u: at u, i
    samples had been made), at the declared rate outside of them.
    """
    pairs = _pairs(meta, stream)
    if pairs is None:
        return pl.Series("time_ns", [None] * len(index), dtype=pl.Int64)
    indices, times, origin = pairs
    ends = index.to_numpy() + 1
    period = 1e9 / meta["sample_rate_hz"]
    since = np.interp(ends, indices, times)
    since = np.where(ends < indices[0], times[0] - (indices[0] - ends) * period, since)
    since = np.where(ends > indices[-1], times[-1] + (ends - indices[-1]) * period, since)
    return pl.Series("time_ns", np.rint(since).astype(np.int64) + origin)


def energy_by_rail(waveform: Waveform) -> dict[tuple[str, str, str], float]:
    """Compute the joules of the samples that are there, by (host, drive, rail).

    On the instrument's own time. Window means: the sum of V x I x period. Point samples: trapezoids
    between neighbours, none over a gap.
    """
    period = 1 / waveform.meta["sample_rate_hz"]
    watts = pl.col("volts").cast(pl.Float64) * pl.col("amps").cast(pl.Float64)
    if waveform.meta["samples"] == "window-mean":
        joules = watts.sum() * period
    else:
        neighbours = (pl.col("index").diff() == 1) & (pl.col("stream").diff() == 0)
        joules = ((watts + watts.shift(1)) / 2).filter(neighbours).sum() * period
    table = waveform.frame.group_by("host", "drive", "rail", maintain_order=True).agg(joules.alias("joules"))
    return {(host, drive, rail): value for host, drive, rail, value in table.iter_rows()}


def _pairs(meta: dict[str, Any], stream: int) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Return a stream's clock: indices, ns since the first pair, and the first pair's UTC ns.

    The ns since the first pair are small enough for a float. None where the stream has no clock.
    """
    pairs = [(pair["index"], pair["utc_ns"]) for pair in meta["clock"] if pair["stream"] == stream]
    if not pairs:
        return None
    origin = pairs[0][1]
    return np.array([i for i, _ in pairs], float), np.array([u - origin for _, u in pairs], float), origin


def _about(meta: dict[str, Any], start_ns: int | None, end_ns: int | None) -> pl.Expr:
    """Return a condition that holds for all samples of the interval, and for few others.

    It is a condition on stream and index.
    """
    period = 1e9 / meta["sample_rate_hz"]
    wanted = pl.lit(False)
    for stream in sorted({pair["stream"] for pair in meta["clock"]}):
        indices, times, origin = _pairs(meta, stream)

        def sample_index(
            utc_ns: int, indices: np.ndarray = indices, times: np.ndarray = times, origin: int = origin
        ) -> float:
            since = utc_ns - origin
            if since < times[0]:
                return indices[0] - (times[0] - since) / period
            if since > times[-1]:
                return indices[-1] + (since - times[-1]) / period
            return float(np.interp(since, times, indices))

        inside = pl.col("stream") == stream
        if start_ns is not None:
            inside &= pl.col("index") >= int(np.floor(sample_index(start_ns))) - 2
        if end_ns is not None:
            inside &= pl.col("index") <= int(np.ceil(sample_index(end_ns))) + 1
        wanted |= inside
    return wanted
