# SPDX-License-Identifier: GPL-3.0-or-later
"""Time cut into pixel buckets: a sliding window that keeps the last of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Window:
    """The last `length` buckets of `channels` x `columns` values; NaN where there is none.

    Writing a bucket again replaces it: a reader that re-reads whole buckets needs no memory of what
    it had.
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
        """Slide forward so that the newest bucket is `end - 1`."""
        if end <= self.end:
            return
        fresh = np.arange(max(self.end, end - self.length), end)
        self.values[:, :, fresh % self.length] = np.nan
        self.end = end

    def put(self, channel: Ints, bucket: Ints, values: Floats) -> None:
        """Replace buckets (values[n, columns]); what lies outside the window is ignored."""
        inside = (bucket >= self.start) & (bucket < self.end)
        self.values[channel[inside], :, bucket[inside] % self.length] = values[inside]

    def replace(self, first: int, values: Floats) -> None:
        """Replace the buckets from `first` on (values[channels, columns, buckets]).

        Slides to the last of them.
        """
        end = first + values.shape[2]
        self.advance(end)
        inside = np.arange(max(first, self.start), end)
        self.values[:, :, inside % self.length] = values[:, :, inside - first]

    def read(self, first: int, end: int) -> Floats:
        """Return values[channels, columns, end - first] of buckets first ..

        End - 1, all in the window.
        """
        return self.values[:, :, np.arange(first, end) % self.length]
