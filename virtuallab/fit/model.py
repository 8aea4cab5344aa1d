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
from dataclasses import dataclass

from joulerig.virtuallab.fit.rows import Row
from joulerig.virtuallab.profile import Flash

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


def page_seconds(times: Times, request_bytes: int) -> float:
    """Return how long a unit has each page of a read."""
    if request_bytes < times.page_bytes / 2 and times.short_read is not None:
        return times.short_read
    return times.page_read


def read_seconds(times: Times, request_bytes: int) -> float:
    """Return how long a read takes that is alone, the mean of all its places: flash.h, `read`."""
    shares = pages_read(times.page_bytes, request_bytes)
    return sum(share * _read_seconds(times, request_bytes, pages) for pages, share in shares.items())


def _read_seconds(times: Times, request_bytes: int, pages: int) -> float:
    page = page_seconds(times, request_bytes)
    first, last = times.short_read or times.page_read, _last_page(times, page, pages)
    link = times.read_bytes_per_second
    tail = min(request_bytes, times.page_bytes)
    return times.read + max(first + request_bytes / link, last + tail / link)


def _last_page(times: Times, page: float, pages: int) -> float:
    """Return when the last of a read's pages is there: a unit takes every `channels`-th of them."""
    if times.channels * times.next_page >= page:  # no page waits for its unit
        return (pages - 1) * times.next_page + page
    rounds, unit = divmod(pages - 1, times.channels)
    last = unit * times.next_page + (rounds + 1) * page
    before = (times.channels - 1) * times.next_page + rounds * page if rounds else 0.0
    return max(last, before)


def programmed_per_second(times: Times, amplification: float) -> float:
    """Return bytes of the host a second at which the flash programs them: flash.h, at its end."""
    if amplification <= 1 and times.burst_program is not None:
        return times.channels * times.page_bytes / times.burst_program
    pages_of_a_block = times.block_bytes / times.page_bytes
    seconds = amplification * (times.program + times.erase / pages_of_a_block)
    seconds += (amplification - 1) * times.page_read
    return times.channels * times.page_bytes / seconds


def bytes_per_second(times: Times, row: Row) -> float:
    """Return the rate of a row's load; its `queue_depth` must be known."""
    assert row.queue_depth is not None
    size = row.request_bytes
    if row.operation == "read":
        page = page_seconds(times, size)
        pages = sum(number * share for number, share in pages_read(times.page_bytes, size).items())
        units = times.channels / (pages * page) * size
        alone = size / read_seconds(times, size)
        return min(alone * row.queue_depth, max(alone, units), times.read_bytes_per_second)
    alone = size / (times.write + size / times.write_bytes_per_second)
    flash = programmed_per_second(times, row.amplification)
    return min(alone * row.queue_depth, times.write_bytes_per_second, flash)


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
