# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare InfluxDB's measurements, their tags, and their fields with type, unit and meaning.

This is the only such declaration. The types by which the client reads a column and the reference
page are made from it; tests hold powerd, iod, flowop and the test hosts to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import polars as pl

VERSION = 1


class FieldType(Enum):
    """A field's type in the line protocol. It never changes: InfluxDB refuses points of another."""

    FLOAT = "float"
    INTEGER = "integer"
    STRING = "string"

    @property
    def frame_type(self) -> type[pl.DataType]:
        """Return the type of the column in which the field is read."""
        return {"float": pl.Float64, "integer": pl.Int64, "string": pl.String}[self.value]


@dataclass(frozen=True)
class InfluxField:
    """A field. `NAME` in its name stands for that of a class of operations."""

    name: str
    type: FieldType
    unit: str
    meaning: str

    @property
    def pattern(self) -> str:
        """Return a regular expression that matches the names of the field."""
        return self.name.replace("NAME", r"\w+?")


class Writer(Enum):
    """The only account that writes a measurement: InfluxDB 1.x grants rights by database."""

    POWERD = "power"
    CAMPAIGN = "results"
    HOST = "host"

    def database(self, base: str, host: str = "") -> str:
        """Return the name of this writer's database in a lab; `host`: the writing test host.

        >>> Writer.POWERD.database("joulerig"), Writer.HOST.database("joulerig", "bench1")
        ('joulerig_power', 'joulerig_host_bench1')
        """
        return f"{base}_host_{host}" if self is Writer.HOST else f"{base}_{self.value}"


def databases(base: str, hosts: Iterable[str]) -> list[str]:
    """Return the names of all databases of a lab."""
    own = [Writer.HOST.database(base, host) for host in hosts]
    return [Writer.POWERD.database(base), Writer.CAMPAIGN.database(base), *own]


@dataclass(frozen=True)
class Measurement:
    """A measurement. `about`: Markdown that follows its table."""

    name: str
    tags: tuple[str, ...]
    fields: tuple[InfluxField, ...]
    about: str = ""
    writer: Writer = Writer.HOST


def _float(name: str, unit: str, meaning: str) -> InfluxField:
    return InfluxField(name, FieldType.FLOAT, unit, meaning)


def _integer(name: str, unit: str, meaning: str) -> InfluxField:
    return InfluxField(name, FieldType.INTEGER, unit, meaning)


