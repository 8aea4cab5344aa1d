# SPDX-License-Identifier: GPL-3.0-or-later
"""command: any program that prints samples, as lines of CSV or JSON.

The contract is docs/reference/protocols/command.md. Columns are time, volts, amps, watts and joules
(cumulative), or NAME.volts and so on where there are several; a channel is named as its column.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from joulerig.capturers import capture, frames
from joulerig.capturers.capture import (
    AbsentError,
    Block,
    Config,
    Driver,
    Identity,
    InstrumentError,
    UsageError,
)

QUANTITIES = {"volts": "volts", "amps": "amps", "watts": "watts", "joules": "watt_hours"}
JOULES_PER_WATT_HOUR = 3600.0
OVER_RANGE = ("ol", "overload", "over range")
"""What a program may print for a reading beyond its range, besides infinity."""
MOST_LINE_BYTES = 1 << 16
MOST = 1e15  # volts, amps, watts or joules
MOST_SECONDS = 1e10  # of a time: 300 years
DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
END_SECONDS = 0.5


def quantity(column: str) -> str:
    """Return what a column holds: a quantity, "time", or "" for one that is no sample's."""
    last = column.rpartition(".")[2]
    return "time" if column == "time" else QUANTITIES.get(last, "")


def value(text: Any) -> float | None:
    """Return a reading: None where there is none. Raises ValueError."""
    if text is None or text == "":
        return None
    if isinstance(text, str):
        if text.lower().lstrip("+-") in OVER_RANGE:
            return math.inf
        return _sane(float(text))
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise ValueError(text)
    return _sane(float(text))


def _sane(number: float) -> float:
    """Return a reading, which may be no number or infinite. Raises ValueError for an absurd one."""
    if math.isfinite(number) and abs(number) > MOST:
        raise ValueError(number)
    return number


class Lines:
    """Parse a program's lines: the columns of CSV come first, JSON has them in each line."""

    def __init__(self) -> None:
        self.columns: list[str] = []

    def parse(self, line: str) -> dict[str, float | None] | None:
        """Return a line's readings by column; None for one without any. Raises InstrumentError."""
        text = line.strip()
        if not text or text.startswith("#"):
            return None
        try:
            if text.startswith("{"):
                row: Mapping[str, Any] = json.loads(text)
            else:
                cells = [cell.strip() for cell in text.split(",")]
                if not self.columns:
                    self._head(cells)
                    return None
                if len(cells) != len(self.columns):
                    raise InstrumentError(
                        f"{text[:80]!r}: {len(cells)} values; allowed: {len(self.columns)},"
                        f" as {','.join(self.columns)}"
                    )
                row = dict(zip(self.columns, cells, strict=True))
            found = {key: value(cell) for key, cell in row.items() if quantity(key)}
            if not abs(found.get("time") or 0.0) <= MOST_SECONDS:  # nor is NaN
                raise ValueError("time")
        except (ValueError, OverflowError, RecursionError):
            raise InstrumentError(f"{text[:80]!r} is no line of samples; allowed: CSV or JSON") from None
        if not found:
            raise InstrumentError(f"{text[:80]!r} has none of time, {', '.join(QUANTITIES)}")
        return found

    def _head(self, cells: Sequence[str]) -> None:
        if not any(map(quantity, cells)):
            raise InstrumentError(
                f"{','.join(cells)[:80]!r}: the first line of CSV names its columns;"
                f" allowed: time, {', '.join(QUANTITIES)}, or NAME.volts and so on"
            )
        self.columns = list(cells)


class Slots:
    """Number samples by their times, at a declared rate: what is missing leaves its number out.

    From one sample to the next, so that an instrument's clock may be off its declared rate.
    """

    def __init__(self, rate_hz: float) -> None:
        self.rate_hz = rate_hz
        self.last: tuple[int, float] | None = None

    def index(self, seconds: float | None) -> int:
        """Return a sample's index. Raises InstrumentError where its time is not after the last."""
        if self.last is None:
            found = 0
        elif seconds is None:
            found = self.last[0] + 1
        elif not seconds > self.last[1]:
            raise InstrumentError(
                f"time {seconds:.9g} is not after {self.last[1]:.9g}; allowed: times that rise"
            )
        else:
            found = self.last[0] + max(1, round((seconds - self.last[1]) * self.rate_hz))
        self.last = (found, seconds if seconds is not None else math.nan)
        return found


