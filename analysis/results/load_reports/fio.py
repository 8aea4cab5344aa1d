# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse fio's json+ report: the work of a load, over all of its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from joulerig.analysis.results.load_reports.histograms import quantiles


def parse(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the work of a load.

    ops are read and write operations; an operation's fsync is counted in syncs. Latency is that of
    the fsync where the load calls one, else of the operation (fio's completion latency), over all
    jobs' histograms. Raises ValueError when the report has no job.
    """
    jobs = report.get("jobs") or []
    if not jobs:
        raise ValueError("the report has no job")
    ops = sum(job[way]["total_ios"] for job in jobs for way in ("read", "write"))
    syncs = sum(job.get("sync", {}).get("total_ios", 0) for job in jobs)
    p50, p99 = quantiles(_histograms(jobs, syncs > 0), (0.50, 0.99))
    return {
        "ops": ops,
        "read_bytes": sum(job["read"]["io_bytes"] for job in jobs),
        "write_bytes": sum(job["write"]["io_bytes"] for job in jobs),
        "syncs": syncs,
        "latency_p50_seconds": p50,
        "latency_p99_seconds": p99,
    }


def latency_quantile(report: Mapping[str, Any], fraction: float) -> float | None:
    """Return a quantile of the latency of a load, in seconds; None where it has none."""
    jobs = report.get("jobs") or []
    syncs = any(job.get("sync", {}).get("total_ios", 0) for job in jobs)
    return quantiles(_histograms(jobs, syncs), (fraction,))[0]


def _histograms(jobs: Sequence[Mapping[str, Any]], syncs: bool) -> list[Mapping[str, int]]:
    """Return the histograms of all jobs, of their syncs or of their operations."""
    if syncs:
        return [job.get("sync", {}).get("lat_ns", {}).get("bins", {}) for job in jobs]
    return [job[way].get("clat_ns", {}).get("bins", {}) for job in jobs for way in ("read", "write")]
