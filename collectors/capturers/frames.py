# SPDX-License-Identifier: GPL-3.0-or-later
"""Write frames as srcap does (collectors/srcap/frames.md), and their layout."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

HEADER = struct.Struct("<IHHIIIIQqq")
MAGIC = 0x31465253
ANALOG, EVENT, REGISTER = 1, 3, 5
NO_CHANNEL = 65535
QUANTITIES = {
    "volts": (10000, 10000),
    "amps": (10001, 10001),
    "watts": (10010, 10019),
    "watt_hours": (0, 10020),
}
"""By quantity: libsigrok's numbers of it (sr_mq) and of its unit (sr_unit)."""

Clocks = tuple[int, int]
"""CLOCK_MONOTONIC and CLOCK_REALTIME of one moment, in ns."""


def now() -> Clocks:
    """Return both clocks of this moment."""
    for _ in range(3):
        before = time.monotonic_ns()
        real = time.time_ns()
        after = time.monotonic_ns()
        if after - before <= 2000:
            break
    return (before + after) // 2, real


class Writer:
    """A stream of frames. Threads may share it."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def event(self, kind: str, **keys: Any) -> None:
        """Write an event."""
        payload = json.dumps({"event": kind, **keys}).encode()
        self._write(EVENT, NO_CHANNEL, (0, 0), 0, 0, now(), payload)

    def samples(
        self,
        channel: int,
        quantity: str,
        first: int,
        values: NDArray[np.floating[Any]] | Sequence[float],
        at: Clocks,
    ) -> None:
        """Write consecutive samples of a channel, the first of which has the index `first`.

        `at`: when the last of them was there. Of a register, watt hours keep their precision.
        """
        kind, number = (REGISTER, "<f8") if quantity == "watt_hours" else (ANALOG, "<f4")
        # What single precision cannot hold is infinite, which is over range.
        with np.errstate(over="ignore"):
            payload = np.asarray(values, dtype=number).tobytes()
        self._write(kind, channel, QUANTITIES[quantity], len(values), first, at, payload)

    def _write(
        self,
        kind: int,
        channel: int,
        quantity: tuple[int, int],
        n: int,
        first: int,
        at: Clocks,
        payload: bytes,
    ) -> None:
        header = HEADER.pack(MAGIC, kind, channel, *quantity, n, len(payload), first, *at)
        with self._lock:
            self._out.write(header + payload)
            self._out.flush()
