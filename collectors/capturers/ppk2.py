# SPDX-License-Identifier: GPL-3.0-or-later
"""ppk2: Nordic's Power Profiler Kit II, an ammeter of 100 000 samples a second on USB.

One channel: amps. The rail's volts are the source's, or stated, or another meter's. It measures
through five ranges, whose calibration is in the kit; a sample is 32 bits: 14 of the converter, 3
of the range, 6 of a counter by which a lost sample is known, 8 of logic inputs. Facts: the
open-source nRF Connect Power Profiler (pc-nrfconnect-ppk, src/device) and ppk2-api for Python.
Samples are taken as the converter gives them, without the application's spike filter.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator

import numpy as np

from joulerig.capturers import capture, frames, serial_line
from joulerig.capturers.capture import (
    AbsentError,
    Block,
    Config,
    Driver,
    Found,
    Identity,
    InstrumentError,
    UsageError,
)

VENDOR_ID, PRODUCT_IDS = "1915", ("c00a",)
RATE_HZ = 100_000
START, STOP, SET_MODE, RUN, REGULATOR, METADATA = 0x06, 0x07, 0x11, 0x0C, 0x0D, 0x19
AMMETER, SOURCE = 1, 2
LEAST_MILLIVOLTS, MOST_MILLIVOLTS = 800, 5000
RANGES = 5
VOLTS_PER_COUNT = 1.8 / 163840
# What is right where a kit has not been calibrated: the shunts of the five ranges, in ohms.
DEFAULTS = {
    "R": (1031.64, 101.65, 10.15, 0.94, 0.043),
    "GS": (1.0,) * RANGES,
    "GI": (1.0,) * RANGES,
    "O": (0.0,) * RANGES,
    "S": (0.0,) * RANGES,
    "I": (0.0,) * RANGES,
    "UG": (1.0,) * RANGES,
}
ADC_BITS, RANGE_AT, COUNTER_AT = 14, 14, 18
COUNTS = 64
FULL_SCALE = (1 << ADC_BITS) - 1
"""Of the converter: a sample of it is over range."""


def parse_metadata(text: str) -> dict[str, np.ndarray]:
    """Return the calibration by its letters, (RANGES,) each."""
    values = {key: list(default) for key, default in DEFAULTS.items()}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        name, number = key.strip()[:-1], key.strip()[-1:]
        if not (colon and name in values and number.isdigit() and int(number) < RANGES):
            continue
        try:
            found = float(value)
        except ValueError:
            continue
        # Kits exist whose calibration has shunts of nothing: those keep what the parts are.
        if name != "R" or found > 0:
            values[name][int(number)] = found
    return {key: np.array(value) for key, value in values.items()}


def regulator(millivolts: float) -> bytes:
    """Return the command that sets the volts: two digits to the base 256, 3 and 32 being 800 mV."""
    high, low = divmod(round(millivolts) - LEAST_MILLIVOLTS + 32, 256)
    return bytes([REGULATOR, 3 + high, low])


def amps(words: np.ndarray, calibration: dict[str, np.ndarray], volts: float) -> np.ndarray:
    """Return the amps of samples, (n,) words of 32 bits; infinite where one is over range."""
    ranges = np.minimum((words >> RANGE_AT) & 7, RANGES - 1)
    counts = words & FULL_SCALE
    of = {key: value[ranges] for key, value in calibration.items()}
    plain = (counts * 4.0 - of["O"]) * (VOLTS_PER_COUNT / of["R"])
    found = of["UG"] * (plain * (of["GS"] * plain + of["GI"]) + (of["S"] * volts + of["I"]))
    # In a lower range it switches to the next one instead.
    found[(counts == FULL_SCALE) & (ranges == RANGES - 1)] = np.inf
    return np.asarray(found)


class Counter:
    """Number samples by their counters, which count to 64: a jump is of samples that are lost."""

    def __init__(self) -> None:
        self.next = 0
        self._last: int | None = None

    def stretches(self, counters: np.ndarray) -> Iterator[tuple[int, slice]]:
        """Yield the index of the first, and where they lie, of each stretch without a loss."""
        if not len(counters):
            return
        before = np.concatenate([[self._last if self._last is not None else counters[0] - 1], counters[:-1]])
        jumps = (counters - before - 1) % COUNTS
        begins = [0, *(np.flatnonzero(jumps[1:]) + 1).tolist(), len(counters)]
        self.next += int(jumps[0])
        for begin, end in itertools.pairwise(begins):
            if begin:
                self.next += int(jumps[begin])
            yield self.next, slice(begin, end)
            self.next += end - begin
        self._last = int(counters[-1])


class Kit:
    """A kit as an ammeter, or as the source of what it measures."""

    rate_hz = float(RATE_HZ)

    def __init__(self, config: Config) -> None:
        mode = config.settings.get("mode", "ammeter")
        if mode not in ("ammeter", "source"):
            raise UsageError(f"--set mode: {mode!r}; allowed: ammeter, source")
        millivolts = config.number("millivolts")
        allowed = f"{LEAST_MILLIVOLTS} to {MOST_MILLIVOLTS}"
        if config.channels and (millivolts is None or not LEAST_MILLIVOLTS <= millivolts <= MOST_MILLIVOLTS):
            raise UsageError(f"--set millivolts: {millivolts or 'missing'}; allowed: {allowed}")
        self._volts = (millivolts or 0) / 1000
        self.quantities = {"amps": "amps"}
        found = serial_line.port(config.connection)
        self._line = serial_line.Line(config.connection)
        try:
            self._calibration = self._metadata(config.open_seconds)
            if config.channels and millivolts:  # a scan changes nothing
                self._line.write(bytes([SET_MODE, SOURCE if mode == "source" else AMMETER]))
                self._line.write(regulator(millivolts))
                self._line.write(bytes([RUN, 1]))
        except (AbsentError, InstrumentError):
            self._line.close()
            raise
        serial = found.serial if found else ""
        self.identity = Identity("Nordic Semiconductor", "PPK2", self._hardware, serial)

    def _metadata(self, seconds: float) -> dict[str, np.ndarray]:
        """Return the kit's calibration. A kit that was left measuring is stopped first."""
        self._line.write(bytes([STOP]))
        quiet = time.monotonic() + 0.5
        while self._line.read(0.05) and time.monotonic() < quiet:
            pass
        self._line.drain()
        self._line.write(bytes([METADATA]))
        deadline, text = time.monotonic() + seconds, b""
        while b"END" not in text:
            if time.monotonic() > deadline:
                raise AbsentError(f"{self._line.path}: no PPK2 answers there within {seconds:g} s")
            text += self._line.read(0.1)
        decoded = text.decode("ascii", "replace")
        self._hardware = next(
            (line.partition(":")[2].strip() for line in decoded.splitlines() if line.startswith("HW:")), ""
        )
        return parse_metadata(decoded)

    def blocks(self) -> Iterator[Block | None]:
        """Yield the amps."""
        self._line.write(bytes([START]))
        counter, rest = Counter(), b""
        while True:
            data = self._line.read(capture.TICK_SECONDS)
            if not data:
                yield None
                continue
            at = frames.now()
            rest += data
            words = np.frombuffer(rest, "<u4", len(rest) // 4).astype(np.int64)
            rest = rest[4 * len(words) :]
            found = amps(words, self._calibration, self._volts)
            for first, where in counter.stretches((words >> COUNTER_AT) % COUNTS):
                yield Block({"amps": found[where]}, first, at)

    def close(self) -> None:
        """Stop measuring. What it feeds stays on: a drive must not lose its power by this."""
        with contextlib.suppress(InstrumentError, OSError):
            self._line.write(bytes([STOP]))
        self._line.close()


def find() -> list[Found]:
    """Return the kits on USB; their first port is the one that measures."""
    kits: dict[str, Found] = {}
    for port in serial_line.ports():
        if port.vendor_id == VENDOR_ID and (port.product_id in PRODUCT_IDS or port.product == "PPK2"):
            identity = Identity("Nordic Semiconductor", "PPK2", "", port.serial)
            kits.setdefault(
                port.serial or port.path, Found(serial_line.lasting(port.path), identity, ["amps"])
            )
    return list(kits.values())


DRIVER = Driver(open=Kit, find=find, settings=("mode", "millivolts"))
