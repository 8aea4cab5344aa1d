# SPDX-License-Identifier: GPL-3.0-or-later
"""powersensor3: the open-source PowerSensor3 (nlesc-recruit), four pairs of volts and amps on USB.

Channels volts0, amps0 to volts3, amps3, of the pairs in use. Its converters take a sample of 10
bits of each of eight sensors, 20 000 times a second, and send two bytes for each, of which the
upper bits mark them; before each set stands the lower ten bits of a microsecond clock, by which
lost sets are known. Facts: its host library (host/src/PowerSensor.cc, sensors.cc) and firmware.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
)

SENSORS = 8
RATE_HZ = 20_000
PERIOD_US = 50
REFERENCE_VOLTS, FULL_SCALE = 3.3, 1023
EEPROM = struct.Struct("<16s16sff?")
CLOCK_WRAP = 1024
TIME_SENSOR = SENSORS - 1
READ_CONFIGURATION, NEXT_SENSOR, START = b"R", b"s", b"S"
STOP = b"T"  # without the two words that follow a stop by X, which look like a sensor at its end
VENDOR_ID = "0483"  # of the microcontroller's maker


@dataclass(frozen=True)
class Sensor:
    """A sensor as the device's memory describes it."""

    kind: str
    pair: str
    reference: float
    sensitivity: float
    in_use: bool

    @classmethod
    def parse(cls, data: bytes) -> Sensor:
        """Parse the memory's record. Raises InstrumentError where it is damaged."""
        kind, pair, reference, sensitivity, in_use = EEPROM.unpack(data)
        if in_use and not (np.isfinite(sensitivity) and sensitivity):
            raise InstrumentError("a sensor in use has a sensitivity of 0; psconfig sets it")
        names = [text.partition(b"\0")[0].decode("ascii", "replace") for text in (kind, pair)]
        return cls(names[0], names[1], reference, sensitivity, in_use)

    def value(self, levels: np.ndarray) -> np.ndarray:
        """Return volts or amps of levels (n,); infinite at the converter's ends."""
        found = (REFERENCE_VOLTS * levels / FULL_SCALE - self.reference) / self.sensitivity
        found[(levels == FULL_SCALE) | ((levels == 0) & (self.reference > 0))] = np.inf
        return np.asarray(found)


@dataclass
class Set:
    """Levels of all sensors in use, and the device's clock before them, in microseconds."""

    microseconds: int | None
    levels: dict[int, int]


class Sets:
    """Cut the stream of bytes into sets. A byte that is lost loses its set."""

    def __init__(self, sensors: Sequence[int]) -> None:
        self._sensors = list(sensors)
        self._rest = b""
        self._now = Set(None, {})

    def take(self, data: bytes) -> list[Set]:
        """Return the sets that these bytes complete."""
        found, buffer, at = [], self._rest + data, 0
        while at + 1 < len(buffer):
            high, low = buffer[at], buffer[at + 1]
            if high < 0x80 or low >= 0x80:
                at += 1  # out of step
                continue
            at += 2
            sensor, level, marked = high >> 4 & 7, (high & 15) << 6 | low & 63, low >> 6 & 1
            if marked and sensor == TIME_SENSOR:
                self._now = Set(level, {})
                continue
            self._now.levels[sensor] = level
            if sensor == self._sensors[-1]:
                if len(self._now.levels) >= len(self._sensors):
                    found.append(self._now)
                self._now = Set(None, {})
        self._rest = buffer[at:]
        return found


def steps(microseconds: Sequence[int | None], before: int | None) -> list[int]:
    """Return by how many periods each set is after the one before it; 1 where its time is unknown.

    The device's clock goes round in 1024 us: what is lost shows up to twenty sets.
    """
    found = []
    for now in microseconds:
        if now is None or before is None:
            found.append(1)
            before = now if before is None else before + PERIOD_US
        else:
            found.append(max(1, round((now - before) % CLOCK_WRAP / PERIOD_US)))
            before = now
    return found


class PowerSensor:
    """A device, open."""

    rate_hz = float(RATE_HZ)

    def __init__(self, config: Config) -> None:
        port = serial_line.port(config.connection)
        self._line = serial_line.Line(config.connection)
        try:
            self.sensors = self._configuration(config.open_seconds)
        except (AbsentError, InstrumentError):
            self._line.close()
            raise
        self.identity = Identity("PowerSensor3", self.sensors[0].kind, "", port.serial if port else "")
        self._of = {
            f"{'volts' if number % 2 else 'amps'}{number // 2}": number
            for number, sensor in enumerate(self.sensors)
            if sensor.in_use
        }
        self.quantities = {name: name[:-1] for name in self._of}

    def _configuration(self, seconds: float) -> list[Sensor]:
        self._line.write(STOP)  # one that was left streaming
        while self._line.read(0.05):
            pass
        self._line.write(READ_CONFIGURATION)
        found = []
        for _ in range(SENSORS):
            record = self._line.until(EEPROM.size, seconds, "PowerSensor3's configuration")
            found.append(Sensor.parse(record))
            self._line.write(NEXT_SENSOR)
        if (end := self._line.until(1, seconds, "end of its configuration")) != b"D":
            raise AbsentError(f"{self._line.path}: is no PowerSensor3: {end!r} after its configuration")
        return found

    def blocks(self) -> Iterator[Block | None]:
        """Yield the sets, all channels of one being of one instant."""
        sets = Sets(range(SENSORS))
        before: int | None = None
        index = -1
        self._line.write(START)
        while True:
            data = self._line.read(capture.TICK_SECONDS)
            if not data:
                yield None
                continue
            at = frames.now()
            whole = sets.take(data)
            if not whole:
                continue
            indices = index + np.cumsum(steps([one.microseconds for one in whole], before))
            before, index = whole[-1].microseconds, int(indices[-1])
            values = {
                name: self.sensors[number].value(np.array([one.levels[number] for one in whole], float))
                for name, number in self._of.items()
            }
            yield from capture.stretches(values, indices.tolist(), at)

    def close(self) -> None:
        """Stop the stream."""
        with contextlib.suppress(InstrumentError, OSError):
            self._line.write(STOP)
        self._line.close()


def find() -> list[Found]:
    """Return the devices on USB that call themselves so."""
    return [
        Found(serial_line.lasting(port.path), Identity("PowerSensor3", port.product, "", port.serial))
        for port in serial_line.ports()
        if port.vendor_id == VENDOR_ID and "powersensor" in port.product.lower().replace(" ", "")
    ]


DRIVER = Driver(open=PowerSensor, find=find, settings=("samplerate",))
