# SPDX-License-Identifier: GPL-3.0-or-later
"""joulescope: JS110, JS220 and JS320, by their maker's own driver (pyjoulescope_driver).

Channels volts, amps, watts, at the rate that the driver is asked for (`h/fs`): it filters the
instrument's 1 or 2 MS/s down to that. A block has the number of its first sample; what is missing
is a hole in the numbers, or no number. `pip install '.[joulescope]'`.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

from joulerig.capturers import capture, frames
from joulerig.capturers.capture import AbsentError, Block, Config, Driver, Found, Identity, InstrumentError

SIGNALS = {"volts": "v", "amps": "i", "watts": "p"}
RANGES = {
    "js110": (("s/i/range/select", "auto"), ("s/v/range/select", "15 V")),
    "js220": (("s/i/range/mode", "auto"), ("s/v/range/mode", "15 V")),
    "js320": (("s/i/range/mode", "auto"),),
}
OPEN_SECONDS = 10.0
MOST_WAITING = 10_000
"""Blocks that wait to be written; an instrument sends some 20 to 100 a second of each signal."""


def _identity(path: str) -> Identity:
    """Return what a device's path says of it: u/js220/002557."""
    _, model, serial = path.split("/")
    return Identity("Jetperch", model.upper(), "", serial)


def _chosen(paths: list[str], connection: str) -> str:
    serial = connection.partition("/")[2].lower()
    fits = [path for path in paths if path.lower().endswith(f"/{serial}")] if serial else paths
    if len(fits) == 1:
        return fits[0]
    there = ", ".join(f"joulescope/{path.split('/')[-1]}" for path in paths)
    what = connection or "joulescope"
    if not fits:
        raise AbsentError(f"{what}: no such Joulescope; there are: {there or 'none'}")
    raise AbsentError(f"{what}: there are several: declare connection, one of {there}")


class Joulescope:
    """An instrument that the driver has opened."""

    def __init__(self, config: Config) -> None:
        from pyjoulescope_driver import Driver as Library

        self._blocks: queue.Queue[tuple[str, dict[str, Any], frames.Clocks]] = queue.Queue(MOST_WAITING)
        self._full = False
        self.quantities = {name: name for name in SIGNALS}
        self._library = Library()
        self._path = config.options.get("conn", "joulescope")
        try:
            self._path = _chosen(list(self._library.device_paths()), config.options.get("conn", ""))
            self.identity = _identity(self._path)
            self._library.open(self._path, mode="defaults", timeout=OPEN_SECONDS)
        except Exception as error:  # whatever the library raises
            self._library.finalize()
            raise error if isinstance(error, AbsentError) else AbsentError(f"{self._path}: {error}") from None
        self.rate_hz = config.rate_hz if config.channels else 1.0
        self._wanted = [name for name in config.channels if name in SIGNALS]
        self._base: int | None = None
        if self._wanted:
            for topic, value in RANGES.get(self._path.split("/")[1], ()):
                self._publish(topic, value)
            self._publish("h/fs", round(self.rate_hz))

    def _publish(self, topic: str, value: Any) -> None:
        try:
            self._library.publish(f"{self._path}/{topic}", value)
        except Exception as error:  # whatever the library raises
            raise InstrumentError(f"{self._path}/{topic}: {value!r}: {error}") from None

    def _came(self, topic: str, value: dict[str, Any]) -> None:
        """Take a block, on a thread of the library."""
        try:
            self._blocks.put_nowait((topic, value, frames.now()))
        except queue.Full:
            self._full = True

    def blocks(self) -> Iterator[Block | None]:
        """Yield a block of one signal at a time."""
        of = {f"{self._path}/s/{SIGNALS[name]}/!data": name for name in self._wanted}
        for topic in of:
            self._library.subscribe(topic, ["pub"], self._came)
        for name in self._wanted:
            self._publish(f"s/{SIGNALS[name]}/ctrl", 1)
        while True:
            if self._full:
                raise InstrumentError("blocks come faster than they can be written; a lower sample_rate_hz")
            try:
                topic, value, at = self._blocks.get(timeout=capture.TICK_SECONDS)
            except queue.Empty:
                yield None
                continue
            factor = int(value["decimate_factor"])
            rate = value["sample_rate"] / factor
            if abs(rate / self.rate_hz - 1) > 1e-3:
                raise InstrumentError(f"it samples at {rate:g} Hz, and not at {self.rate_hz:g}")
            first, data = int(value["sample_id"]) // factor, value["data"]
            if self._base is None:
                self._base = first
            first -= self._base
            data = data[max(0, -first) :]  # of a signal that began before the other
            if len(data):
                yield Block({of[topic]: data}, max(0, first), at)

    def close(self) -> None:
        """Switch the signals off and leave the instrument."""
        try:
            for name in self._wanted:
                self._library.publish(f"{self._path}/s/{SIGNALS[name]}/ctrl", 0, timeout=0.25)
            self._library.close(self._path)
        except Exception as error:  # whatever the library raises
            capture.say(f"{self._path}: {error}")
        finally:
            self._library.finalize()


def find() -> list[Found]:
    """Return the instruments that the driver sees; none where it is not installed."""
    try:
        from pyjoulescope_driver import Driver as Library
    except ImportError:
        return []
    with Library() as library:
        paths = list(library.device_paths())
    return [Found(f"joulescope/{path.split('/')[-1]}", _identity(path), list(SIGNALS)) for path in paths]


DRIVER = Driver(open=Joulescope, find=find, settings=("samplerate",), extra="joulescope")
