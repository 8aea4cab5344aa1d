# SPDX-License-Identifier: GPL-3.0-or-later
"""What fio's json+ report says a load did, over all of its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def performance(report: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The journal's `performance` row (without `run`) of a load that took `seconds`.

    ops are read and write operations; an operation's fsync is counted in syncs. Latency is that of the fsync
    where the load calls one, else of the operation (fio's completion latency), over all jobs' histograms.
    Raises ValueError when the report has no job.
    """
    jobs = report.get("jobs") or []
    if not jobs:
        raise ValueError("the report has no job")
    ops = sum(job[way]["total_ios"] for job in jobs for way in ("read", "write"))
    read_bytes = sum(job["read"]["io_bytes"] for job in jobs)
    write_bytes = sum(job["write"]["io_bytes"] for job in jobs)
    syncs = sum(job.get("sync", {}).get("total_ios", 0) for job in jobs)
    if syncs:
        histograms = [job.get("sync", {}).get("lat_ns", {}).get("bins", {}) for job in jobs]
    else:
        histograms = [
            job[way].get("clat_ns", {}).get("bins", {}) for job in jobs for way in ("read", "write")
        ]
    p50, p99 = quantiles(histograms, (0.50, 0.99))
    return {
        "seconds": seconds,
        "ops": ops,
        "read_bytes": read_bytes,
        "write_bytes": write_bytes,
        "syncs": syncs,
        "ops_per_second": ops / seconds,
        "mb_per_second": (read_bytes + write_bytes) / 1e6 / seconds,
        "latency_p50_seconds": p50,
        "latency_p99_seconds": p99,
    }


def quantiles(histograms: Iterable[Mapping[str, int]], fractions: Iterable[float]) -> list[float | None]:
    """Quantiles, in seconds, of several histograms {ns: count} taken together; None where all are empty."""
    merged: dict[int, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            merged[int(value)] = merged.get(int(value), 0) + count
    total = sum(merged.values())
    found: list[float | None] = []
    for fraction in fractions:
        seen = 0
        answer = None
        for value in sorted(merged):
            seen += merged[value]
            if seen >= fraction * total:
                answer = value / 1e9
                break
        found.append(answer)
    return found
