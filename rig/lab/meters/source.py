# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a meter directly, without powerd: scan a connection, and take samples from srcap."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters.family import Family
from joulerig.rig.lab.model import Lab, Meter

# collectors/srcap/frames.md
HEADER = struct.Struct("<IHHIIIIQqq")
MAGIC = 0x31465253
ANALOG, EVENT = 1, 3
QUANTITIES = {10000: "volts", 10001: "amps", 10010: "watts"}
# Blocks whose means give the uncertainty of a mean: neighbouring samples are not independent of one
# another.
BLOCKS = 10
SCAN_SECONDS = 5.0


def driver(lab: Lab, name: str) -> str:
    """Return libsigrok's DRIVER:key=value... of a meter of the inventory."""
    meter = lab.controller.meters[name]
    options = {**meter.family.options, **meter.options}
    return specification(meter.driver, lab.connection(name), meter.serialcomm, options)


def specification(
    driver: str, connection: str | None, serialcomm: str | None = None, options: dict[str, str] | None = None
) -> str:
    """Return DRIVER:key=value... from its parts."""
    parts = [driver]
    parts += [f"conn={connection}"] if connection else []
    parts += [f"serialcomm={serialcomm}"] if serialcomm else []
    return ":".join(parts + [f"{key}={value}" for key, value in (options or {}).items()])


def settings(meter: Meter) -> dict[str, str]:
    """Return what is set at the instrument before a capture."""
    return {**limits(meter.family), **meter.family.settings(meter), **meter.set}


def limits(family: Family) -> dict[str, str]:
    """Return the settings by which a family's driver goes on without end."""
    return {key: str(value) for key, value in family.limits.items()}


def srcap_options(family: Family) -> list[str]:
    """Return the options of srcap that a family's driver needs, whatever the meter."""
    options = ["--open-seconds", f"{family.open_seconds:g}"] if family.open_seconds else []
    return options + (["--fixed-settings"] if family.fixed_settings else [])


def scan(specification: str, family: Family, seconds: float = SCAN_SECONDS) -> list[dict[str, Any]]:
    """Return the instruments found at a connection.

    Of each {driver, vendor, model, version, serial, connection, channels: [{name, type, index}]}.
    libsigrok waits for ever for a peer that accepts and never replies, so srcap scans with a
    deadline: `seconds`, or the family's `open_seconds` where that is longer. Raises UserError when
    nothing replies.
    """
    seconds = max(seconds, family.open_seconds)
    command = [_srcap(), "--scan", "--driver", specification, "--silence-seconds", f"{seconds:g}"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds + 20, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{specification}: srcap did not end within {seconds + 20:g} s") from None
    if done.returncode == 4:
        raise UserError(f"{specification}: accepts connections, but does not answer within {seconds:g} s")
    if done.returncode:
        why = _last_words(done.stderr)
        raise UserError(why if specification in why else f"{specification}: {why}")
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
    """Samples of a meter: a context manager over one srcap. `instrument` is srcap's start event."""

    def __init__(self, lab: Lab, name: str, channels: list[str]) -> None:
        meter = lab.controller.meters[name]
        silence = meter.silence_seconds or 2.0
        self.name, self.channels = name, channels
        self.command = [_srcap(), "--driver", driver(lab, name), "--channels", ",".join(channels)]
        self.command += ["--silence-seconds", f"{silence:g}", *srcap_options(meter.family)]
        for key, value in settings(meter).items():
            self.command += ["--set", f"{key}={value}"]
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
        frames, messages = self._process.stdout, self._process.stderr
        assert frames is not None
        assert messages is not None
        while True:
            header = frames.read(HEADER.size)
            if len(header) < HEADER.size:
                raise UserError(f"meter {self.name}: {_last_words(messages.read())}")
            magic, kind, channel, mq, _unit, _n, length, _first, monotonic, _real = HEADER.unpack(header)
            if magic != MAGIC:
                raise UserError(f"meter {self.name}: srcap sent an invalid frame")
            payload = frames.read(length)
            if kind == EVENT:
                event = json.loads(payload)
                if event["event"] == "start":
                    self.instrument = event
            elif kind == ANALOG:
                samples = np.frombuffer(payload, dtype="<f4").astype(float)
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


def _last_words(stderr: bytes) -> str:
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("srcap: ") if lines else "srcap ended and said nothing"