class Program:
    """A program that prints samples."""

    def __init__(self, config: Config) -> None:
        if not config.program:
            raise UsageError("--program: missing; allowed: a JSON list, the program and its arguments")
        clock = config.settings.get("clock", "device")
        if clock not in ("device", "unix"):
            raise UsageError(f"--set clock: {clock!r}; allowed: device, unix")
        self.unix = clock == "unix"
        self.rate_hz = config.rate_hz if config.streams else 0.0
        self.identity = Identity(vendor="command", model=os.path.basename(config.program[0]))
        for name in config.channels:
            if quantity(name) in ("", "time"):
                allowed = ", ".join(QUANTITIES)
                raise UsageError(f"--channels: {name!r}; allowed: {allowed}, or NAME.volts and so on")
            if quantity(name) == "watt_hours" and config.streams:
                raise UsageError(f"--channels: {name!r} is a register; allowed: with timing poll")
        self._process = subprocess.Popen(
            config.program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        assert self._process.stdout
        self._out = self._process.stdout.fileno()
        self._lines = Lines()
        columns = config.channels or self._printed(config.open_seconds)
        self.quantities = {name: quantity(name) for name in columns}

    def _printed(self, seconds: float) -> Sequence[str]:
        """Return the columns of the first line. Raises AbsentError where none comes."""
        deadline, buffer = time.monotonic() + seconds, b""
        while b"\n" not in buffer and time.monotonic() < deadline:
            if select.select([self._out], [], [], capture.TICK_SECONDS)[0]:
                if not (data := os.read(self._out, 1 << 12)):
                    break
                buffer += data
        line, ended, _ = buffer.partition(b"\n")
        if not ended:
            self.close()
            raise AbsentError(f"{self.identity.model} printed no line within {seconds:g} s")
        row = self._lines.parse(line.decode(errors="replace"))
        return [name for name in row or self._lines.columns if quantity(name) not in ("", "time")]

    def blocks(self) -> Iterator[Block | None]:
        """Yield the samples that the program prints. Raises InstrumentError where it ends."""
        slots = Slots(self.rate_hz) if self.rate_hz else None
        buffer = b""
        while True:
            if not select.select([self._out], [], [], capture.TICK_SECONDS)[0]:
                yield None
                continue
            data = os.read(self._out, 1 << 16)
            at = frames.now()
            if not data:
                raise InstrumentError(f"{self.identity.model} ended{self._how()}")
            *whole, buffer = (buffer + data).split(b"\n")
            if len(buffer) > MOST_LINE_BYTES:
                raise InstrumentError(f"a line is longer than {MOST_LINE_BYTES} bytes")
            rows = [row for line in whole if (row := self._lines.parse(line.decode(errors="replace")))]
            self._check(rows)
            yield from self._streamed(rows, slots, at) if slots else self._polled(rows, at)

    def _check(self, rows: Sequence[Mapping[str, float | None]]) -> None:
        for row in rows:
            for name in self.quantities:
                if name not in row:
                    raise InstrumentError(f"a line has no {name!r}; it has {', '.join(row)}")

    def _polled(self, rows: Sequence[Mapping[str, float | None]], at: frames.Clocks) -> Iterator[Block]:
        for row in rows:
            values = {
                name: [reading / JOULES_PER_WATT_HOUR if kind == "watt_hours" else reading]
                for name, kind in self.quantities.items()
                if (reading := row[name]) is not None
            }
            yield Block(values, at=self._stamped(row.get("time"), at))

    def _stamped(self, seconds: float | None, at: frames.Clocks) -> frames.Clocks:
        """Return when a reading was made: by the program's own clock, if that is the machine's."""
        if not self.unix or seconds is None:
            return at
        # A clock that is ahead of its arrival cannot be this machine's.
        late = max(0, at[1] - round(seconds * 1e9))
        return at[0] - late, at[1] - late

    def _streamed(
        self, rows: Sequence[Mapping[str, float | None]], slots: Slots, at: frames.Clocks
    ) -> Iterator[Block]:
        """Yield a block for each stretch of consecutive samples."""
        first = 0
        stretch: list[Mapping[str, float | None]] = []
        for row in rows:
            index = slots.index(row.get("time"))
            if stretch and index != first + len(stretch):
                yield self._block(first, stretch, at)
                stretch = []
            if not stretch:
                first = index
            stretch.append(row)
        if stretch:
            yield self._block(first, stretch, at)

    def _block(self, first: int, rows: Sequence[Mapping[str, float | None]], at: frames.Clocks) -> Block:
        values = {
            name: [math.nan if (reading := row[name]) is None else reading for row in rows]
            for name in self.quantities
        }
        return Block(values, first, at)

    def _how(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(END_SECONDS)
            return f" by signal {-code}" if code < 0 else f" with code {code}"
        return ", or closed its output"

    def close(self) -> None:
        """End the program and all that it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            deadline = time.monotonic() + END_SECONDS
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))


def _die_with_parent() -> None:
    """Have the kernel end the program when the capturer is killed."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGTERM)


DRIVER = Driver(open=Program, options=(), settings=("samplerate", "timing", "clock"))
