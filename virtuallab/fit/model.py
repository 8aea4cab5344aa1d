# SPDX-License-Identifier: GPL-3.0-or-later
"""Rate and watts of a flash twin under a steady load, in closed form: virtuallab/twin/flash.h.

A load keeps `queue_depth` requests under way, each at a random multiple of its size, and nothing
else is to do. Of several at once the rate is the least of what their number, the flash units and
the link allow; in between, the twin is a little slower than that.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from joulerig.virtuallab.fit.rows import Row
from joulerig.virtuallab.profile import Flash

Floats = npt.NDArray[np.float64]
FTL_PAGE_BYTES = 4096
BLOCK_PAGES = 256  # of a drive of 1 GiB and more, where a profile gives none


@dataclass(frozen=True)
class Times:
    """What a rate depends on. Seconds, and bytes a second; as `FlashLatency` and `Flash`."""

    channels: int
    page_bytes: int
    block_bytes: int
    read: float
    page_read: float
    short_read: float | None  # None: as page_read
    next_page: float
    read_bytes_per_second: float
    write: float
    program: float
    burst_program: float | None  # into single-level cells; None: there are none
    erase: float
    write_bytes_per_second: float

    @classmethod
    def from_profile(cls, flash: Flash) -> Times:
        """Return those of a profile. Where it has single-level cells, a burst goes to them."""
        latency = flash.latency_us
        burst = latency.slc_program if flash.slc_fraction > 0 else None
        return cls(
            channels=flash.channels,
            page_bytes=flash.page_bytes,
            block_bytes=(flash.block_pages or BLOCK_PAGES) * FTL_PAGE_BYTES,
            read=latency.read * 1e-6,
            page_read=latency.page_read * 1e-6,
            short_read=latency.short_read * 1e-6 if latency.short_read is not None else None,
            next_page=latency.next_page * 1e-6,
            read_bytes_per_second=flash.read_bytes_per_second,
            write=latency.write * 1e-6,
            program=latency.program * 1e-6,
            burst_program=burst * 1e-6 if burst is not None else None,
            erase=latency.erase * 1e-6,
            write_bytes_per_second=flash.write_bytes_per_second,
        )


@functools.cache
def pages_read(page: int, request_bytes: int) -> dict[int, float]:
    """Return how many pages of `page` bytes a read touches: each number's share of its places."""
    places = page // math.gcd(page, request_bytes)
    offsets = [n * request_bytes % page for n in range(places)]
    counts = Counter((offset + request_bytes - 1) // page + 1 for offset in offsets)
    return {pages: count / places for pages, count in counts.items()}


@dataclass(frozen=True)
class Loads:
    """Rows as arrays, of one element a row; a read's places on the pages as arrays of their own."""

    is_read: npt.NDArray[np.bool_]
    size: Floats
    depth: Floats
    amplification: Floats
    place_of: npt.NDArray[np.intp]  # the row of each of its places
    pages: npt.NDArray[np.int64]  # that a read touches there
    share: Floats  # of the row's places

    @classmethod
    def from_rows(cls, rows: Sequence[Row], page_bytes: int) -> Loads:
        """Return the loads of rows whose `queue_depth` is known."""
        places = [
            (n, pages, share)
            for n, row in enumerate(rows)
            if row.operation == "read"
            for pages, share in pages_read(page_bytes, row.request_bytes).items()
        ]
        numbers, pages, shares = zip(*places, strict=True) if places else ((), (), ())
        return cls(
            np.array([row.operation == "read" for row in rows], dtype=bool),
            np.array([row.request_bytes for row in rows], dtype=float),
            np.array([row.queue_depth for row in rows], dtype=float),
            np.array([row.amplification for row in rows]),
            np.array(numbers, dtype=np.intp),
            np.array(pages, dtype=np.int64),
            np.array(shares, dtype=float),
        )

    def mean_of_places(self, values: Floats) -> Floats:
        weighted = self.share * values
        return np.bincount(self.place_of, weighted, len(self.size)).astype(np.float64, copy=False)


def _page_seconds(times: Times, request_bytes: Floats) -> Floats:
    """Return how long a unit has each page of a read."""
    short = times.page_read if times.short_read is None else times.short_read
    return np.where(request_bytes < times.page_bytes / 2, short, times.page_read)


def _read_seconds(times: Times, loads: Loads) -> Floats:
    """Return how long a read takes that is alone, the mean of all its places: flash.h, `read`."""
    size = loads.size[loads.place_of]
    first = times.short_read or times.page_read
    last = _last_page(times, _page_seconds(times, size), loads.pages)
    link = times.read_bytes_per_second
    tail = np.minimum(size, times.page_bytes)
    return loads.mean_of_places(times.read + np.maximum(first + size / link, last + tail / link))


def _last_page(times: Times, page: Floats, pages: npt.NDArray[np.int64]) -> Floats:
    """Return when the last of a read's pages is there: a unit takes every `channels`-th of them."""
    rounds, unit = np.divmod(pages - 1, times.channels)
    last = unit * times.next_page + (rounds + 1) * page
    before = np.where(rounds > 0, (times.channels - 1) * times.next_page + rounds * page, 0.0)
    no_page_waits = times.channels * times.next_page >= page
    return np.where(no_page_waits, (pages - 1) * times.next_page + page, np.maximum(last, before))


def programmed_per_second(times: Times, amplification: float | Floats) -> Floats:
    """Return bytes of the host a second at which the flash programs them: flash.h, at its end."""
    pages_of_a_block = times.block_bytes / times.page_bytes
    seconds = amplification * (times.program + times.erase / pages_of_a_block)
    seconds += (amplification - 1) * times.page_read
    if times.burst_program is not None:
        seconds = np.where(np.asarray(amplification) <= 1, times.burst_program, seconds)
    return times.channels * times.page_bytes / np.asarray(seconds)


def load_rates(times: Times, loads: Loads) -> Floats:
    """Return the bytes a second of each load."""
    size = loads.size
    read_seconds = _read_seconds(times, loads)
    write_seconds = times.write + size / times.write_bytes_per_second
    alone = size / np.where(loads.is_read, read_seconds, write_seconds)
    pages = np.where(loads.is_read, loads.mean_of_places(loads.pages.astype(float)), 1.0)
    units = np.maximum(alone, times.channels / (pages * _page_seconds(times, size)) * size)
    reads = np.minimum(units, times.read_bytes_per_second)
    flash = programmed_per_second(times, loads.amplification)
    writes = np.minimum(times.write_bytes_per_second, flash)
    return np.minimum(alone * loads.depth, np.where(loads.is_read, reads, writes))


def bytes_per_second(times: Times, row: Row) -> float:
    """Return the rate of a row's load; its `queue_depth` must be known."""
    return float(load_rates(times, Loads.from_rows([row], times.page_bytes))[0])


WATTS = (
    "idle_watts",
    "read_joules_per_byte",
    "write_joules_per_byte",
    "command_joules",
    "gc_joules_per_byte",
)
"""What a rail's watts are a sum of: `RailModel`'s, and its gc's joules per byte."""


def watts_terms(row: Row) -> tuple[float, ...]:
    """Return by what each of `WATTS` is multiplied in a row's watts."""
    reads = row.bytes_per_second if row.operation == "read" else 0.0
    writes = row.bytes_per_second if row.operation == "write" else 0.0
    return (1.0, reads, writes, row.per_second, writes * (row.amplification - 1))
