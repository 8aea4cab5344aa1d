# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit the drives of a campaign from the files of its runs: result.json and power.csv."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from joulerig.analysis.audit import rails, readings
from joulerig.analysis.audit.checks import Stretch
from joulerig.analysis.audit.readings import NS, Counter
from joulerig.analysis.audit.verdict import DriveAudit, judge
from joulerig.analysis.results import power_points
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import WORKED, CampaignKind

_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass
class _Gathered:
    """What the runs so far have of a drive. `peak_watts`: the greatest power of its rails."""

    compared: list[rails.Compared] = field(default_factory=list)
    counters: list[tuple[Counter, rails.Power | None]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    peak_watts: float = 0.0
    asked: bool = False


def audits(campaign: Campaign) -> list[DriveAudit]:
    """Judge each drive whose runs were asked for its own report, in the order of the runs.

    Runs that failed, and those of which the rails were not measured, count for nothing. Empty for a
    campaign of power cuts, and for one of before drives were asked. A damaged file is a problem of
    the drive; `rig verify` reports it as well.
    """
    if campaign.kind == CampaignKind.POWER_CUT:
        return []
    found: dict[tuple[str, str], _Gathered] = {}
    for run in campaign.runs:
        if run.status in WORKED and (recorded := _recorded(run)):
            for drive in campaign.drives(run):
                into = found.setdefault((run.host, drive), _Gathered())
                _gather(campaign, run, drive, recorded, into)
    return [
        judge(host, drive, one.compared, list(_stretches(one)), one.problems)
        for (host, drive), one in found.items()
        if one.asked
    ]


def _recorded(run: Run) -> list[dict[str, Any]]:
    try:
        return run.power_reports or []
    except ResultsError:
        return []


def _gather(
    campaign: Campaign, run: Run, drive: str, recorded: list[dict[str, Any]], into: _Gathered
) -> None:
    try:
        if any(one["drive"] == drive for one in recorded):
            into.asked = True
            _compare(campaign, run, drive, recorded, into)
    except power_points.PowerFileError:
        into.problems.append(f"{run.id}: power.csv cannot be read")
    except _WRONG as error:
        into.problems.append(f"{run.id}: its reports cannot be read: {type(error).__name__}: {error}")


def _compare(
    campaign: Campaign, run: Run, drive: str, recorded: list[dict[str, Any]], into: _Gathered
) -> None:
    reports = readings.of_run(run.id, drive, run.workload, recorded, run.clock[0])
    into.problems += reports.problems
    if not reports.readings and not any(one.watt_hours for one in reports.counters):
        return  # the drive reports none of it: what its rails took need not be read
    power = None
    if (frame := power_points.read(run.folder / "power.csv")) is not None:
        power = rails.power_of(campaign, run, drive, frame)
        own = frame.filter(pl.col("drive") == drive)
        peaks = own.group_by("meter", "rail").agg(pl.max_horizontal("watts", "watts_max").max())
        into.peak_watts = max(into.peak_watts, float(peaks["watts"].sum() or 0.0))
    into.counters += [(counter, power) for counter in reports.counters]
    for reading in reports.readings:
        compared = rails.compare(reading, power) if power else None
        if compared is None:
            into.problems.append(
                f"{run.id}: {reading.condition}, {reading.quantity}: no rails to compare it with"
            )
        else:
            into.compared.append(compared)


def _stretches(gathered: _Gathered) -> Iterator[Stretch]:
    """Yield the lifetime energy from each instant to the next.

    Between runs the rails are not on record: the drive drew anything from nothing to its peak.
    """
    ordered = sorted(gathered.counters, key=lambda one: one[0].time_ns)
    for (before, power), (after, _) in itertools.pairwise(ordered):
        seconds = (after.time_ns - before.time_ns) / NS
        found = None
        if before.run == after.run and power is not None and seconds > 0:
            found = power(before.time_ns, after.time_ns)
        if found is None:
            most = gathered.peak_watts * seconds if gathered.peak_watts else math.inf
            yield Stretch(before, after, 0.0, most)
        else:
            watts, limit = found.watts, found.limit_watts
            yield Stretch(before, after, max(watts - limit, 0.0) * seconds, (watts + limit) * seconds)
