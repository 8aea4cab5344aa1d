# SPDX-License-Identifier: GPL-3.0-or-later
"""Capture an instrument: what all capturers share, from the first event to the exit code."""

from __future__ import annotations

import importlib
import itertools
import os
import pkgutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from joulerig.capturers import frames

# srcap's exit codes.
USAGE, ABSENT, SILENT, FAILED = 2, 3, 4, 5
SHARED = ("capture", "frames", "serial_line", "sysfs")
"""Modules of this folder that are no instrument's."""
# powerd waits 1.5 s before it kills.
STOP_SECONDS = 1.0
TICK_SECONDS = 0.1
"""The longest that an instrument may wait for samples before it yields None."""


class UsageError(Exception):
    """Arguments that cannot be used: exit code 2."""


class AbsentError(Exception):
    """No such instrument: exit code 3."""


class InstrumentError(Exception):
    """An instrument, or what lies between, that cannot go on: exit code 5."""


@dataclass(frozen=True)
class Config:
    """What a capturer is started with.

    `options`: after the driver's name, `conn` among them. `settings`: of `--set`. `channels`: those
    that are wanted. `program`: of the capturer `command`.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    channels: Sequence[str] = ()
    program: Sequence[str] = ()
    open_seconds: float = 5.0

    @property
    def connection(self) -> str:
        """Return `conn`. Raises UsageError where there is none."""
        if "conn" not in self.options:
            raise UsageError("--driver: conn: missing")
        return self.options["conn"]

    def number(self, key: str) -> float | None:
        """Return a setting as a number, None where it is not set. Raises UsageError."""
        text = self.settings.get(key)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise UsageError(f"--set {key}: {text!r}; allowed: a number") from None

    @property
    def rate_hz(self) -> float:
        """Return the setting `samplerate`. Raises UsageError where it is none above 0."""
        found = self.number("samplerate")
        if found is None or not 0 < found < 1e9:
            raise UsageError("--set samplerate: missing; allowed: samples a second, above 0")
        return found

    @property
    def streams(self) -> bool:
        """Return whether the setting `timing` is stream, as of an instrument with a clock."""
        return self.settings.get("timing", "stream") == "stream"


@dataclass(frozen=True)
class Identity:
    """What an instrument reports that it is."""

    vendor: str = ""
    model: str = ""
    version: str = ""
    serial: str = ""


@dataclass(frozen=True)
class Block:
    """Consecutive samples by channel, those of all channels being of the same times.

    `first`: the index of the first, where the instrument counts; None: the next. `at`: when the
    last was there; None: now.
    """

    values: Mapping[str, NDArray[np.floating[Any]] | Sequence[float]]
    first: int | None = None
    at: frames.Clocks | None = None


def stretches(
    values: Mapping[str, NDArray[np.floating[Any]]], indices: Sequence[int], at: frames.Clocks
) -> Iterator[Block]:
    """Yield samples (n,) by channel as blocks: where an index (n,) is left out, one ends."""
    cuts = [0, *(np.flatnonzero(np.diff(indices) > 1) + 1).tolist(), len(indices)]
    for begin, end in itertools.pairwise(cuts):
        yield Block({name: one[begin:end] for name, one in values.items()}, int(indices[begin]), at)


class Instrument(Protocol):
    """An instrument that is open."""

    @property
    def identity(self) -> Identity:
        """Return what it reports that it is."""

    @property
    def rate_hz(self) -> float:
        """Return the rate of its sample clock; 0: it is polled."""

    @property
    def quantities(self) -> Mapping[str, str]:
        """Return what each channel is: volts, amps, watts or watt_hours."""

    def blocks(self) -> Iterator[Block | None]:
        """Yield samples without end, and None where none came within TICK_SECONDS.

        Raises AbsentError, InstrumentError, OSError.
        """

    def close(self) -> None:
        """Leave the instrument as it was found."""


@dataclass(frozen=True)
class Found:
    """An instrument that may be there: `conn` as the inventory takes it."""

    connection: str
    identity: Identity
    channels: Sequence[str] = ()


@dataclass(frozen=True)
class Driver:
    """An instrument's way in. `option`, `settings`: the keys it takes."""

    open: Callable[[Config], Instrument]
    find: Callable[[], Iterable[Found]] = tuple
    options: tuple[str, ...] = ("conn",)
    settings: tuple[str, ...] = ()
    extra: str = ""
    """The optional dependencies of joulerig that have its library; empty: it needs none."""


def names() -> list[str]:
    """Return the names of the drivers."""
    modules = (module.name for module in pkgutil.iter_modules(sys.modules[__package__ or ""].__path__))
    return sorted(name.replace("_", "-") for name in modules if name not in SHARED and name[0] != "_")


