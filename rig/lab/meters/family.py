# SPDX-License-Identifier: GPL-3.0-or-later
"""A family of meters: how it is reached, how it samples, and which inventories it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from joulerig.rig.common.errors import Strict
from joulerig.rig.common.numbers import NonNegativeFloat

Timing = Literal["stream", "poll"]
Samples = Literal["window-mean", "point"]

# libsigrok's poll drivers run on a timer of 10 ms; 97.6 readings a second is what they reach.
POLL_READINGS_PER_SECOND = 97.0


class Accuracy(Strict):
    """An instrument's accuracy for one quantity: +-(gain_percent of the reading + offset).

    From its data sheet. `offset` and `resolution` (the step between two neighbouring readings) are
    in volts, amps or watts. `linearity_percent`: by how much of the reading the gain can differ
    between two readings; without it gain_percent, and 0 with a calibration of three points or more.
    Of a calibrated channel, by how much its gain can have moved:
    `stability_percent_per_year` since, `temperature_ppm_per_k` over at most `temperature_k` from
    the calibration's temperature, and `loading_percent` by what is connected and drawn.
    """

    gain_percent: Annotated[float, Field(ge=0, le=100)] = 0.0
    offset: NonNegativeFloat = 0.0
    resolution: NonNegativeFloat = 0.0
    linearity_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    stability_percent_per_year: Annotated[float, Field(ge=0, le=100)] | None = None
    temperature_ppm_per_k: Annotated[float, Field(ge=0, le=1e5)] | None = None
    temperature_k: Annotated[float, Field(ge=0, le=200)] | None = None
    loading_percent: Annotated[float, Field(ge=0, le=100)] | None = None

    @model_validator(mode="after")
    def _temperature_has_a_span(self) -> Accuracy:
        given = [key for key in ("temperature_ppm_per_k", "temperature_k") if getattr(self, key) is not None]
        if len(given) == 1:
            missing = "temperature_k" if given[0] == "temperature_ppm_per_k" else "temperature_ppm_per_k"
            raise ValueError(f"{missing}: missing; {given[0]} alone says nothing")
        return self


@dataclass(frozen=True)
class Family:
    """The instruments of one driver, libsigrok's or a capturer's.

    `description`: what they are, for people. `transports`: ways of libsigrok's `conn` that this
    driver has ("serial", "tcp-raw", ...); empty: no conn. `finds_it`: the driver finds its
    instrument without a conn too. `channels`: a pattern that each channel's name follows; None: not
    known. `rate(channels, meter)`: default of `sample_rate_hz` for as many channels in use; None:
    has to be declared. `fastest(channels, meter)`: the rate that the driver cannot exceed; None:
    the driver sets no limit. `open_seconds`: finding and opening takes longer than
    `silence_seconds`, up to this. `fixed_settings`: the driver takes no settings while it captures.
    `limits`: settings without which an acquisition ends by itself. `serialcomm`: what the driver
    sets where the inventory says nothing. `refuse_rail`: why a rail of this kind ("volts": volts
    and amps, "amps" alone, "watts", "watt_hours") cannot be of this family, or "". `accuracy`:
    published classes, by name. `power_tap`: it is the rig's own power tap, which switches rails and
    measures their hold-up. `capturer`: a process of joulerig.capturers reads it, not libsigrok.
    `program`: it reads the program that the inventory names. `may_stream`: its instruments can
    stream as well as be polled. `reports_serial`: the driver reports
    the instrument's serial, by which two that are alike are kept apart. `serial_pattern`: a
    regular expression that the serial follows; another instrument is refused with `otherwise`.
    `knows`: the instruments that libsigrok's driver has a profile for; no other one is found.
    `outputs`: a supply's, as the group of a pattern that its channels' names follow, and
    `channel_of` the name of a channel of an output.
    """

    driver: str
    description: str
    transports: tuple[str, ...]
    timing: Timing | None
    samples: Samples
    rate: Callable[[int, Any], float | None]
    fastest: Callable[[int, Any], float | None] = lambda channels, meter: None
    silence_seconds: float = 2.0
    open_seconds: float = 0.0
    fixed_settings: bool = False
    serialcomm: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    settings: Callable[[Any], dict[str, str]] = lambda meter: {}
    limits: dict[str, int] = field(default_factory=dict)
    channels: re.Pattern[str] | None = None
    channels_text: str = ""
    refuse_rail: Callable[[str], str] = lambda kind: ""
    accuracy: dict[str, dict[str, Accuracy]] = field(default_factory=dict)
    power_tap: bool = False
    capturer: bool = False
    program: bool = False
    may_stream: bool = False
    finds_it: bool = False
    reports_serial: bool = False
    serial_pattern: str = ""
    otherwise: str = ""
    knows: str = ""
    outputs: re.Pattern[str] | None = None
    channel_of: Callable[[str], str] = lambda output: output


def transport(connection: str) -> str:
    """Return the kind of libsigrok's conn: "serial" for a device file, else the part before "/"."""
    return "serial" if connection.startswith("/dev/") else connection.split("/", 1)[0].split(".", 1)[0]


def shared_polls(channels: int, meter: object) -> float:
    """Return the readings of each channel per second where a timer reads one channel at a time."""
    return POLL_READINGS_PER_SECOND / max(1, channels)


def no_register(kind: str) -> str:
    """Refuse rails of an energy register, for families whose instruments have none."""
    return "has no energy register" if kind == "watt_hours" else ""


def declared_rate(meter: Any) -> dict[str, str]:
    """Return the setting of the declared rate, for families whose instruments take it."""
    return {"samplerate": f"{meter.sample_rate_hz:g}"}


def bits_per_byte_and_baud(serialcomm: str) -> tuple[int, int]:
    """Parse "9600/8n1": 10 bits a byte (start, 8 data, no parity, 1 stop), 9600 bits a second."""
    baud, frame = serialcomm.split("/")[:2]
    return 1 + int(frame[0]) + (frame[1] != "n") + int(frame[2]), int(baud)
