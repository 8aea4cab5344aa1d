# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign: its runs with their work per joule, and what happened while they were executed."""

from __future__ import annotations

from joulerig.analysis.results.influxdb.schema import PHASE, PRECONDITION, RESULT
from joulerig.rig.grafana.dashboard import Dashboard, Lab, Regions, Variable
from joulerig.rig.grafana.dashboards.drives import DRIVE, OF_DRIVE, operations, watts
from joulerig.rig.grafana.influxql import Queries, tag_values
from joulerig.rig.grafana.panels import COLUMNS, Panel, Query, figures, over_time, row, table

CELL = ("drive", "filesystem", "scheduler", "workload")
OF_CELL = "$tag_drive $tag_filesystem $tag_scheduler $tag_workload"
_of = Queries(("campaign", "drive"))


def dashboard(lab: Lab) -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        "campaign",
        "Campaign",
        "Runs of a campaign and their work per joule (AI). Comparisons, with what they are worth, are in"
        " the campaign's report alone.",
        variables=(
            Variable("campaign", tag_values("campaign", RESULT), many=False),
            Variable("drive", tag_values("drive", RESULT)),
        ),
        regions=(
            Regions(
                "phases",
                PHASE.name,
                _of.rows(PHASE, '{phase} AS "what", {drive}, {end_ns} / 1000000 AS "finish"'),
                text="what",
                tags=("drive",),
                end="finish",
            ),
            Regions(
                "runs",
                RESULT.name,
                _of.rows(RESULT, '{cell}, {run}, {status}, {end_ns} / 1000000 AS "finish"'),
                text="cell",
                tags=("run", "status"),
                end="finish",
            ),
        ),
        panels=(
            row("Work per joule"),
            *_results(),
            row("While it runs"),
            *_meanwhile(),
        ),
        range="now-6h",
        refresh="30s",
    )


def _results() -> list[Panel]:
    return [
        over_time(
            "Operations per joule of each run",
            "short",
            "AI of each run, at the time at which it began, by combination.",
            Query(_of.over_time(RESULT, "last({ai_ops_per_joule})", CELL), OF_CELL),
            points=True,
        ),
        over_time(
            "Megabytes per joule of each run",
            "short",
            "AI of each run by bytes, at the time at which it began, by combination.",
            Query(_of.over_time(RESULT, "last({ai_mb_per_joule})", CELL), OF_CELL),
            points=True,
        ),
        table(
            "Combinations",
            "Means of the runs that have joules, partial ones too; the report counts those that are"
            " complete, says how sure their means are, and which differ.",
            Query(
                _of.of_range(
                    RESULT,
                    'count({joules}) AS "runs", mean({ai_ops_per_joule}) AS "ops/J",'
                    ' mean({ai_mb_per_joule}) AS "MB/J", mean({mean_watts}) AS "watts",'
                    ' mean({ops_per_second}) AS "ops/s"',
                    CELL,
                )
            ),
            units={"watts": "watt"},
            hidden=("Time", "time"),
        ),
        table(
            "Runs",
            "The newest 500, as the campaign's journal has them. The joules are of the workload phase, with"
            " the least and the most that they can have been.",
            Query(
                _of.rows(
                    RESULT,
                    "{run}, {cell}, {status}, {ai_ops_per_joule}, {joules}, {joules_low}, {joules_high},"
                    " {mean_watts}, {ops}, {seconds}, {reason}",
                    most=500,
                )
            ),
            units={
                "joules": "joule",
                "joules_low": "joule",
                "joules_high": "joule",
                "mean_watts": "watt",
                "seconds": "s",
            },
            height=10,
        ),
        figures(
            "Runs by drive",
            "short",
            "How many have ended, in whatever way.",
            Query(_of.of_range(RESULT, "count({status})", ("drive",)), "$tag_drive"),
        ),
        figures(
            "Energy of the loads by drive",
            "joule",
            "Of the workload phases that are over.",
            Query(_of.of_range(RESULT, "sum({joules})", ("drive",)), "$tag_drive"),
        ),
    ]


def _meanwhile() -> list[Panel]:
    return [
        over_time(
            "Power of the drives",
            "watt",
            "Sum of the rails of a drive that have points, also of drives outside of the campaign.",
            watts(_of),
            width=COLUMNS,
        ),
        operations(_of),
        over_time(
            "Rounds of preconditioning",
            "short",
            "Operations of each round; it is steady when they hardly differ.",
            Query(_of.over_time(PRECONDITION, "last({ops})", DRIVE), OF_DRIVE),
            points=True,
        ),
        over_time(
            "Length of phases",
            "ns",
            "Of each phase that is over, at the time at which it began.",
            Query(
                _of.over_time(
                    PHASE,
                    'last("length")',
                    ("phase",),
                    within='last({end_ns}) - last({start_ns}) AS "length"',
                    within_by=("run",),
                ),
                "$tag_phase",
            ),
            points=True,
            width=COLUMNS,
        ),
    ]
