# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the report of flowop's run, sync and replay: the work of a load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joulerig.analysis.results.load_reports.histograms import quantiles


def parse(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the work of a load.

    Every operation counts: open, close, stat, delete and sync too. Latency is that of the syncs
    where there are any, else of all operations, by their classes' histograms taken together. Raises
    KeyError.
    """
    classes = report["classes"] or []
    syncs = [one for one in classes if one["kind"] == "sync" and one["ops"]]
    p50, p99 = quantiles([one["histogram"] or {} for one in syncs or classes], (0.50, 0.99))
    return {
        "ops": report["ops"],
        "read_bytes": report["read_bytes"],
        "write_bytes": report["write_bytes"],
        "syncs": report["syncs"],
        "latency_p50_seconds": p50,
        "latency_p99_seconds": p99,
    }
