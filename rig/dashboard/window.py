# SPDX-License-Identifier: GPL-3.0-or-later
"""Time cut into pixel buckets: min/max decimation, and a sliding window that keeps the last of the buckets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def decimate(
    channel: Ints, time_ns: Ints, mean: Floats, low: Floats, high: Floats, bucket_ns: int
) -> tuple[Ints, Ints, Floats]:
    """Points of some channels, in any order, as one (mean, min, max) a channel and bucket.

    A bucket is [k * bucket_ns, (k + 1) * bucket_ns) of UTC; its mean is the plain mean of its points, which
    stand for equal intervals; its min and max are the least `low` and the greatest `high`, so that no spike is
    lost. Gives (channel, bucket k, values[n, 3]), ordered by channel and bucket; a bucket with no point is absent.
    """
    if len(time_ns) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 3))
    bucket = time_ns // bucket_ns
    order = np.lexsort((bucket, channel))
    channel, bucket = channel[order], bucket[order]
    first = np.flatnonzero(np.r_[True, (np.diff(channel) != 0) | (np.diff(bucket) != 0)])
    count = np.diff(np.r_[first, len(channel)])
    values = np.column_stack(
        (
            np.add.reduceat(mean[order], first) / count,
            np.minimum.reduceat(low[order], first),
            np.maximum.reduceat(high[order], first),
        )
    )
    return channel[first], bucket[first], values


class Window:
    """The last `length` buckets of `channels` x `columns` values; NaN where there is none.

    Writing a bucket again replaces it: a reader that re-reads whole buckets needs no memory of what it had.
    """

    def __init__(self, channels: int, columns: int, length: int) -> None:
        self.values = np.full((channels, columns, length), np.nan)
        self.end = 0  # one past the newest bucket

    @property
    def channels(self) -> int:
        return self.values.shape[0]

    @property
    def length(self) -> int:
        return self.values.shape[2]

    @property
    def start(self) -> int:
        return self.end - self.length

    def grow(self, channels: int) -> None:
        """Make room for `channels` channels; the new ones are empty."""
        more = channels - self.channels
        if more > 0:
            self.values = np.concatenate([self.values, np.full((more, *self.values.shape[1:]), np.nan)])

    def advance(self, end: int) -> None:
        """Slide so that the newest bucket is `end - 1`; never back."""
        if end <= self.end:
            return
        fresh = np.arange(max(self.end, end - self.length), end)
        self.values[:, :, fresh % self.length] = np.nan
        self.end = end

    def put(self, channel: Ints, bucket: Ints, values: Floats) -> None:
        """Replace buckets (values[n, columns]); what lies outside the window is ignored."""
        inside = (bucket >= self.start) & (bucket < self.end)
        self.values[channel[inside], :, bucket[inside] % self.length] = values[inside]

    def read(self, first: int, end: int) -> Floats:
        """values[channels, columns, end - first] of the buckets first .. end - 1, which lie inside the window."""
        return self.values[:, :, np.arange(first, end) % self.length]
