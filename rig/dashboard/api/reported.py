# SPDX-License-Identifier: GPL-3.0-or-later
"""What agents on the test hosts reported to InfluxDB last: host, drives' health, clock."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import polars as pl

from joulerig.analysis.results.influxdb.client import Queries, quote_string
from joulerig.rig.dashboard.feed import SECOND

LOAD_NS = 60 * SECOND
BACK_NS = 24 * 3600 * SECOND
OWN_POWER_SECONDS = 600
HEALTH = (
    "temperature_celsius", "percentage_used", "data_units_written_bytes", "media_errors", "unsafe_shutdowns",
    "power_on_hours", "reported_watts",
)  # fmt: skip
LOAD = (
    "cpu_busy_seconds", "agent_cpu_seconds", "memory_used_bytes", "package_joules", "spooled_bytes",
    "dropped_lines", "skipped_ticks",
)  # fmt: skip
KEPT = ("memory_used_bytes", "spooled_bytes", "dropped_lines", "skipped_ticks")


def hosts(influx: Queries, now_ns: int) -> dict[str, dict[str, Any]]:
    """Return by host what its agent reported within a minute, and else when it last did.

    Raises InfluxError.
    """
    found: dict[str, dict[str, Any]] = {}
    last = influx.query(
        f"SELECT last(cpu_busy_seconds) AS cpu_busy_seconds FROM hostload WHERE time >= {now_ns - BACK_NS}"
        " GROUP BY host"
    )
    for row in _rows(last):
        found[row["host"]] = {"age_seconds": (now_ns - row["time"]) / 1e9}
    load = influx.query(
        f"SELECT {', '.join(LOAD)} FROM hostload WHERE time >= {now_ns - LOAD_NS} GROUP BY host"
    )
    by_host: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(load):
        by_host.setdefault(row["host"], []).append(row)
    for host, rows in by_host.items():
        rows.sort(key=lambda row: row["time"])
        found[host] = {
            "age_seconds": (now_ns - rows[-1]["time"]) / 1e9,
            "cpu_busy": _rate(rows, "cpu_busy_seconds"),
            "agent_cpu": _rate(rows, "agent_cpu_seconds"),
            "package_watts": _rate(rows, "package_joules"),
            **{name: rows[-1][name] for name in KEPT},
        }
    return found


def _rate(rows: list[dict[str, Any]], name: str) -> float | None:
    """Return by how much a counter rises a second; None where that is not known."""
    known = [(row["time"], row[name]) for row in rows if row.get(name) is not None]
    if len(known) < 2 or any(after[1] < before[1] for before, after in pairwise(known)):
        return None
    seconds = (known[-1][0] - known[0][0]) / 1e9
    return float((known[-1][1] - known[0][1]) / seconds)


def health(influx: Queries, now_ns: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Return by host and drive what the drive reported of itself last. Raises InfluxError."""
    frame = influx.query(
        f"SELECT {', '.join(HEALTH)} FROM drive_health WHERE time >= {now_ns - BACK_NS}"
        " GROUP BY host, drive ORDER BY time DESC LIMIT 1"
    )
    return {
        (row["host"], row["drive"]): {
            **{name: row.get(name) for name in HEALTH},
            "age_seconds": (now_ns - row["time"]) / 1e9,
        }
        for row in _rows(frame)
    }


def own_power(
    influx: Queries, now_ns: int, health: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return by host and drive the power that drives report of themselves, and their rails'.

    Of the last whole second that a drive had measured when its host asked, by its `health`.
    `rails_watts` is None where no rail was measured then. Only drives that measure themselves.
    Raises InfluxError.
    """
    return {
        (host, drive): {
            "watts": one["reported_watts"],
            "rails_watts": _rails(influx, host, drive, now_ns - round(one["age_seconds"] * 1e9)),
            "age_seconds": one["age_seconds"],
        }
        for (host, drive), one in health.items()
        if one["reported_watts"] is not None and one["age_seconds"] <= OWN_POWER_SECONDS
    }


def _rails(influx: Queries, host: str, drive: str, until_ns: int) -> float | None:
    """Return the mean watts of a drive's rails together in the second before an instant."""
    frame = influx.query(
        f"SELECT mean(watts) AS watts FROM power WHERE time >= {until_ns - SECOND} AND time < {until_ns}"
        f" AND host = {quote_string(host)} AND drive = {quote_string(drive)} GROUP BY meter, rail"
    )
    watts = [row["watts"] for row in _rows(frame) if row.get("watts") is not None]
    return float(sum(watts)) if watts else None


def clocks(influx: Queries, now_ns: int) -> dict[str, dict[str, Any]]:
    """Return by host how far its clock was off, and how sure that is. Raises InfluxError."""
    frame = influx.query(
        f"SELECT clock_offset_ns, clock_error_ns FROM phase WHERE time >= {now_ns - BACK_NS}"
        " GROUP BY host ORDER BY time DESC LIMIT 1"
    )
    return {
        row["host"]: {
            "offset_seconds": _seconds(row, "clock_offset_ns"),
            "error_seconds": _seconds(row, "clock_error_ns"),
            "age_seconds": (now_ns - row["time"]) / 1e9,
        }
        for row in _rows(frame)
    }


def _seconds(row: Mapping[str, Any], name: str) -> float | None:
    return None if row.get(name) is None else row[name] / 1e9


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return list(frame.iter_rows(named=True)) if frame.height else []
