# SPDX-License-Identifier: GPL-3.0-or-later
"""iio: a converter of the kernel's Industrial I/O: INA219, INA226 (ina2xx-adc), and any other.

Channels are the attributes without "in_" and "_raw": voltage1, current3, power2. A value is
(raw + offset) x scale, in mV, mA, mW (Documentation/ABI/testing/sysfs-bus-iio). It is read
attribute by attribute, or, with `timing: stream`, as the kernel's buffer has it, at the chip's
sampling_frequency.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from joulerig.capturers import capture, frames, sysfs
from joulerig.capturers.capture import (
    AbsentError,
    Block,
    Config,
    Driver,
    Found,
    InstrumentError,
    UsageError,
)

QUANTITIES = {"voltage": "volts", "current": "amps", "power": "watts"}
MILLI = 1e-3
ATTRIBUTE = re.compile(r"in_((voltage|current|power)\d*)_raw")
TYPE = re.compile(r"(be|le):([su])(\d+)/(\d+)(?:>>(\d+))?")
BUFFER_SAMPLES = 4096


def channels(device: Path) -> dict[str, str]:
    """Return what each channel of a device measures."""
    found = [match for path in device.iterdir() if (match := ATTRIBUTE.fullmatch(path.name))]
    return {match[1]: QUANTITIES[match[2]] for match in sorted(found, key=lambda match: match[1])}


def factors(device: Path, channel: str) -> tuple[float, float]:
    """Return a channel's scale, to SI units, and its offset."""
    kind = channel.rstrip("0123456789")

    def value(what: str, default: float) -> float:
        for name in (f"in_{channel}_{what}", f"in_{kind}_{what}"):
            if found := sysfs.text(device / name):
                return float(found)
        return default

    return value("scale", 1.0) * MILLI, value("offset", 0.0)


@dataclass(frozen=True)
class Element:
    """A channel in the buffer: its place among the others, and how it is encoded."""

    index: int
    big: bool
    signed: bool
    bits: int
    storage: int
    shift: int

    @classmethod
    def parse(cls, index: str, encoding: str) -> Element:
        """Parse a scan element's index and type, such as le:s12/16>>4. Raises InstrumentError."""
        match = TYPE.fullmatch(encoding)
        if not match or int(match[4]) not in (8, 16, 32, 64):
            raise InstrumentError(f"scan element of type {encoding!r}; allowed: such as le:s12/16>>4")
        return cls(
            int(index), match[1] == "be", match[2] == "s", int(match[3]), int(match[4]), int(match[5] or 0)
        )

    @property
    def bytes(self) -> int:
        """Return how long it is."""
        return self.storage // 8

    def decode(self, data: np.ndarray) -> np.ndarray:
        """Return raw values of the elements' bytes, (n, bytes)."""
        order = ">" if self.big else "<"
        raw = np.ascontiguousarray(data).view(f"{order}u{self.bytes}")[:, 0].astype(np.uint64)
        raw = (raw >> np.uint64(self.shift)) & np.uint64((1 << self.bits) - 1)
        values = raw.astype(np.float64)
        if self.signed:
            values[values >= 2.0 ** (self.bits - 1)] -= 2.0**self.bits
        return values


