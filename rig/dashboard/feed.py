# SPDX-License-Identifier: GPL-3.0-or-later
"""Read InfluxDB step by step into windows: watts per rail, I/O rates per drive, phases, losses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from joulerig.analysis.results.influxdb.client import Queries, quote_string
from joulerig.analysis.results.schema import FORMER_PHASES
from joulerig.rig.dashboard.counters import rates
from joulerig.rig.dashboard.window import Window

SECOND = 1_000_000_000
SPAN_NS = 60 * SECOND
POWER_BUCKET_NS = SECOND // 10
IO_BUCKET_NS = SECOND // 2
OVERLAP_NS = (
    SECOND // 2
)  # points of one instant do not all arrive at once: meters and hosts flush on their own
DORMANT_NS = 5 * SECOND  # a series this far behind the newest no longer holds the reading back
SWEEP_EVERY_NS = 10 * SECOND
SWEEP_SPAN_NS = 20 * SECOND  # what came later than the overlap, the next sweep picks up
CATCH_UP_NS = 30 * SECOND  # after an outage spools drain for a while: sweeps then reach back to its start
LONGEST_IO_GAP_SECONDS = 2.0
PHASES_BACK_NS = 6 * 3600 * SECOND

POWER_TAGS = ("host", "drive", "rail", "meter")
IO_TAGS = ("host", "drive")
PHASE_TAGS = ("campaign", "run", "host", "drive", "phase")
COUNTERS = ("reads", "writes", "flushes", "read_bytes", "write_bytes")
TIMES = ("read_seconds", "write_seconds", "flush_seconds")  # of the requests; a kernel may lack some


@dataclass
class Channels:
    """The series seen so far, each with its number."""

    numbers: dict[tuple[str, ...], int] = field(default_factory=dict)
    newest_ns: dict[int, int] = field(default_factory=dict)

    def number_rows(self, frame: pl.DataFrame, tags: tuple[str, ...]) -> np.ndarray:
        """Return the channel number of each row, and note the newest time of each series."""
        for name in tags:
            if name not in frame.columns:
                frame = frame.with_columns(pl.lit(None, pl.String).alias(name))
        # Rows of a series lie together in an answer: numbering the stretches is cheaper than each
        # row.
        ids = frame.select(pl.struct(tags).rle_id().alias("id")).to_series().to_numpy()
        starts = np.flatnonzero(np.r_[True, np.diff(ids) != 0])
        lengths = np.diff(np.r_[starts, len(ids)])
        keys = frame.select(tags)[starts.tolist()].rows()
        numbers = [
            self.numbers.setdefault(tuple(value or "" for value in key), len(self.numbers)) for key in keys
        ]
        newest = np.maximum.reduceat(frame["time"].to_numpy(), starts)
        for number, time_ns in zip(numbers, newest.tolist(), strict=True):
            self.newest_ns[number] = max(time_ns, self.newest_ns.get(number, 0))
        return np.repeat(np.array(numbers, np.int64), lengths)

    def complete_until(self) -> int | None:
        """Return the time up to which every live series has been read."""
        if not self.newest_ns:
            return None
        newest = max(self.newest_ns.values())
        return min(t for t in self.newest_ns.values() if t > newest - DORMANT_NS)


class Outage:
    """A time without InfluxDB, which lasts until spools have had time to drain."""

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._recovered_ns = 0

    def failed(self, now_ns: int) -> None:
        """Note that InfluxDB did not answer. One that fails again soon has spools of before too."""
        self._began_ns, self._recovered_ns = self._began_ns or now_ns, 0

    def since(self, now_ns: int) -> int | None:
        """Return when it began, as InfluxDB is asked again; None if there is none."""
        if self._began_ns is not None and not self._recovered_ns:
            self._recovered_ns = now_ns
        if self._recovered_ns and now_ns - self._recovered_ns > CATCH_UP_NS:
            self._began_ns, self._recovered_ns = None, 0
        return self._began_ns


class Reading:
    """Where to continue reading a measurement: late points are read, other points once or twice."""

    def __init__(self, bucket_ns: int) -> None:
        self.bucket_ns = bucket_ns
        self.channels = Channels()
        self.outage = Outage()
        self._swept_ns = 0

    def start(self, now_ns: int) -> int:
        """Return where to read from now: the start of a bucket inside the window."""
        outage_ns = self.outage.since(now_ns)
        oldest = now_ns - SPAN_NS
        complete = self.channels.complete_until()
        since = oldest if complete is None else complete - OVERLAP_NS
        if complete is not None and now_ns - self._swept_ns > SWEEP_EVERY_NS:
            self._swept_ns = now_ns
            since = min(since, now_ns - SWEEP_SPAN_NS)
            if outage_ns is not None:
                since = min(since, outage_ns - OVERLAP_NS - SWEEP_SPAN_NS)
        return max(since, oldest) // self.bucket_ns * self.bucket_ns


class Power:
    """Watts of each rail: mean, min and max per bucket."""

    def __init__(self) -> None:
        self.reading = Reading(POWER_BUCKET_NS)
        self.window = Window(0, 3, SPAN_NS // POWER_BUCKET_NS)

    @property
    def rails(self) -> list[dict[str, str]]:
        return [dict(zip(POWER_TAGS, key, strict=True)) for key in self.reading.channels.numbers]

    def poll(self, influx: Queries, now_ns: int) -> int:
        """Read what is new; gives the first bucket that may have changed."""
        since = self.reading.start(now_ns)
        # InfluxDB decimates: it costs both sides less than handing over every point. A bucket's
        # mean is the plain mean of its points, which stand for equal intervals; its min and max are
        # the least and the greatest sample of them all, so that no spike is lost.
        frame = influx.query(
            "SELECT mean(watts) AS watts, min(watts_min) AS watts_min, max(watts_max) AS watts_max"
            f" FROM power WHERE time >= {since} AND time < {now_ns + SECOND}"
            f" GROUP BY time({POWER_BUCKET_NS}ns), {', '.join(POWER_TAGS)} fill(none)"
        )
        self.window.advance(now_ns // POWER_BUCKET_NS + 1)
        if frame.height:
            frame = frame.drop_nulls(("watts", "watts_min", "watts_max"))
        if frame.height:
            channel = self.reading.channels.number_rows(frame, POWER_TAGS)
            self.window.grow(len(self.reading.channels.numbers))
            bucket = frame["time"].to_numpy() // POWER_BUCKET_NS
            self.window.put(channel, bucket, frame.select("watts", "watts_min", "watts_max").to_numpy())
        return max(since // POWER_BUCKET_NS, self.window.start)


class IO:
    """I/O rates of each drive, from the last reading of its counters in each bucket."""

    # A bucket's rates: reads/s, writes/s, flushes/s, read MB/s, write MB/s; then the seconds that
    # reads, writes and flushes took, a second. Those by the requests a second are their mean
    # latency, over whatever time a page takes the mean of both.
    COLUMNS = len(COUNTERS) + len(TIMES)
    SCALE = np.array([1.0, 1.0, 1.0, 1e-6, 1e-6])

    def __init__(self) -> None:
        self.reading = Reading(IO_BUCKET_NS)
        self.window = Window(0, 1 + self.COLUMNS, SPAN_NS // IO_BUCKET_NS + 4)
        self.offset_ns: dict[str, int] = {}  # host -> what its clock is short of the controller's

    @property
    def drives(self) -> list[dict[str, str]]:
        return [dict(zip(IO_TAGS, key, strict=True)) for key in self.reading.channels.numbers]

    def poll(self, influx: Queries, now_ns: int) -> int:
        """Read what is new; gives the first bucket that may have changed."""
        since = self.reading.start(now_ns)
        ahead = max(self.offset_ns.values(), default=0)  # how far the controller's clock is before a host's
        frame = influx.query(
            f"SELECT {', '.join((*COUNTERS, *TIMES))} FROM blockio WHERE time >= {since - ahead}"
            f" GROUP BY {', '.join(IO_TAGS)}"
        )
        self.window.advance(now_ns // IO_BUCKET_NS + 1)
        if frame.height:
            frame = frame.drop_nulls(COUNTERS)
        if frame.height and self.offset_ns and "host" in frame.columns:
            offset = pl.col("host").replace_strict(self.offset_ns, default=0, return_dtype=pl.Int64)
            frame = frame.with_columns(time=pl.col("time") + offset)
        if frame.height:
            channel = self.reading.channels.number_rows(frame, IO_TAGS)
            self.window.grow(len(self.reading.channels.numbers))
            time_ns = frame["time"].to_numpy()
            bucket = time_ns // IO_BUCKET_NS
            order = np.lexsort((time_ns, channel))
            last = order[np.flatnonzero(np.r_[np.diff(channel[order]) | np.diff(bucket[order]), 1])]
            counted = frame.select(pl.col(*COUNTERS, *TIMES).cast(pl.Float64)).to_numpy()
            values = np.column_stack((time_ns / 1e9, counted))
            self.window.put(channel[last], bucket[last], values[last])
        return max(since // IO_BUCKET_NS, self.window.start)

    def rates(self, first: int) -> np.ndarray:
        """Return rates[drive, column, bucket] of the buckets from `first` on."""
        back = max(first - 4, self.window.start)  # the reading before the first one lies at most a gap back
        values = self.window.read(back, self.window.end)
        result = np.empty((len(values), self.COLUMNS, values.shape[2]))
        split = 1 + len(COUNTERS)
        for drive, columns in enumerate(values):
            counted = rates(columns[0], columns[1:split], LONGEST_IO_GAP_SECONDS) * self.SCALE[:, None]
            result[drive, : len(COUNTERS)] = counted
            for number in range(split, len(columns)):  # one that is not counted takes no other's rate
                took = rates(columns[0], columns[number : number + 1], LONGEST_IO_GAP_SECONDS)[0]
                result[drive, number - 1] = np.where(np.isnan(counted[0]), np.nan, took)
        return result[:, :, first - back :]


class Phases:
    """The phases of runs in the window; one still open has no end."""

    def __init__(self) -> None:
        self.bands: dict[tuple[str, ...], dict[str, Any]] = {}
        self.offset_ns: dict[str, int] = {}
        self.outage = Outage()
        self._looked_back = False

    def poll(self, influx: Queries, now_ns: int) -> None:
        # A phase's end overwrites the point at its start, so reading reaches back to the oldest
        # open phase, and to those that began while InfluxDB was away.
        opened = [band["start_ns"] for band in self.bands.values() if band["end_ns"] is None]
        if (outage_ns := self.outage.since(now_ns)) is not None:
            opened.append(outage_ns)
        since = min([now_ns - 2 * SPAN_NS, *(start - 10 * SECOND for start in opened)])
        since = max(since, now_ns - PHASES_BACK_NS)
        if not self._looked_back:
            since = now_ns - PHASES_BACK_NS
        frame = influx.query(
            f"SELECT start_ns, end_ns, clock_offset_ns FROM phase WHERE time >= {since}"
            f" GROUP BY {', '.join(PHASE_TAGS)}"
        )
        self._looked_back = True
        for row in frame.sort("time").iter_rows(named=True) if frame.height else ():
            band = {tag: row.get(tag) or "" for tag in PHASE_TAGS}
            band["phase"] = FORMER_PHASES.get(band["phase"], band["phase"])
            start_ns = row["start_ns"] if row["start_ns"] is not None else row["time"]
            self.bands[tuple(band.values())] = band | {"start_ns": start_ns, "end_ns": row["end_ns"]}
            if row["clock_offset_ns"] is not None:
                self.offset_ns[band["host"]] = row["clock_offset_ns"]
        self.bands = tidy(self.bands, now_ns)

    def close(self, ended_ns: dict[str, int]) -> None:
        """End the open phases of runs that are over: a host that was lost wrote no end."""
        for band in self.bands.values():
            if band["end_ns"] is None and band["run"] in ended_ns:
                band["end_ns"] = max(ended_ns[band["run"]], band["start_ns"])


def tidy(bands: dict[tuple[str, ...], dict[str, Any]], now_ns: int) -> dict[tuple[str, ...], dict[str, Any]]:
    """End an open phase where its drive's next one began, and forget what ended before the window.

    Phases of a run that is still going stay: the page shows how long each took. A host may have
    runs of several drives at once.
    """
    by_drive: dict[tuple[str, str], list[dict[str, Any]]] = {}
    newest: dict[str, dict[str, Any]] = {}  # by host
    for band in sorted(bands.values(), key=lambda band: band["start_ns"]):
        by_drive.setdefault((band["host"], band.get("drive", "")), []).append(band)
        newest[band["host"]] = band
    current = {band["run"] for band in newest.values()}
    for drive_bands in by_drive.values():
        for band, after in pairwise(drive_bands):
            if band["end_ns"] is None:
                band["end_ns"] = after["start_ns"]
        if drive_bands[-1]["end_ns"] is None:
            current.add(drive_bands[-1]["run"])
    return {
        key: band
        for key, band in bands.items()
        if band["run"] in current or band["end_ns"] is None or band["end_ns"] > now_ns - SPAN_NS
    }


class Rounds:
    """The rounds of preconditions that are on their way: operations a second and watts."""

    def __init__(self) -> None:
        self.by_run: dict[str, list[dict[str, Any]]] = {}

    def poll(self, influx: Queries, runs: Iterable[str]) -> None:
        known, self.by_run = self.by_run, {}
        for run in runs:
            frame = influx.query(
                f"SELECT number, ops, start_ns, end_ns FROM precondition WHERE run = {quote_string(run)}"
                " GROUP BY host, drive"
            )
            before = {one["number"]: one for one in known.get(run, ())}
            made = frame.drop_nulls().sort("number").iter_rows(named=True) if frame.height else ()
            self.by_run[run] = [_with_watts(influx, row, before.get(row["number"])) for row in made]


def _with_watts(influx: Queries, row: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return a round as the page shows it, keeping what was found `before`."""
    if before and before["watts"] is not None:
        return before
    frame = influx.query(
        f"SELECT mean(watts) AS watts FROM power WHERE host = {quote_string(row['host'])}"
        f" AND drive = {quote_string(row['drive'])} AND time > {row['start_ns']} AND time <= {row['end_ns']}"
        " GROUP BY meter, rail"
    )
    watts = frame["watts"].sum() if frame.height else None
    seconds = (row["end_ns"] - row["start_ns"]) / 1e9
    return {"number": row["number"], "iops": row["ops"] / seconds, "watts": watts}


