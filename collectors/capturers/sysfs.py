# SPDX-License-Identifier: GPL-3.0-or-later
"""Find and read devices of the kernel's classes (IIO, hwmon) by name, address or number."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from joulerig.capturers import frames
from joulerig.capturers.capture import (
    TICK_SECONDS,
    AbsentError,
    Block,
    Config,
    Found,
    Identity,
    InstrumentError,
)

ROOT = "JOULERIG_SYSFS"
"""Environment variable: another tree than /sys, for tests."""
DEVICES = "JOULERIG_DEV"
"""Environment variable: another folder than /dev, for tests."""


def devices(name: str, pattern: str) -> list[Path]:
    """Return the devices of a class, a directory each, in the order of their numbers."""
    root = Path(os.environ.get(ROOT, "/sys")) / name
    found = [path for path in root.glob(pattern) if (path / "name").is_file()]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def text(path: Path) -> str:
    """Return a file's text; empty where there is none, or it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def address(device: Path) -> str:
    """Return the address of the chip on its bus, such as 1-0040; empty where it has none.

    A device of a class, as of hwmon, has a link to it; one of the bus iio lies in its folder.
    """
    chip = device / "device"
    found = chip.resolve().name if chip.exists() else device.resolve().parent.name
    return found if re.fullmatch(r"\d+-[0-9a-f]{4}", found) else ""


def identity(device: Path) -> Identity:
    """Return a device's name, and its address in place of a serial."""
    return Identity(vendor="Linux", model=text(device / "name"), version=device.name, serial=address(device))


def chosen(kind: str, found: list[Path], connection: str) -> Path:
    """Return the device that KIND/WHICH names: by address, number or name.

    Raises AbsentError where none fits, or several do.
    """
    which = connection.partition("/")[2]
    fits = [
        one
        for one in found
        if which in (address(one), one.name, one.name.replace(":", ""), text(one / "name"))
    ]
    if len(fits) == 1:
        return fits[0]
    there = ", ".join(f"{kind}/{address(one) or one.name} ({text(one / 'name')})" for one in found)
    how = "is not there" if not fits else "fits several"
    raise AbsentError(f"{connection}: {how}; allowed: {there or f'none: the kernel has no {kind} device'}")


def described(kind: str, device: Path, channels: Mapping[str, object]) -> Found:
    """Return a device as a scan shows it."""
    return Found(f"{kind}/{address(device) or device.name}", identity(device), list(channels))


class Attributes:
    """Attribute files that are read again and again, and what to multiply each with."""

    def __init__(self, files: Mapping[str, tuple[Path, float, float]]) -> None:
        """`files`: by channel: file, scale, and an offset before that."""
        self._files = {
            name: (path.open("rb", buffering=0), scale, offset)
            for name, (path, scale, offset) in files.items()
        }

    def read(self, channel: str) -> float:
        """Return a reading. Raises OSError, InstrumentError."""
        file, scale, offset = self._files[channel]
        value = os.pread(file.fileno(), 64, 0)
        try:
            return (float(value) + offset) * scale
        except ValueError:
            raise InstrumentError(f"{file.name}: {value!r} is no number") from None

    def close(self) -> None:
        """Close the files."""
        for file, *_ in self._files.values():
            file.close()


# Of the mean one; powerd counts 1.5 as a lost reading, and a busy machine is late.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.7, 1.3


class Polled:
    """A device whose attributes are read, one after the other, `samplerate` times a second.

    The pauses vary at random around their mean, so that no load can be in step with the readings
    (analysis/energy/sampled.py).
    """

    rate_hz = 0.0

    def __init__(
        self,
        device: Path,
        quantities: Mapping[str, str],
        file: Callable[[str], tuple[Path, float, float]],
        config: Config,
    ) -> None:
        """`file`: of a channel, as `Attributes` takes it."""
        self.identity = identity(device)
        self.quantities = quantities
        self._rate = config.rate_hz if config.channels else 1.0
        self.wanted = [name for name in config.channels if name in quantities]
        self.attributes = Attributes({name: file(name) for name in self.wanted})

    def blocks(self) -> Iterator[Block | None]:
        """Yield readings."""
        due = time.monotonic()
        while True:
            while (wait := due - time.monotonic()) > 0:
                time.sleep(min(wait, TICK_SECONDS))
                if wait > TICK_SECONDS:
                    yield None
            for channel in self.wanted:
                before = frames.now()
                value = self.attributes.read(channel)
                after = frames.now()
                # A chip on a slow bus answers somewhere between the request and its end.
                middle = ((before[0] + after[0]) // 2, (before[1] + after[1]) // 2)
                yield Block({channel: np.array([value])}, at=middle)
            # One that is late does not make all that follow early.
            pause = random.uniform(SHORTEST_PAUSE, LONGEST_PAUSE) / self._rate
            due = max(due + pause, time.monotonic())

    def close(self) -> None:
        """Close its files."""
        self.attributes.close()