POWER = Measurement(
    "power",
    ("meter", "rail", "host", "drive"),
    (
        _float("volts", "V", "mean since the last point"),
        _float("amps", "A", "mean since the last point"),
        _float("watts", "W", "mean since the last point"),
        _float("watts_min", "W", "least sample since the last point"),
        _float("watts_max", "W", "greatest sample since the last point"),
        _float("joules", "J", "energy of the session up to the time of the point"),
        _float("joules_low", "J", "the same with the least that gaps can have added"),
        _float("joules_high", "J", "the same with the most that gaps can have added"),
        _integer("samples", "", "slots of the device's clock that are in `joules`"),
        _integer("expected", "", "slots that have passed, in whatever book"),
        _integer("lost", "", "slots for which nothing came"),
        _integer("duplicate", "", "slots filled by a block that had come before"),
        _integer("repeated", "", "slots read again before the instrument had measured again"),
        _integer("over_range", "", "slots in which the instrument was over range"),
        _integer("impossible", "", "slots of far more power than the rail's supply delivers"),
        _integer("surplus", "", "samples beyond the time that passed; they are in no slot"),
        _float("gap_seconds", "s", "time without measurement"),
        _float("unbounded_seconds", "s", "time in neither `joules_low` nor `joules_high`"),
        _float("clock_residual_seconds", "s", "how far the time can be off the controller's clock"),
        InfluxField("session", FieldType.STRING, "", "counters start at 0 with it"),
    ),
    """\
Counters are cumulative within a session.

A point has the time of the end of its last sample; `joules` is the session's energy up to then.
Where a stream of samples begins (the first of a session, and each one after a gap) there is a point
at the beginning of its first sample. It has the counters and no volts, amps or watts. The first one
of a session has 0 joules. One after a gap has the joules of the point before it, so that a gap is
never spread over measured time.

`joules_low` and `joules_high` use the powers that the rail was seen to draw, and for the time over
range and between the readings of a polled meter those from 0 to what its supply delivers. Else they
equal `joules`. They bound an interval over which `unbounded_seconds` does not rise. A rail that is
a power channel or an energy register has no volts and amps. Details:
[powerd](../../collectors/powerd/README.md).
""",
    Writer.POWERD,
)
POWER_10S = Measurement(
    "power_10s",
    POWER.tags,
    (
        _float("measured_joules", "J", "energy of the ten seconds, of what was measured of them"),
        _float("measured_seconds", "s", "how much of the ten seconds was measured"),
        _float("watts_min", "W", "least sample"),
        _float("watts_max", "W", "greatest sample"),
        _float("gap_seconds", "s", "time without measurement, in the session up to then"),
    ),
    """\
The same rails in steps of ten seconds, for views of hours to months. A point has the time of the
last point of `power` in the ten seconds (counted from 1970), or of the stream's last one. Mean
watts over a time are the sum of `measured_joules` by the sum of `measured_seconds`.
""",
    Writer.POWERD,
)
BLOCKIO = Measurement(
    "blockio",
    ("host", "drive"),
    (
        _integer("reads", "", "read requests"),
        _integer("read_bytes", "B", "bytes read"),
        _float("read_seconds", "s", "sum of the read requests' times"),
        _integer("writes", "", "write requests"),
        _integer("write_bytes", "B", "bytes written"),
        _float("write_seconds", "s", "sum of the write requests' times"),
        _integer("flushes", "", "flush requests"),
        _float("flush_seconds", "s", "sum of the flush requests' times"),
        _integer("discards", "", "discard requests"),
        _integer("discard_bytes", "B", "bytes discarded"),
        _integer("in_flight", "", "requests under way at the time of the point"),
        _float("busy_seconds", "s", "time in which at least one request was under way"),
    ),
    """\
The counts are those of the kernel's block layer: an empty flush request counts in `writes` too,
with no bytes.
""",
)
FSJOURNAL = Measurement(
    "fsjournal",
    ("host", "drive", "filesystem"),
    (
        _integer("transactions", "", "jbd2's, since the mount"),
        _integer("blocks_logged", "", "derived; low by less than one block per transaction"),
    ),
)
DRIVE_HEALTH = Measurement(
    "drive_health",
    ("host", "drive"),
    (
        _float("temperature_celsius", "°C", "temperature that the drive reports"),
        _float("percentage_used", "%", "wear that the drive estimates"),
        _integer("data_units_read_bytes", "B", "bytes read over the drive's life"),
        _integer("data_units_written_bytes", "B", "bytes written over the drive's life"),
        _integer("media_errors", "", "errors of the medium"),
        _integer("unsafe_shutdowns", "", "losses of power without a warning"),
        _integer("power_on_hours", "h", "hours with power"),
        _float("lifetime_joules", "J", "energy over the drive's life, by its count of watt-hours (NVMe 2.1)"),
        _float("reported_watts", "W", "power of the last second, as the drive measures it"),
        _float("measured_watts", "W", "mean of the drive's measurement that a host started last"),
        _integer("measurement_seconds", "s", "length of that measurement"),
        _float("stated_error_percent", "%", "error of its power that the drive states"),
        _integer("nand_bytes_written", "B", "bytes written to its flash (OCP's log C0h)"),
        _float("capacitor_percent", "%", "health of its power-loss protection (OCP's log C0h)"),
    ),
)
HOSTLOAD = Measurement(
    "hostload",
    ("host",),
    (
        _float("cpu_busy_seconds", "s", "of all processors"),
        _float("agent_cpu_seconds", "s", "of iod"),
        _integer("memory_used_bytes", "B", "memory in use"),
        _float("package_joules", "J", "RAPL's counter, where there is one"),
        _integer("spooled_bytes", "B", "what iod keeps for InfluxDB"),
        _integer("dropped_lines", "", "points that iod could not keep, or InfluxDB refused"),
        _integer("skipped_ticks", "", "points that iod was too late for"),
    ),
)
WORKLOAD = Measurement(
    "workload",
    ("host", "drive", "run"),
    (
        _integer("ops", "", "operations of the interval, of all classes"),
        _integer("read_bytes", "B", "bytes read in the interval"),
        _integer("write_bytes", "B", "bytes written in the interval"),
        _integer("class_NAME_ops", "", "operations of one class"),
        _integer("class_NAME_bytes", "B", "bytes of one class"),
        _float("class_NAME_seconds", "s", "sum of its latencies over all threads"),
        _float("class_NAME_p50_seconds", "s", "median of its latencies"),
        _float("class_NAME_p95_seconds", "s", "95 % quantile of its latencies"),
        _float("class_NAME_p99_seconds", "s", "99 % quantile of its latencies"),
        _float("class_NAME_p999_seconds", "s", "99.9 % quantile of its latencies"),
        _float("class_NAME_max_seconds", "s", "the greatest of its latencies"),
    ),
    """\
A point reports what a load did since the point before or, for the first of its run, since the load
began. Classes are `read`, `append`, `fsync`, `open` and so on ([Workloads](workloads.md)).
Quantiles are missing where there was no operation.

- **fio** writes one point a second, with `ops`, `read_bytes` and `write_bytes`.
- **flowop** writes one point an interval (1 s), at its end, also for a second without an operation.
- **An external program** has one point, at its end, with those of the fields that it counts.
""",
)
PRECONDITION = Measurement(
    "precondition",
    ("host", "drive", "run"),
    (
        _integer("number", "", "number of the round"),
        _integer("at_most", "", "most rounds"),
        _integer("ops", "", "its operations"),
        _integer("start_ns", "ns", "its beginning, controller's time"),
        _integer("end_ns", "ns", "its end, controller's time"),
    ),
    """\
A point reports a round that was loaded onto a raw drive before the run. `phase` is then `purge`,
`passes` or `rounds`, before the run's own phases.
""",
)
PHASE = Measurement(
    "phase",
    ("campaign", "run", "host", "drive", "phase"),
    (
        _integer("start_ns", "ns", "when the phase began, controller's time"),
        _integer("end_ns", "ns", "when the phase ended, controller's time"),
        _integer("clock_offset_ns", "ns", "controller's clock minus the host's"),
        _integer("clock_error_ns", "ns", "half of the shortest round trip"),
    ),
    """\
A point has the time at which its phase was announced. It is written when the phase begins (without
`end_ns`) and again, with the same tags and time, when it ends. At the end, `start_ns` is exact:
that of the workload is the first I/O of its tool.
""",
)
RESULT = Measurement(
    "result",
    ("campaign", "run", "host", "drive", "filesystem", "scheduler", "workload"),
    (
        InfluxField("status", FieldType.STRING, "", "what became of the run"),
        InfluxField("reason", FieldType.STRING, "", "why, where it is not ok"),
        InfluxField("cell", FieldType.STRING, "", "its combination, equal for replicates"),
        _integer("start_ns", "ns", "when the run began, controller's time"),
        _integer("end_ns", "ns", "when it ended, controller's time"),
        _float("seconds", "s", "length of its workload phase"),
        _integer("ops", "", "operations of that phase"),
        _float("ops_per_second", "1/s", "operations per second"),
        _float("mb_per_second", "MB/s", "bytes read and written per second"),
        _float("joules", "J", "energy of that phase, all rails of the drive"),
        _float("joules_low", "J", "the least that it can have been"),
        _float("joules_high", "J", "the most that it can have been"),
        _float("mean_watts", "W", "mean power of that phase"),
        _float("ai_ops_per_joule", "1/J", "AI: operations per joule"),
        _float("ai_mb_per_joule", "MB/J", "AI: megabytes per joule"),
    ),
    """\
A point is a copy of what the journal has of a run, for dashboards; the journal is what counts. It
has the time at which the run began. It is written when the run ends, and again, with the same tags
and time, when `rig settle` completes it. A run that is executed again has a second point. A field
is missing where the journal has no value.
""",
    Writer.CAMPAIGN,
)
MEASUREMENTS = {
    one.name: one
    for one in (
        POWER,
        POWER_10S,
        BLOCKIO,
        FSJOURNAL,
        DRIVE_HEALTH,
        HOSTLOAD,
        WORKLOAD,
        PRECONDITION,
        PHASE,
        RESULT,
    )
}