class Loads:
    """The newest second of each load that runs: operations and quantiles of latency by class."""

    BACK_NS = 10 * SECOND
    FIELDS = "class_NAME_(ops|seconds|p50_seconds|p99_seconds|max_seconds)"

    def __init__(self) -> None:
        self.newest: list[dict[str, Any]] = []

    def poll(self, influx: Queries, now_ns: int, offset_ns: Mapping[str, int]) -> None:
        """Read it. `offset_ns`: as of `IO`, for the times are of the hosts' clocks."""
        ahead = max(offset_ns.values(), default=0)
        fields = self.FIELDS.replace("NAME", r"\w+?")
        frame = influx.query(
            f"SELECT ops, /^{fields}$/ FROM workload WHERE time >= {now_ns - self.BACK_NS - ahead}"
            " GROUP BY host, drive, run ORDER BY time DESC LIMIT 1"
        )
        self.newest = []
        for row in frame.iter_rows(named=True) if frame.height else ():
            age_ns = now_ns - row["time"] - offset_ns.get(row["host"], 0)
            if age_ns > self.BACK_NS:
                continue
            load = {name: row[name] for name in ("host", "drive", "run")}
            self.newest.append({**load, "age_seconds": round(age_ns / 1e9, 1), "classes": self._classes(row)})

    def _classes(self, row: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """Return the figures of each class that had an operation."""
        pattern = re.compile(self.FIELDS.replace("NAME", r"(\w+?)"))
        found: dict[str, dict[str, float]] = {}
        for name, value in row.items():
            if value is not None and (part := pattern.fullmatch(name)):
                found.setdefault(part[1], {})[part[2].removesuffix("_seconds")] = value
        return {name: one for name, one in sorted(found.items()) if one.get("ops")}


class Ledger:
    """The newest point of each rail: volts, amps, and what the meter lost."""

    FIELDS = ("volts", "amps", "lost", "expected", "gap_seconds", "clock_residual_seconds")
    BACK_NS = 3 * SECOND

    def __init__(self) -> None:
        self.rails: dict[tuple[str, ...], dict[str, Any]] = {}

    def poll(self, influx: Queries, now_ns: int) -> None:
        frame = influx.query(
            f"SELECT {', '.join(self.FIELDS)} FROM power WHERE time >= {now_ns - self.BACK_NS}"
            f" GROUP BY {', '.join(POWER_TAGS)} ORDER BY time DESC LIMIT 1"
        )
        for row in frame.iter_rows(named=True) if frame.height else ():
            key = tuple(row.get(tag) or "" for tag in POWER_TAGS)
            # InfluxDB 1.x stores a point field by field: a reader may see one that is half there.
            there = {name: row[name] for name in self.FIELDS if row[name] is not None}
            self.rails[key] = self.rails.get(key, dict.fromkeys(self.FIELDS)) | there

    def state(self, rail: dict[str, str]) -> dict[str, Any]:
        """Return the newest values of a rail, empty where it has none."""
        known = self.rails.get(tuple(rail.values()))
        if known is None:
            return {}
        lost, expected = known["lost"], known["expected"]
        return {
            "volts": known["volts"],
            "amps": known["amps"],
            "lost_percent": 100 * lost / expected if expected and lost is not None else None,
            "gap_seconds": known["gap_seconds"],
            "clock_residual_seconds": known["clock_residual_seconds"],
        }
