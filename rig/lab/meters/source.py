# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a meter directly, without powerd: scan a connection, and take samples from srcap."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from joulerig import capturers
from joulerig.capturers import frames
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import connections
from joulerig.rig.lab.meters.family import Family
from joulerig.rig.lab.model import Lab, Meter

QUANTITIES = {numbers[0]: name for name, numbers in frames.QUANTITIES.items() if numbers[0]}
# Blocks whose means give the uncertainty of a mean: neighbouring samples are not independent of one
# another.
BLOCKS = 10
SCAN_SECONDS = 5.0
NOT_FOUND = 3  # srcap's exit code, and a capturer's


def driver(lab: Lab, name: str) -> str:
    """Return libsigrok's DRIVER:key=value... of a meter of the inventory, links resolved.

    Raises UserError where a link leads nowhere.
    """
    meter = lab.controller.meters[name]
    # A program's options are the capturer's settings.
    options = {} if meter.family.program else {**meter.family.options, **meter.options}
    connection = connections.port(lab.connection(name))
    return specification(meter.driver, connection, meter.serialcomm, options)


def powerd_driver(lab: Lab, name: str) -> dict[str, str]:
    """Return the same as powerd takes it, which resolves a link at each start."""
    if not connections.is_link(link := lab.connection(name)):
        return {"driver": driver(lab, name)}
    meter = lab.controller.meters[name]
    options = {**meter.family.options, **meter.options}
    specified = specification(meter.driver, connections.LINK, meter.serialcomm, options)
    return {"driver": specified, "connection_link": str(link)}


def specification(
    driver: str, connection: str | None, serialcomm: str | None = None, options: dict[str, str] | None = None
) -> str:
    """Return DRIVER:key=value... from its parts."""
    parts = [driver]
    parts += [f"conn={connection}"] if connection else []
    parts += [f"serialcomm={serialcomm}"] if serialcomm else []
    return ":".join(parts + [f"{key}={value}" for key, value in (options or {}).items()])


def program(family: Family, meter: Meter | None = None) -> list[str]:
    """Return the program that reads instruments of a family, with its first arguments.

    Raises UserError where it is not built.
    """
    if not family.capturer:
        return [_srcap()]
    found = [sys.executable, "-m", capturers.__name__]
    return found + (["--program", json.dumps(meter.command)] if meter and meter.command else [])


def settings(meter: Meter) -> dict[str, str]:
    """Return what is set at the instrument before a capture."""
    return {**limits(meter.family), **meter.family.settings(meter), **meter.set}


def limits(family: Family) -> dict[str, str]:
    """Return the settings by which a family's driver goes on without end."""
    return {key: str(value) for key, value in family.limits.items()}


def set_options(settings: dict[str, str]) -> list[str]:
    """Return settings as srcap and capturers take them."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def srcap_options(family: Family) -> list[str]:
    """Return the options of srcap that a family's driver needs, whatever the meter."""
    options = ["--open-seconds", f"{family.open_seconds:g}"] if family.open_seconds else []
    return options + (["--fixed-settings"] if family.fixed_settings else [])


def scan(
    specification: str, family: Family, seconds: float = SCAN_SECONDS, meter: Meter | None = None
) -> list[dict[str, Any]]:
    """Return the instruments found at a connection.

    Of each {driver, vendor, model, version, serial, connection, channels: [{name, type, index}]}.
    libsigrok waits for ever for a peer that accepts and never replies, so srcap scans with a
    deadline: `seconds`, or the family's `open_seconds` where that is longer. Raises UserError when
    nothing replies.
    """
    seconds = max(seconds, family.open_seconds)
    command = [*program(family, meter), "--scan", "--driver", specification]
    command += ["--silence-seconds", f"{seconds:g}"]
    if meter and family.capturer:
        command += set_options(settings(meter))
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds + 20, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{specification}: the scan did not end within {seconds + 20:g} s") from None
    if done.returncode == 4:
        raise UserError(f"{specification}: accepts connections, but does not answer within {seconds:g} s")
    if done.returncode:
        why = _last_words(done.stderr)
        why = why if specification in why else f"{specification}: {why}"
        raise UserError(f"{why}{_way(family)}" if done.returncode == NOT_FOUND else why)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class Block:
    """Samples of one channel, as they came; `quantity` is volts, amps, watts or "" for another."""

    channel: str
    quantity: str
    samples: np.ndarray
    monotonic_ns: int


@dataclass(frozen=True)
class Mean:
    """A channel's mean over a time, its standard uncertainty (nan.

    Too few samples), and their number.
    """

    quantity: str
    value: float
    uncertainty: float
    samples: int


