# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be wrong with a measurement: twenty faults that are planted, and draws that are sealed.

A draw stays within what the lab declares of its tap (`ACCURACY`, the latency and the clock that the
budget allows), so that the bounds have to hold; a planted fault is beyond it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

# What the lab says of the tap.
ACCURACY: dict[str, dict[str, float]] = {
    "volts": {"gain_percent": 0.1, "offset": 0.002, "resolution": 0.001},
    "amps": {"gain_percent": 0.3, "offset": 0.001, "resolution": 0.0005},
}
QUANTITIES = ("volts", "amps", "volts", "amps")  # of channels 1 to 4
MOST_LATE = 2  # samples of a millisecond: the latency that the budget allows
MOST_PPM = 50.0
MOST_LOST = 0.01

Keys = Mapping[str, float]


@dataclass(frozen=True)
class Setup:
    """A measurement and what is wrong with it; by default nothing.

    `tap`: the tap's `--faults`. `load`: `bursts`, or `fast`: power that changes within a sample.
    `meter`: `tap`, or `polled`: a supply that is asked for its readings. `full_scale_amps`: what
    the lab declares of the meter. `lead_seconds`: how much longer than else it is measured with
    before the load.
    """

    name: str
    tap: Keys = field(default_factory=dict)
    load: str = "bursts"
    meter: str = "tap"
    swapped_rails: bool = False
    clock_error_ns: int = 0
    clock_set_back: bool = False
    cut_tail: bool = False
    expired_calibration: bool = False
    calibration_serial: str = ""
    full_scale_amps: float = 5.0
    lead_seconds: float = 0.0
    load_seconds: float = 4.0


# Instants are seconds after the tap's start: the load is from 4 to 8 (chain.py).
PLANTED = [
    Setup("1 % gain", {"gain.2": 1.01}),
    Setup("5 ms window shift", {"delay": 5}),
    Setup("swapped rails", swapped_rails=True),
    Setup("skew of one sample", {"skew": 1}),
    Setup("stuck channel", {"stuck.2": 6}),
    Setup("500 ms clock offset", clock_error_ns=500_000_000),
    Setup("dropped peaks", {"peaks.2": 0.5}),
    Setup("cut tail", cut_tail=True),
    Setup("clipping", {"full_scale.2": 0.5, "full_scale.4": 0.5}, full_scale_amps=0.5),
    Setup("over-range", {"over_range.2": 0.5, "over_range.4": 0.5}, full_scale_amps=0.5),
    Setup("5 kHz load", load="fast"),
    Setup("polled bursts", meter="polled"),
    Setup("constant latency", {"delay": 50}),
    Setup("clock set back", clock_set_back=True),
    # A crystal may be 100 ppm off: it takes a while until it cannot be that.
    Setup("trickle", {"trickle": 0.0004}, lead_seconds=30, load_seconds=20),
    # Blocks that are doubled while the drive rests do no harm, and cannot be seen.
    Setup("doubled blocks", {"doubled": 0.02}, load_seconds=12),
    Setup("wrong channel's unit", {"gain.2": 1000}),
    Setup("expired calibration", expired_calibration=True),
    Setup("other instrument's serial", calibration_serial="ANOTHER0001"),
    Setup("warm shunt", {"warm.2": 0.03, "warm_seconds": 3}),
]


def draw(seed: int, number: int) -> Setup:
    """Draw a tap that is as dirty as its declaration allows."""
    chance = random.Random(f"{seed} {number}")
    keys: dict[str, float] = {
        "seed": chance.randrange(2**32),
        "delay": chance.randint(0, MOST_LATE),
        "ppm": chance.uniform(-MOST_PPM, MOST_PPM),
    }
    for channel, quantity in enumerate(QUANTITIES, start=1):
        limits = ACCURACY[quantity]
        gain, offset = limits["gain_percent"] / 100, limits["offset"]
        keys[f"gain.{channel}"] = 1 + chance.uniform(-gain, gain)
        keys[f"offset.{channel}"] = chance.uniform(-offset, offset)
        keys[f"noise.{channel}"] = chance.uniform(0, 3 * limits["resolution"])
        keys[f"lsb.{channel}"] = limits["resolution"]
    for kind in ("lost", "doubled"):
        if chance.random() < 0.5:
            keys[kind] = chance.uniform(0, MOST_LOST)
    return Setup(f"sealed {number}", keys)


def _stream(key: bytes, length: int) -> bytes:
    return hashlib.shake_256(key).digest(length)


def seal(setups: Sequence[Setup], key: bytes) -> bytes:
    """Return the draws in a form that only a holder of `key` reads."""
    plain = json.dumps([asdict(setup) for setup in setups]).encode()
    return bytes(a ^ b for a, b in zip(plain, _stream(key, len(plain)), strict=True))


def unseal(sealed: bytes, key: bytes) -> list[Setup]:
    """Return the draws of `seal`. Raises ValueError for another key."""
    plain = bytes(a ^ b for a, b in zip(sealed, _stream(key, len(sealed)), strict=True))
    found: list[dict[str, Any]] = json.loads(plain)
    return [Setup(**one) for one in found]


def digest(sealed: bytes) -> str:
    """Return what vouches, before the runs, that the draws were not changed after them."""
    return hashlib.sha256(sealed).hexdigest()