_BY_NAME: Mapping[str, FieldType] = {
    **{tag: FieldType.STRING for one in MEASUREMENTS.values() for tag in one.tags},
    "measurement": FieldType.STRING,
    **{field.name: field.type for one in MEASUREMENTS.values() for field in one.fields},
}
_OF_CLASSES = [(re.compile(field.pattern), field.type) for field in WORKLOAD.fields if "NAME" in field.name]


def column_type(name: str) -> type[pl.DataType] | None:
    """Return the type in which a tag or field is read; None for a name that is not declared.

    >>> column_type("class_fsync_p99_seconds"), column_type("class_fsync_ops"), column_type("mine")
    (Float64, Int64, None)
    """
    if name in _BY_NAME and "NAME" not in name:
        return _BY_NAME[name].frame_type
    return next((kind.frame_type for pattern, kind in _OF_CLASSES if pattern.fullmatch(name)), None)


def reference_page() -> str:
    """Return the reference page of the measurements as Markdown."""
    parts = [
        f"""\
# InfluxDB schema, version {VERSION}

<!-- Made by `python -m joulerig.analysis.results.influxdb docs/reference/influxdb.md`. -->

Counters are cumulative where the world is cumulative: a lost point then loses no energy and no I/O.
Times are UTC ns; units are in the names. Several fields of one instant share a line. Types never
change.

A lab has several databases, so that no account can write what another measures. NAME is
`influxdb.database` of the inventory, HOST a test host
([InfluxDB](../how-to/own-bench.md#influxdb)).
"""
    ]
    parts += [_section(one) for one in MEASUREMENTS.values()]
    parts.append(
        """\
How the joules of a run and their bounds come from these points:
[How a joule is made](../explanation/energy.md).
"""
    )
    return "\n".join(parts)


def _section(one: Measurement) -> str:
    tags = ", ".join(f"`{tag}`" for tag in one.tags)
    rows = [
        f"| `{field.name}` | {field.type.value} | {field.unit} | {field.meaning} |" for field in one.fields
    ]
    table = "\n".join(["| field | type | unit | meaning |", "|---|---|---|---|", *rows])
    about = f"\n{one.about}" if one.about else ""
    database = one.writer.database("NAME", "HOST")
    return f"## `{one.name}`\n\nDatabase: `{database}`.\n\nTags: {tags}.\n\n{table}\n{about}"
