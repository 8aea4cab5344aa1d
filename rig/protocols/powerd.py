# SPDX-License-Identifier: GPL-3.0-or-later
"""powerd's configuration, and the replies on its status socket (collectors/powerd)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from joulerig.rig.protocols.message import Influx, Message


class Correction(Message):
    """Calibration of a channel, in SI units: corrected = gain x reading + offset."""

    gain: float
    offset: float


class RailChannels(Message):
    """A rail, and the meter's channels that measure it.

    It has volts and amps, amps and constant_volts, or watts, or, in a meter that is polled,
    watt_hours. volts_meter needs amps that are polled.
    """

    rail: str
    host: str
    drive: str
    volts: str = ""
    volts_meter: str = ""
    """The meter that has the volts' channel; empty: this one."""
    constant_volts: float = 0
    """Volts that are stated instead of measured, with amps alone; 0: they are measured."""
    volts_tolerance: float = 0
    """How far the stated volts can be off; it is in the bounds of the joules."""
    amps: str = ""
    watts: str = ""
    watt_hours: str = ""
    greatest_watts: float = 0
    """What the rail's supply delivers at most; 0: not known."""


class Expected(Message):
    """What the declared instrument reports; with another one the meter is `failed`."""

    serial: str = ""
    """Its serial; an instrument that reports none passes."""
    serial_pattern: str = ""
    """A regular expression that its serial follows."""
    otherwise: str = ""
    """What to say of one that does not."""


class Meter(Message):
    """A meter."""

    name: str
    driver: str
    """libsigrok's driver, or the capturer's, with its options after colons."""
    capturer: list[str] = Field(default_factory=list)
    """The program that reads the instrument instead of srcap, with its first arguments; it takes
    srcap's other arguments and writes frames to stdout. Empty: srcap."""
    connection_link: str = ""
    """A link in /dev, resolved at each start, in the place of `{link}` in driver."""
    expected: Expected = Field(default_factory=Expected)
    """What the instrument has to report of itself."""
    sample_rate_hz: float
    """Of a polled meter: readings of each channel per second."""
    samples: Literal["window-mean", "point"]
    """Energy is the sum of window means, or the trapezoid rule over points."""
    bandwidth_hz: float = 0
    """Greatest frequency that an instrument of points passes; 0: not known."""
    timing: Literal["stream", "poll"] = "stream"
    """Samples at the device's own steady rate, or readings on request."""
    silence_seconds: float = 2
    """Without samples for this long, srcap is restarted."""
    clock_ppm: float = 0
    """The sample clock is off its rate by this at most; 0: as a crystal, 100."""
    open_seconds: float = 0
    """Finding and opening the instrument may take so long; 0: silence_seconds."""
    fixed_settings: bool = False
    """The instrument takes no settings while it captures."""
    set: dict[str, str] = Field(default_factory=dict)
    """Settings of the instrument, as srcap's `--set` takes them."""
    calibration: dict[str, Correction] = Field(default_factory=dict)
    """By channel."""
    full_scale: dict[str, float] = Field(default_factory=dict)
    """By channel: a reading of this magnitude or more, before calibration, is over range."""
    calibration_serial: str = ""
    """Serial of the calibrated instrument; with another one the meter is `failed`."""
    rails: list[RailChannels]


class Config(Message):
    """The file that `--config` names."""

    state_dir: str
    srcap: str = "build/srcap"
    """Path of the program."""
    status_socket: str = ""
    """Path; empty: `state_dir/status.sock`."""
    recordings_dir: str = ""
    """Folder that has all recordings, in it or below; empty: none is taken."""
    clock_listen: str = ""
    """UDP address of the SNTP server; empty: none."""
    points_per_second: float = 100
    influx: Influx
    meters: list[Meter]


class InstrumentIdentity(Message):
    """Identity of an instrument, as it reports it; empty until it is open."""

    vendor: str
    model: str
    version: str
    serial: str


class RailStatus(Message):
    """A rail, up to its last point. Volts, amps and watts are that point's means."""

    rail: str
    host: str
    drive: str
    volts: float
    amps: float
    watts: float
    watts_min: float
    watts_max: float
    joules: float
    """Cumulative within a session."""
    joules_low: float | None
    """Lower bound of the joules; null: power was bounded by nothing for some time."""
    joules_high: float | None
    samples: int
    lost: int


class MeterStatus(Message):
    """A meter. Its counts are those of the rail that is furthest behind.

    While it is not streaming, lost and gap_seconds grow with the time since its last sample.
    """

    name: str
    driver: str
    instrument: InstrumentIdentity
    timing: Literal["stream", "poll"]
    state: Literal["starting", "streaming", "silent", "failed"]
    reason: str
    """Why it is silent or failed."""
    samples: int
    expected: int
    lost: int
    duplicate: int
    repeated: int
    over_range: int
    impossible: int
    surplus: int
    gap_seconds: float
    worst_gap_seconds: float
    restarts: int
    """Starts of srcap after the first one."""
    clock_residual_seconds: float
    clock_drift_ppm: float
    sample_rate_hz: float
    """As configured."""
    observed_rate_hz: float
    """As received; 0 while unknown."""
    recording: str
    """Path of the file that its samples are recorded to; empty: none."""
    rails: list[RailStatus]


class WriterStatus(Message):
    """The InfluxDB writer."""

    written_lines: int
    sent_lines: int
    """Acknowledged by the server."""
    rejected_lines: int
    """Refused by the server, or torn by a crash; kept in `rejected.lp`."""
    resent_lines: int
    """Sent again to a server that was restarted."""
    spooled_bytes: int
    last_error: str
    dropped_lines: int
    """Neither sent nor spooled."""


class Status(Message):
    """The reply to `GET /status`."""

    session: str
    """Joule counters start at 0 with it."""
    meters: list[MeterStatus]
    writer: WriterStatus


class RailSamples(Message):
    """A rail's last samples: volts and amps, or what is measured of it; null: it did not come."""

    meter: str
    rail: str
    sample_rate_hz: float
    start_ns: int
    """UTC of the first sample; 0 while its time is not known."""
    complete: bool
    """As many as were asked for, or as are kept at most."""
    constant_volts: float = 0
    """The volts, where they are stated."""
    volts: list[float | None] = Field(default_factory=list)
    amps: list[float | None] = Field(default_factory=list)
    watts: list[float | None] = Field(default_factory=list)


class Samples(Message):
    """The reply to `GET /samples`."""

    rails: list[RailSamples]


class SettingRequest(Message):
    """A request to change a setting of an instrument while it is captured."""

    meter: str
    key: str
    """libsigrok's name of the setting, below its group of channels: `2.enabled`."""
    value: str


class RecordingRequest(Message):
    """A request to record volts and amps of a meter at the full rate."""

    meter: str
    path: str
    """Absolute path of the Parquet file."""
    max_bytes: int = 0


class LastSample(Message):
    """The last sample of a rail in the file."""

    rail: int
    """Position in the file's list of rails."""
    stream: int
    index: int


class Recording(Message):
    """A recording that has ended."""

    path: str
    bytes: int
    recorded: int
    """Samples in the file."""
    dropped: int
    """Samples that the disk was too slow for."""
    cut: int
    """Samples after `max_bytes` was reached, or after the disk failed."""
    truncated: bool
    """`max_bytes` was reached."""
    error: str = ""
    """Why the recording ended early, if the disk was the reason."""
    recovered: bool
    """Of a file that a crash left: the counts are those of its last row group."""
    last: list[LastSample] | None
    """Of each rail that has samples."""
