# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the frames of srcap (collectors/srcap/frames.md)."""

from __future__ import annotations

import array
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

HEADER = struct.Struct("<IHHIIIIQqq")
MAGIC = 0x31465253
ANALOG, LOGIC, EVENT, RAIL, REGISTER = 1, 2, 3, 4, 5
STRETCH = struct.Struct("<Q7d")


@dataclass
class Frame:
    type: int
    channel: int
    mq: int
    unit: int
    n: int
    first: int
    monotonic_ns: int
    realtime_ns: int
    payload: bytes

    def samples(self) -> array.array[float]:
        return array.array("d" if self.type == REGISTER else "f", self.payload)

    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.payload)
        return event

    def marks(self) -> list[tuple[float, float]]:
        """Of a rail's frame: pairs of (volts, amps)."""
        _, marks = struct.unpack_from("<II", self.payload)
        numbers = array.array("f", self.payload[8 : 8 + 8 * marks])
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def stretches(self) -> list[tuple[Any, ...]]:
        """Of a rail's frame: tuples of (n, volts, amps, watts, least, most, first, last)."""
        stretches, marks = struct.unpack_from("<II", self.payload)
        assert len(self.payload) == 8 + 8 * marks + STRETCH.size * stretches
        return list(STRETCH.iter_unpack(self.payload[8 + 8 * marks :]))


def read_frames(stream: IO[bytes]) -> Iterator[Frame]:
    """Frames of a binary stream up to its end, which must not lie inside one."""
    while True:
        header = stream.read(HEADER.size)
        if not header:
            return
        assert len(header) == HEADER.size, "the stream ends inside a header"
        magic, kind, channel, mq, unit, n, length, first, monotonic, realtime = HEADER.unpack(header)
        assert magic == MAGIC
        payload = stream.read(length)
        assert len(payload) == length, "the stream ends inside a frame"
        yield Frame(kind, channel, mq, unit, n, first, monotonic, realtime, payload)
