# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report of flowop's run, sync and replay says a load did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joulerig.rig.workloads.performance import Performance, quantiles


def performance(report: Mapping[str, Any]) -> Performance:
    """The work of a load.

    Every operation counts: open, close, stat, delete and sync too. Latency is that of the syncs where there
    are any, else of all operations, by their classes' histograms taken together. Raises KeyError.
    """
    of_classes = report["classes"] or []
    syncs = [one for one in of_classes if one["kind"] == "sync" and one["ops"]]
    p50, p99 = quantiles([one["histogram"] or {} for one in syncs or of_classes], (0.50, 0.99))
    return Performance(
        ops=report["ops"],
        read_bytes=report["read_bytes"],
        write_bytes=report["write_bytes"],
        syncs=report["syncs"],
        latency_p50_seconds=p50,
        latency_p99_seconds=p99,
    )