class Reading:
    """Samples of a meter: a context manager over one srcap. `instrument` is srcap's start event.

    `more`: what is set at the instrument, besides what the inventory says.
    """

    def __init__(
        self, lab: Lab, name: str, channels: list[str], more: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        meter = lab.controller.meters[name]
        silence = meter.silence_seconds or 2.0
        self.name, self.channels, self._meter = name, channels, meter
        self.command = [*program(meter.family, meter), "--driver", driver(lab, name)]
        self.command += ["--channels", ",".join(channels), "--silence-seconds", f"{silence:g}"]
        self.command += [*srcap_options(meter.family), *set_options({**settings(meter), **more})]
        self.instrument: dict[str, Any] = {}

    def __enter__(self) -> Reading:
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    def blocks(self) -> Iterator[Block]:
        """Yield samples without end.

        Raises UserError when the instrument is missing or falls silent.
        """
        stream, messages = self._process.stdout, self._process.stderr
        assert stream is not None
        assert messages is not None
        while True:
            header = stream.read(frames.HEADER.size)
            if len(header) < frames.HEADER.size:
                raise UserError(f"meter {self.name}: {_last_words(messages.read())}")
            magic, kind, channel, mq, _unit, _n, length, _first, monotonic, _real = frames.HEADER.unpack(
                header
            )
            if magic != frames.MAGIC:
                raise UserError(f"meter {self.name}: srcap sent an invalid frame")
            payload = stream.read(length)
            if kind == frames.EVENT:
                event = json.loads(payload)
                if event["event"] == "start":
                    self.instrument = event
                    connections.check(self._meter, event)
            elif kind in (frames.ANALOG, frames.REGISTER):
                width = "<f4" if kind == frames.ANALOG else "<f8"
                samples = np.frombuffer(payload, dtype=width).astype(float)
                yield Block(self.channels[channel], QUANTITIES.get(mq, ""), samples, monotonic)


def average(
    lab: Lab, name: str, channels: list[str], seconds: float
) -> tuple[dict[str, Mean], dict[str, Any]]:
    """Return the means of `channels` over `seconds` from their first samples, and the instrument.

    The readings are uncorrected. Raises UserError as `samples` does.
    """
    taken, quantities, instrument = _taken(lab, name, channels, seconds)
    means = {
        channel: Mean(quantities[channel], float(found.mean()), uncertainty_of_mean(found), len(found))
        for channel, found in taken.items()
    }
    return means, instrument


def samples(
    lab: Lab, name: str, channels: list[str], seconds: float
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the uncorrected samples (n,) of `channels` over `seconds`, and the instrument.

    Raises UserError when a channel has no samples, or one that is not a number.
    """
    taken, _, instrument = _taken(lab, name, channels, seconds)
    return taken, instrument


def _taken(
    lab: Lab, name: str, channels: list[str], seconds: float
) -> tuple[dict[str, np.ndarray], dict[str, str], dict[str, Any]]:
    """Return samples and quantities by channel, and the instrument."""
    parts: dict[str, list[np.ndarray]] = {channel: [] for channel in channels}
    quantities: dict[str, str] = {}
    with Reading(lab, name, channels) as reading:
        end = math.inf
        for block in reading.blocks():
            now = time.monotonic()
            end = min(end, now + seconds)
            parts[block.channel].append(block.samples)
            quantities[block.channel] = block.quantity
            if now >= end:
                break
        instrument = reading.instrument
    taken = {}
    for channel, pieces in parts.items():
        taken[channel] = np.concatenate(pieces) if pieces else np.empty(0)
        if not len(taken[channel]) or not np.isfinite(taken[channel]).all():
            what = "gave no sample" if not len(taken[channel]) else "gave what is not a number"
            raise UserError(f"meter {name}: channel {channel} {what} in {seconds:g} s")
    return taken, quantities, instrument


def power(meter: Meter, volts: np.ndarray, amps: np.ndarray) -> np.ndarray:
    """Return the watts of a rail's samples (n,), in W.

    Sample by sample where the meter streams, as the product of the means leaves out what the two do
    together; readings that are polled are not of one instant.
    """
    if meter.timing == "stream":
        together = min(len(volts), len(amps))
        return np.asarray(volts[:together] * amps[:together])
    return np.asarray(volts.mean() * amps)


def uncertainty_of_mean(samples: np.ndarray) -> float:
    """Return the standard uncertainty (Type A) of the mean of `samples` (n,), from block means.

    GUM (JCGM 100:2008) 4.2, on block means, since neighbouring samples share drift and hum. nan for
    one sample.
    """
    if len(samples) < 2:
        return math.nan
    blocks = np.array([part.mean() for part in np.array_split(samples, min(BLOCKS, len(samples)))])
    return float(blocks.std(ddof=1) / math.sqrt(len(blocks)))


def _srcap() -> str:
    path = paths.program("srcap")
    if not path.exists():
        raise UserError(f"{paths.short(path)}: not built; 'make build' builds it")
    return str(path)


def _way(family: Family) -> str:
    """Return how an instrument that a driver does not find can be read."""
    if not family.knows:
        return ""
    return (
        f"; {family.driver} of libsigrok knows {family.knows}; another instrument: driver: command, with a"
        " program that asks it"
    )


def _last_words(stderr: bytes) -> str:
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return "the capture ended without a message"
    return lines[-1].removeprefix("srcap: ").removeprefix("capturer: ")
