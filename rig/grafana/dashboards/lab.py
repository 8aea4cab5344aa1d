# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: what drives draw and do, what is lost, and how the programs that measure are."""

from __future__ import annotations

from joulerig.analysis.results.influxdb.schema import (
    BLOCKIO,
    DRIVE_HEALTH,
    FSJOURNAL,
    HOSTLOAD,
    PHASE,
    POWER,
    WORKLOAD,
)
from joulerig.rig.grafana.dashboard import Dashboard, Lab, Variable
from joulerig.rig.grafana.dashboards.drives import DRIVE, OF_DRIVE, operations, watts
from joulerig.rig.grafana.influxql import Queries, tag_values
from joulerig.rig.grafana.panels import AGE, Panel, Query, figures, over_time, row, table

RAIL, HOST = ("host", "drive", "rail"), ("host",)
OF_RAIL, OF_HOST = "$tag_host $tag_drive $tag_rail", "$tag_host"
_of = Queries(("host", "drive"))


def dashboard(lab: Lab) -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        "lab",
        "Lab",
        "Power, I/O, health, losses, clocks and services of the lab.",
        variables=(
            Variable("host", tag_values("host", POWER)),
            Variable("drive", tag_values("drive", POWER)),
        ),
        panels=(
            row("Power"),
            *_power(),
            row("I/O"),
            *_io(),
            row("Load"),
            *_load(),
            row("Drives"),
            *_health(),
            row("Losses and clocks"),
            *_losses(),
            row("Services"),
            *_services(),
        ),
    )


def _power() -> list[Panel]:
    return [
        over_time(
            "Power by rail",
            "watt",
            "Mean of each rail. A gap is time without measurement.",
            Query(_of.over_time(POWER, "mean({watts})", RAIL), OF_RAIL),
        ),
        over_time(
            "Power by drive",
            "watt",
            "Sum of the rails of a drive that have points: where one is silent, too little is shown.",
            watts(_of),
        ),
        over_time(
            "Extremes of the samples",
            "watt",
            "Least and greatest sample of each rail, at the meter's rate, whatever is zoomed to.",
            Query(_of.over_time(POWER, "min({watts_min})", RAIL), f"{OF_RAIL} least"),
            Query(_of.over_time(POWER, "max({watts_max})", RAIL), f"{OF_RAIL} most"),
        ),
        figures(
            "Energy of the range",
            "joule",
            "From cumulative counters: exact at the meter's rate, and without what gaps drew. The energy"
            " between a restart of the counters and the next point of an interval is not in it.",
            Query(
                _of.of_range(
                    POWER, 'sum("d")', RAIL, within='non_negative_difference(last({joules})) AS "d"'
                ),
                OF_RAIL,
            ),
        ),
    ]


def _io() -> list[Panel]:
    def rate(counter: str) -> str:
        return _of.rate(BLOCKIO, counter, DRIVE)

    def mean_time(seconds: str, requests: str) -> str:
        took = f"non_negative_difference(max({{{seconds}}}))"
        made = f"non_negative_difference(max({{{requests}}}))"
        return _of.over_time(
            BLOCKIO,
            'sum("took") / sum("made")',
            DRIVE,
            within=f'{took} AS "took", {made} AS "made"',
        )

    return [
        over_time(
            "Requests",
            "iops",
            "As the kernel's block layer counts them; an empty flush request is a write too.",
            Query(rate("reads"), f"{OF_DRIVE} read"),
            Query(rate("writes"), f"{OF_DRIVE} write"),
        ),
        over_time(
            "Throughput",
            "Bps",
            "Bytes of the block layer.",
            Query(rate("read_bytes"), f"{OF_DRIVE} read"),
            Query(rate("write_bytes"), f"{OF_DRIVE} write"),
        ),
        over_time(
            "Time of a request",
            "s",
            "Mean of the requests that ended in an interval; 0 where there was none.",
            Query(mean_time("read_seconds", "reads"), f"{OF_DRIVE} read"),
            Query(mean_time("write_seconds", "writes"), f"{OF_DRIVE} write"),
            Query(mean_time("flush_seconds", "flushes"), f"{OF_DRIVE} flush"),
        ),
        over_time(
            "Flushes and journal transactions",
            "ops",
            "Flush requests a second, and transactions of jbd2 where a file system has a journal.",
            Query(rate("flushes"), f"{OF_DRIVE} flushes"),
            Query(
                _of.rate(FSJOURNAL, "transactions", DRIVE),
                f"{OF_DRIVE} transactions",
            ),
        ),
        over_time(
            "Busy",
            "percentunit",
            "Fraction of the time in which a request was under way.",
            Query(rate("busy_seconds"), OF_DRIVE),
        ),
        over_time(
            "Requests under way",
            "short",
            "Greatest number at the time of a point.",
            Query(_of.over_time(BLOCKIO, "max({in_flight})", DRIVE), OF_DRIVE),
        ),
    ]