def layout(elements: dict[str, Element]) -> tuple[dict[str, int], int]:
    """Return where each element lies in a scan, and a scan's length.

    Each is aligned to its own length, and a scan to its longest element (iio-buffer.rst).
    """
    places, at = {}, 0
    for name, element in sorted(elements.items(), key=lambda item: item[1].index):
        at = -(-at // element.bytes) * element.bytes
        places[name] = at
        at += element.bytes
    longest = max(element.bytes for element in elements.values())
    return places, -(-at // longest) * longest


def _devices() -> list[Path]:
    return [one for one in sysfs.devices("bus/iio/devices", "iio:device*") if channels(one)]


class Streamed:
    """A converter whose buffer is read."""

    def __init__(self, device: Path, config: Config) -> None:
        self.identity = sysfs.identity(device)
        self.quantities = channels(device)
        self.rate_hz = float(
            sysfs.text(device / "in_sampling_frequency") or sysfs.text(device / "sampling_frequency") or 0
        )
        if not self.rate_hz:
            raise UsageError(f"{device.name}: has no sampling_frequency; allowed: timing poll")
        self._device, self._elements = device, {}
        scans = device / "scan_elements"
        if not scans.is_dir():
            raise UsageError(f"{device.name}: has no buffer; allowed: timing poll")
        self._switch("buffer/enable", 0)
        wanted = [name for name in config.channels if name in self.quantities]
        for path in scans.glob("*_en"):
            name = path.name.removeprefix("in_").removesuffix("_en")
            self._write(path, int(name in wanted))
            if name in wanted:
                stem = str(path).removesuffix("_en")
                self._elements[name] = Element.parse(
                    sysfs.text(Path(f"{stem}_index")), sysfs.text(Path(f"{stem}_type"))
                )
        if missing := [name for name in wanted if name not in self._elements]:
            raise UsageError(f"--channels: {missing[0]} is not in the buffer; allowed: timing poll")
        self._factors = {name: factors(device, name) for name in wanted}
        self._places, self._bytes = layout(self._elements)
        folder = Path(os.environ.get(sysfs.DEVICES, "/dev"))
        self._write(device / "buffer/length", BUFFER_SAMPLES)
        self._file = os.open(folder / device.name, os.O_RDONLY | os.O_NONBLOCK)
        self._switch("buffer/enable", 1)

    def _switch(self, name: str, value: int) -> None:
        self._write(self._device / name, value)

    @staticmethod
    def _write(path: Path, value: int) -> None:
        try:
            path.write_text(f"{value}\n")
        except OSError as error:
            raise AbsentError(f"{path}: {error.strerror}; the buffer needs write access to it") from None

    def blocks(self) -> Iterator[Block | None]:
        """Yield what the buffer holds. Raises InstrumentError where it ends."""
        rest = b""
        while True:
            if not select.select([self._file], [], [], capture.TICK_SECONDS)[0]:
                yield None
                continue
            try:
                data = os.read(self._file, self._bytes * BUFFER_SAMPLES)
            except BlockingIOError:
                continue
            at = frames.now()
            if not data:
                raise InstrumentError(f"{self._device.name}: its buffer has ended")
            rest += data
            scans = np.frombuffer(rest, np.uint8, len(rest) // self._bytes * self._bytes)
            rest = rest[len(scans) :]
            scans = scans.reshape(-1, self._bytes)
            if len(scans):
                yield Block({name: self._values(name, scans) for name in self._elements}, at=at)

    def _values(self, name: str, scans: np.ndarray) -> np.ndarray:
        place, element, (scale, offset) = self._places[name], self._elements[name], self._factors[name]
        return (element.decode(scans[:, place : place + element.bytes]) + offset) * scale

    def close(self) -> None:
        """Switch the buffer off."""
        os.close(self._file)
        with contextlib.suppress(AbsentError):
            self._switch("buffer/enable", 0)


def open_device(config: Config) -> sysfs.Polled | Streamed:
    """Return the converter, open."""
    device = sysfs.chosen("iio", _devices(), config.connection)
    stream = config.settings.get("timing", "poll") == "stream" and config.channels
    if stream:
        return Streamed(device, config)

    def file(name: str) -> tuple[Path, float, float]:
        return device / f"in_{name}_raw", *factors(device, name)

    return sysfs.Polled(device, channels(device), file, config)


def find() -> list[Found]:
    """Return the converters that the kernel has."""
    return [sysfs.described("iio", one, channels(one)) for one in _devices()]


DRIVER = Driver(open=open_device, find=find, settings=("samplerate", "timing"))
