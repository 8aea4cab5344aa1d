# SPDX-License-Identifier: GPL-3.0-or-later
"""The replies on a twin's control socket (virtuallab/twin)."""

from __future__ import annotations

from typing import Literal

from joulerig.rig.protocols.message import Message


class Rail(Message):
    """A rail of the drive."""

    name: str
    on: bool
    """The rail's switch."""
    volts: float
    amps: float
    joules: float
    """True energy since the twin started."""
    cause_joules: dict[str, float]
    """By cause; they add up to `joules`."""


class Counters(Message):
    """Counts of operations that have completed."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    zeroes: int
    """Write-zeroes operations; `writes` counts them too, as the host's block layer does."""
    zero_bytes: int
    flushes: int
    fua_writes: int
    discards: int
    discard_bytes: int
    throttled_ns: int
    """Time that operations waited because the drive drew its maximum power."""
    busy_ns: int
    """As in `time`, at the last completion."""
    device_bound_ns: int


class Time(Message):
    """Times of operations."""

    busy_ns: int
    """Time with at least one operation present."""
    device_bound_ns: int
    """Time with at least one operation in the drive, up to the end that the model gave it."""
    operations: int
    late_operations: int
    """Handed back later than the model's end by more than a tenth of the model's time."""
    late_ns_total: int
    late_ns_max: int


class Cache(Message):
    """The volatile write cache."""

    capacity_bytes: int
    dirty_bytes: int
    """Volatile at this moment; every version counts."""


class Throttled(Message):
    """A level of thermal throttling, since the drive was new."""

    entered: int
    seconds: float


class Health(Message):
    """Health figures of the drive's life. The last four need a flash model."""

    host_bytes_written: int
    nand_bytes_written: int
    power_cycles: int
    unsafe_shutdowns: int
    power_on_seconds: float
    temperature_celsius: float
    throttle_level: int = 0
    """0: none."""
    throttled: tuple[Throttled, ...] = ()
    """By level."""
    erase_count_mean: float | None = None
    """Since the twin started."""
    erase_count_max: int | None = None
    slc_bytes: int | None = None
    mapped_bytes: int | None = None


class Cut(Message):
    """The reply to `power off`."""

    cut_ns: int
    """Monotonic time of the cut."""
    dirty_bytes: int
    """Bytes that were volatile."""
    lost_bytes: int
    """Volatile bytes that did not reach the medium."""
    lost_sectors: int
    """512-byte sectors that do not hold their newest version."""
    held_up: bool
    """Power-loss protection kept everything."""
    seed: int
    mode: Literal["none", "all", "random", "torn", "reordered"]
    failure: str
    """Why the backing file could not store the data: a fault of the lab, not of the drive."""


class State(Message):
    """The reply to `state`."""

    realtime_ns: int
    monotonic_ns: int
    serial: str
    window_ns: int
    powered: bool
    ready: bool
    """The drive accepts operations."""
    power_cycles: int
    """Of the drive's life, as `unsafe_shutdowns`: kept over restarts of the twin."""
    unsafe_shutdowns: int
    rails: list[Rail]
    counters: Counters
    time: Time
    cache: Cache
    last_cut: Cut | None
    """The reply to the last `power off`."""
    health: Health


class Histogram(Message):
    """Latencies of one kind of operation since the twin started.

    Bin n counts from edges_ns[n] to the next edge; the first and the last bin also hold what lies
    beyond them. Failed operations are in no bin.
    """

    edges_ns: list[float]
    model_counts: list[int]
    """As the model gave them."""
    served_counts: list[int]
    """As they were served."""
    model_ns_total: int
    served_ns_total: int


class Latency(Message):
    """The reply to `latency`."""

    read: Histogram
    write: Histogram
    flush: Histogram
    discard: Histogram


class RailHistory(Message):
    """A rail's cumulative joules at each of the times."""

    name: str
    joules: list[float]
    cause_joules: dict[str, list[float]]


class History(Message):
    """The reply to `history T1 T2 ...`: figures at each of up to 4096 times (real ns)."""

    times_ns: list[int]
    rails: list[RailHistory]
    counters: dict[str, list[int]]
    """Each counter of `state`, by name."""


class PowerOn(Message):
    """The reply to `power on`."""

    on_ns: int


class RailSwitch(Message):
    """The reply to `rail NAME`, `rail NAME off` and `rail NAME on`."""

    rail: str
    on: bool
    switched_ns: int
    """When the switch last changed."""


class Mark(Message):
    """The reply to `mark TEXT`."""

    mark: str


class Error(Message):
    """The reply to a request that cannot be served."""

    error: str