def _load() -> list[Panel]:
    quantiles = ("p50", "p99", "max")
    return [
        operations(_of),
        over_time(
            "Latency of the load",
            "s",
            "Greatest quantile of a second in each interval, by class of operations, where the load"
            " reports them.",
            *(
                Query(
                    _of.over_time(WORKLOAD, f"max({{/class_NAME_{quantile}_seconds/}})", DRIVE),
                    f"{OF_DRIVE} $col",
                )
                for quantile in quantiles
            ),
        ),
    ]


def _health() -> list[Panel]:
    return [
        over_time(
            "Temperature",
            "celsius",
            "As the drive reports it.",
            Query(_of.over_time(DRIVE_HEALTH, "max({temperature_celsius})", DRIVE), OF_DRIVE),
            width=8,
        ),
        figures(
            "Wear",
            "percent",
            "As the drive estimates it.",
            Query(_of.of_range(DRIVE_HEALTH, "last({percentage_used})", DRIVE), OF_DRIVE),
            width=8,
        ),
        table(
            "Health",
            "The newest figures of each drive.",
            Query(
                _of.of_range(
                    DRIVE_HEALTH,
                    'last({temperature_celsius}) AS "temperature", {data_units_written_bytes} AS "written",'
                    ' {power_on_hours} AS "hours on", {media_errors} AS "media errors"',
                    DRIVE,
                )
            ),
            units={**AGE, "temperature": "celsius", "written": "decbytes", "hours on": "h"},
            width=8,
        ),
    ]


def _losses() -> list[Panel]:
    lost = " + ".join(f"non_negative_difference(max({{{one}}}))" for one in ("lost", "duplicate"))
    return [
        over_time(
            "Samples lost",
            "percentunit",
            "Fraction of the samples expected that did not come, or for which another came twice.",
            Query(
                _of.over_time(
                    POWER,
                    'sum("gone") / sum("due")',
                    RAIL,
                    within=f'{lost} AS "gone", non_negative_difference(max({{expected}})) AS "due"',
                ),
                OF_RAIL,
            ),
            least=0,
            width=8,
        ),
        over_time(
            "Clock residual of meters",
            "s",
            "How far the time of a rail's samples can be off the controller's clock.",
            Query(
                _of.over_time(POWER, "max({clock_residual_seconds})", ("meter", "rail")),
                "$tag_meter $tag_rail",
            ),
            width=8,
        ),
        over_time(
            "Clocks of test hosts",
            "ns",
            "By how much the controller's clock was measured to be ahead at a phase, and how far that can"
            " be wrong.",
            Query(_of.over_time(PHASE, "last({clock_offset_ns})", HOST), f"{OF_HOST} offset"),
            Query(_of.over_time(PHASE, "max({clock_error_ns})", HOST), f"{OF_HOST} error"),
            width=8,
            points=True,
        ),
    ]


def _services() -> list[Panel]:
    def rate(counter: str) -> str:
        return _of.rate(HOSTLOAD, counter, HOST)

    return [
        table(
            "Newest point of each meter",
            "powerd writes them. One that is old is a meter, powerd or InfluxDB that is silent.",
            Query(_of.of_range(POWER, 'last({watts}) AS "watts"', ("meter", "rail"))),
            units={**AGE, "watts": "watt"},
            width=12,
        ),
        table(
            "Newest point of each test host",
            "Its agent writes them. The counts of points that were dropped or skipped should be 0.",
            Query(
                _of.of_range(
                    HOSTLOAD,
                    'last({memory_used_bytes}) AS "memory", {spooled_bytes} AS "spooled",'
                    ' {dropped_lines} AS "dropped", {skipped_ticks} AS "skipped"',
                    HOST,
                )
            ),
            units={**AGE, "spooled": "decbytes", "memory": "bytes"},
            width=12,
        ),
        over_time(
            "Processors of test hosts",
            "short",
            "How many processors are busy; the agent's share of them.",
            Query(rate("cpu_busy_seconds"), f"{OF_HOST} all"),
            Query(rate("agent_cpu_seconds"), f"{OF_HOST} agent"),
        ),
        over_time(
            "Processor packages of test hosts",
            "watt",
            "By RAPL's counters; empty where a host has none.",
            Query(rate("package_joules"), OF_HOST),
        ),
    ]
