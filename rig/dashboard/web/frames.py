# SPDX-License-Identifier: GPL-3.0-or-later
"""The binary frames of the traces (little endian); `static/js/frames.js` is the reading side.

    frame   = f64 x 6: version, sequence, now (UTC seconds), layout, frames dropped for this client,
              sections; then the sections
    section = f64 x 5: bucket seconds, first bucket, buckets, channels, columns
              then f32[channels][columns][buckets], NaN where there is no value, padded to 8 bytes

`layout` names the message that says what the channels are: a page ignores frames of another layout.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

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
