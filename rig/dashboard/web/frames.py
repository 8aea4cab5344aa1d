# SPDX-License-Identifier: GPL-3.0-or-later
"""The binary frames of the traces (little endian); `page/link/frames.ts` reads them in a page.

    frame   = f64 x 6: version, sequence, now (UTC seconds), layout, frames dropped for this client,
              sections; then the sections
    section = f64 x 5: bucket seconds, first bucket, buckets, channels, columns
              then f32[channels][columns][buckets], NaN where there is no value, padded to 8 bytes

`layout` names the message that says what the channels are: a page ignores frames of another layout.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from joulerig.rig.dashboard import VERSION

HEADER = struct.Struct("<6d")
SECTION = struct.Struct("<5d")


def section(bucket_ns: int, first_bucket: int, values: NDArray[np.float64]) -> bytes:
    """Return values[channels, columns, buckets] as a section."""
    channels, columns, buckets = values.shape
    body = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return (
        SECTION.pack(bucket_ns / 1e9, first_bucket, buckets, channels, columns)
        + body
        + b"\0" * (-len(body) % 8)
    )


def header(sequence: int, now_ns: int, layout: int, dropped: int, sections: Sequence[bytes]) -> bytes:
    return HEADER.pack(VERSION, sequence, now_ns / 1e9, layout, dropped, len(sections))


class Section(NamedTuple):
    """Values [channels, columns, buckets] from a bucket on; NaN where there is none."""

    bucket_seconds: float
    first: int
    values: NDArray[np.float32]


class Frame(NamedTuple):
    """A frame: `now_seconds` is the lab's time (UTC); `layout` as in the message of that kind."""

    sequence: int
    now_seconds: float
    layout: int
    sections: tuple[Section, ...]


def read(frame: bytes) -> Frame:
    """Return what a frame holds."""
    _, sequence, now_seconds, layout, _, count = HEADER.unpack_from(frame)
    at, sections = HEADER.size, []
    for _ in range(int(count)):
        bucket_seconds, *numbers = SECTION.unpack_from(frame, at)
        first, buckets, channels, columns = map(int, numbers)
        at += SECTION.size
        values = np.frombuffer(frame, "<f4", channels * columns * buckets, at)
        at += values.nbytes + -values.nbytes % 8
        sections.append(Section(bucket_seconds, first, values.reshape(channels, columns, buckets)))
    return Frame(int(sequence), now_seconds, int(layout), tuple(sections))
