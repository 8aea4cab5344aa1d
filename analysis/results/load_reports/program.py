# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the report of an external program (workloads/programs/): the work of a load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COPIED = (
    "ops",
    "unit",
    "read_bytes",
    "write_bytes",
    "syncs",
    "latency_p50_seconds",
    "latency_p99_seconds",
)


def parse(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the work of a load; what the program does not report is None. Raises KeyError."""
    figure = report["figure"] or {}
    return {
        **{key: report[key] for key in COPIED},
        "figure_name": figure.get("name"),
        "figure_unit": figure.get("unit"),
        "figure": figure.get("value"),
        "figure_better": figure.get("better"),
    }
