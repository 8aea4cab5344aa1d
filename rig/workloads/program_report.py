# SPDX-License-Identifier: GPL-3.0-or-later
"""What the report of a program of others (workloads/programs/) says a load did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joulerig.rig.workloads.performance import Performance

AS_THEY_ARE = (
    "ops",
    "unit",
    "read_bytes",
    "write_bytes",
    "syncs",
    "latency_p50_seconds",
    "latency_p99_seconds",
)


def performance(report: Mapping[str, Any]) -> Performance:
    """The work of a load; what the program does not tell is None. Raises KeyError."""
    figure = report["figure"] or {}
    return Performance(
        **{key: report[key] for key in AS_THEY_ARE},
        figure_name=figure.get("name"),
        figure_unit=figure.get("unit"),
        figure=figure.get("value"),
        figure_better=figure.get("better"),
    )
