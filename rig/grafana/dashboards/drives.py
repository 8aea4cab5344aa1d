# SPDX-License-Identifier: GPL-3.0-or-later
"""What several dashboards show of drives."""

from __future__ import annotations

from joulerig.analysis.results.influxdb.schema import POWER, WORKLOAD
from joulerig.rig.grafana.influxql import INTERVAL_SECONDS, Queries
from joulerig.rig.grafana.panels import Panel, Query, over_time

DRIVE, OF_DRIVE = ("host", "drive"), "$tag_host $tag_drive"


def watts(of: Queries) -> Query:
    """Return the sum of each drive's rails."""
    inner = 'mean({watts}) AS "w"'
    return Query(of.over_time(POWER, 'sum("w")', DRIVE, within=inner, within_by=("rail",)), OF_DRIVE)


def operations(of: Queries) -> Panel:
    """Return the panel of the operations of loads."""
    return over_time(
        "Operations of the load",
        "ops",
        "Of the workload program, all classes; an external program has one point, at its end.",
        Query(of.over_time(WORKLOAD, f"sum({{ops}}) / {INTERVAL_SECONDS}", DRIVE), OF_DRIVE),
    )
