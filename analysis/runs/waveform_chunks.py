# SPDX-License-Identifier: GPL-3.0-or-later
"""The joules of a waveform of any length, block by block, by one process or many.

They are the same to the last bit. A block is a fixed number of the file's rows, in whichever
process. Within it samples are summed in order; the sums of blocks are added exactly (math.fsum). So
nothing depends on how many processes there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from joulerig.analysis.results.waveform import WaveformError, metadata, sample_times

ROWS = 1 << 20  # of a block; another number gives joules that differ in their last digits

Rail = tuple[str, str, str]  # host, drive, rail

_SOURCE = ("host", "drive", "rail", "stream")
_OTHER = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in _SOURCE)  # than the row before


@dataclass(frozen=True)
class Block:
    """Rows [`first`, `first` + ROWS) of a waveform file.

    `interval`: of the rows the samples that end in (start_ns, end_ns], all where it is None.
    """

    path: Path
    first: int
    interval: tuple[int, int] | None = None


@dataclass(frozen=True)
class Stretch:
    """Rows in a row of one stream of one rail; powerd writes these in turns, a row group each.

    `watts`: the sum of the samples' (window means), or of the means of neighbours (point samples).
    `first` and `last`: (index, watts) of the outermost samples, for the neighbours in other blocks.
    """

    rail: Rail
    stream: int
    samples: int
    watts: float
    first: tuple[int, float]
    last: tuple[int, float]


@dataclass(frozen=True)
class Joules:
    """Of one rail: what its samples that are there add up to, and how many they are."""

    joules: float
    samples: int


def split_file(path: Path, interval: tuple[int, int] | None = None) -> list[Block]:
    """Return the blocks of a file, in order. Raises WaveformError."""
    metadata(path)  # what is no waveform is reported now, in one line
    return [Block(path, first, interval) for first in range(0, _rows(path), ROWS)]


def stretches(block: Block) -> list[Stretch]:
    """Return a block's stretches, in the order of the file. Raises WaveformError.

    Within a file the samples of a rail's stream are in the order of their index, as powerd writes
    them.
    """
    meta = metadata(block.path)
    lazy = pl.scan_parquet(block.path).select(*_SOURCE, "index", "volts", "amps")
    try:
        frame = lazy.slice(block.first, ROWS).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise WaveformError(f"{block.path}: cannot be read: {' '.join(str(error).split())[:200]}") from None
    begins = [0, *frame.select(_OTHER.arg_true()).to_series(), frame.height]
    parts = (frame[first:end] for first, end in pairwise(begins))
    found = [_stretch(meta, part, block.interval) for part in parts]
    return [stretch for stretch in found if stretch is not None]


def joules(path: Path, found: Iterable[Iterable[Stretch]]) -> dict[Rail, Joules]:
    """Add up the joules of each rail of a file, from the stretches of all its blocks in order.

    As analysis.results.waveform.energy_by_rail: window means by the sum of V x I x period, point
    samples by trapezoids between neighbours, none over a gap. Raises WaveformError.
    """
    meta = metadata(path)
    trapezoids = meta["samples"] != "window-mean"
    watts: dict[Rail, list[float]] = {}
    samples: dict[Rail, int] = {}
    last: dict[tuple[Rail, int], tuple[int, float]] = {}
    for stretch in (stretch for block in found for stretch in block):
        parts = watts.setdefault(stretch.rail, [])
        parts.append(stretch.watts)
        samples[stretch.rail] = samples.get(stretch.rail, 0) + stretch.samples
        index, before = last.get((stretch.rail, stretch.stream), (None, 0.0))
        if trapezoids and index is not None and stretch.first[0] == index + 1:
            parts.append((before + stretch.first[1]) / 2)
        last[stretch.rail, stretch.stream] = stretch.last
    return {
        rail: Joules(math.fsum(parts) / meta["sample_rate_hz"], samples[rail])
        for rail, parts in watts.items()
    }


def _stretch(meta: dict, part: pl.DataFrame, interval: tuple[int, int] | None) -> Stretch | None:
    if part.is_empty():
        return None
    host, drive, rail, stream = part.row(0)[:4]
    if interval is not None:
        times = sample_times(meta, stream, part["index"])
        part = part.filter((times > interval[0]) & (times <= interval[1]))
        if part.is_empty():
            return None
    index = part["index"].to_numpy()
    watts = part["volts"].to_numpy().astype(np.float64)
    watts *= part["amps"].to_numpy()
    if meta["samples"] == "window-mean":
        total = watts.sum()
    else:
        total = (((watts[1:] + watts[:-1]) / 2)[np.diff(index) == 1]).sum()
    ends = [(int(index[at]), float(watts[at])) for at in (0, -1)]
    return Stretch((host, drive, rail), stream, len(index), float(total), *ends)


def _rows(path: Path) -> int:
    return pl.scan_parquet(path).select(pl.len()).collect().item()
