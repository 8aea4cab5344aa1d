# SPDX-License-Identifier: GPL-3.0-or-later
"""Waveform files as powerd writes them: a row group has one stream of one rail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from joulerig.analysis.results.waveform import COLUMNS, METADATA_KEY


def write(
    path: Path,
    *,
    samples: int,
    rails: Sequence[str] = ("12v",),
    host: str = "vhost1",
    drive: str = "nvme-plp",
    rate_hz: float = 1000.0,
    kind: str = "window-mean",
    begin_ns: int = 1_700_000_000_000_000_000,
    group_rows: int = 1 << 16,
    missing: Sequence[int] = (),
    seed: int = 1,
    watts: np.ndarray | None = None,
    meter: str = "tap1a",
) -> Path:
    """`samples` of each rail but those at the indices `missing`, of noisy watts. Returns `path`.

    `watts`: of each sample instead, at 12 V.

    Rails take turns, a row group each; one million samples at a time are in memory.
    """
    rng = np.random.default_rng(seed)
    meta = {
        "version": 1,
        "meter": meter,
        "session": "20261113T082600Z-1",
        "sample_rate_hz": rate_hz,
        "samples": kind,
        "rails": [{"host": host, "drive": drive, "rail": rail} for rail in rails],
        "clock": [
            {"stream": 0, "index": index, "utc_ns": begin_ns + round(index * 1e9 / rate_hz)}
            for index in (0, samples)
        ],
    }
    schema = {name: kind for name, kind in COLUMNS.items() if name != "time_ns"}
    gone = np.asarray(missing, dtype=np.int64)

    def group(rail: str, first: int) -> pl.DataFrame:
        index = np.arange(first, min(first + group_rows, samples))
        index = index[~np.isin(index, gone)]
        volts = 12 + 0.05 * rng.standard_normal(len(index), dtype=np.float32)
        amps = 0.4 + 0.1 * rng.random(len(index), dtype=np.float32)
        if watts is not None:
            volts, amps = np.full(len(index), 12.0), watts[index] / 12.0
        return pl.DataFrame(
            {
                "host": pl.repeat(host, len(index), dtype=pl.String, eager=True),
                "drive": pl.repeat(drive, len(index), dtype=pl.String, eager=True),
                "rail": pl.repeat(rail, len(index), dtype=pl.String, eager=True),
                "stream": np.zeros(len(index), dtype=np.int32),
                "index": index,
                "volts": volts,
                "amps": amps,
            },
            schema=schema,
        )

    frames = [group(rail, first) for first in range(0, samples, group_rows) for rail in rails]
    pl.concat(frames).write_parquet(
        path, row_group_size=group_rows, metadata={METADATA_KEY: json.dumps(meta)}, compression="zstd"
    )
    return path