def driver(name: str) -> Driver:
    """Return a driver. Raises UsageError where there is none of the name."""
    if name not in names():
        raise UsageError(f"--driver: {name!r} is no capturer; allowed: {', '.join(names())}")
    module: ModuleType = importlib.import_module(f"{__package__}.{name.replace('-', '_')}")
    found: Driver = module.DRIVER
    return found


def parsed(specification: str) -> tuple[str, dict[str, str]]:
    """Split DRIVER[:key=value...]. Raises UsageError."""
    name, *parts = specification.split(":")
    options = dict(part.partition("=")[::2] for part in parts)
    allowed = driver(name).options
    for key in options:
        if key not in allowed:
            raise UsageError(
                f"--driver: {name} has no option {key!r}; allowed: {', '.join(allowed) or 'none'}"
            )
    return name, options


def opened(name: str, config: Config) -> Instrument:
    """Return the instrument, open. Raises UsageError, AbsentError, InstrumentError."""
    chosen = driver(name)
    for key in config.settings:
        if key not in chosen.settings:
            allowed = ", ".join(chosen.settings) or "none"
            raise UsageError(f"--set {key}: {name} has no such setting; allowed: {allowed}")
    try:
        return chosen.open(config)
    except ImportError as error:
        raise AbsentError(
            f"{name} needs the Python package {error.name!r}, which is not installed;"
            f" pip install '.[{chosen.extra}]'"
        ) from None
    except OSError as error:
        raise AbsentError(f"{config.options.get('conn', name)}: {error.strerror or error}") from None


class _Watch:
    """Ends the process where the instrument hangs, which no call into a library can be made to."""

    def __init__(self, writer: frames.Writer, seconds: float) -> None:
        self.writer, self.seconds = writer, seconds
        self.seen = time.monotonic()
        self.stopping = threading.Event()
        self.requested = False

    def start(self) -> None:
        for work in (self._watch, self._commands):
            threading.Thread(target=work, daemon=True).start()

    def stop(self, *_: object) -> None:
        """Have the capture end, as it was asked to."""
        self.requested = True
        self.stopping.set()

    def _watch(self) -> None:
        while not self.stopping.wait(min(TICK_SECONDS, self.seconds / 4)):
            quiet = time.monotonic() - self.seen
            if quiet > self.seconds:
                say(f"no samples for {quiet:.1f} s, giving up")
                self.writer.event("silence", seconds=round(quiet, 3))
                os._exit(SILENT)
        time.sleep(STOP_SECONDS)  # a library that does not return is left behind
        os._exit(0 if self.requested else FAILED)

    def _commands(self) -> None:
        for line in sys.stdin:
            command = line.split()
            if command == ["stop"]:
                self.stop()
            elif command[:1] == ["raw"]:
                self.writer.event("raw", on=True)  # samples are all that there is
            elif command[:1] == ["set"]:
                key, value = [*command[1:], "", ""][:2]
                self.writer.event("set", key=key, value=value, ok=False, error="not while capturing")


def say(text: str) -> None:
    """Write a message for people."""
    print(f"capturer: {text}", file=sys.stderr, flush=True)


def run(name: str, config: Config, silence_seconds: float, writer: frames.Writer) -> int:
    """Capture until asked to stop; return the exit code. Raises as `opened` does."""
    instrument = opened(name, config)
    missing = [channel for channel in config.channels if channel not in instrument.quantities]
    if missing:
        instrument.close()
        there = ", ".join(instrument.quantities)
        raise UsageError(f"--channels: the instrument has no {missing[0]!r}; allowed: {there}")
    watch = _Watch(writer, silence_seconds)
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, watch.stop)
    writer.event(
        "start",
        driver=name,
        **vars(instrument.identity),
        samplerate_hz=round(instrument.rate_hz),
        channels=[{"name": c, "type": "analog", "index": i} for i, c in enumerate(config.channels)],
    )
    watch.start()
    index = 0
    try:
        for block in instrument.blocks():
            if watch.stopping.is_set():
                break
            if block is None:
                continue
            watch.seen = time.monotonic()
            index = index if block.first is None else block.first
            at = block.at or frames.now()
            length = 0
            for number, channel in enumerate(config.channels):
                values = block.values.get(channel, ())
                length = max(length, len(values))
                if len(values):
                    writer.samples(number, instrument.quantities[channel], index, values, at)
            index += length
        writer.event("end", requested=watch.requested)
        return 0 if watch.requested else FAILED
    finally:
        watch.stopping.set()
        instrument.close()
