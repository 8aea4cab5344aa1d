# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of each rail of a drive at rest, by what was found of a campaign's runs.

A separate figure: it is in no joules and no AI.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.runs.idle import NOT_FOUND, Idle, RailIdle


@dataclass(frozen=True)
class Baseline:
    """Idle power of one rail over a campaign's runs, in watts.

    `n` runs whose drive was at rest; `standard_deviation` (n - 1) between them, None for one.
    `low`, `high`: mean of the runs' own intervals, None where one is not known. `first_ns`,
    `last_ns`: when the first and the last of them came to rest. `settled_seconds`: the longest that
    one took for it from the beginning of its idle phase. `left_out`: runs that measured the rail in
    their idle phase, and are not among them; `why` not, of the first.
    """

    host: str
    drive: str
    rail: str
    meter: str
    n: int
    watts: float | None
    standard_deviation: float | None
    least: float | None
    greatest: float | None
    low: float | None
    high: float | None
    first_ns: int | None
    last_ns: int | None
    settled_seconds: float | None
    left_out: int
    why: str

    @property
    def same_day(self) -> bool:
        """Return whether all of it was measured on one day (UTC)."""
        return self.first_ns is None or _day(self.first_ns) == _day(self.last_ns)


def rail_baselines(campaign: Campaign, idles: Mapping[str, Idle]) -> list[Baseline]:
    """Compute the idle power of each rail of each drive, from all runs of a campaign.

    By host, drive (an array's members each by themselves), rail and meter, in that order. `idles`:
    by run, of analysis.runs.idle.
    """
    found: dict[tuple[str, str, str, str], list[Run]] = {}
    for run in campaign.runs:
        for rail in run.energy:
            if rail.phase == PhaseName.IDLE and PhaseName.IDLE in run.phases:
                found.setdefault((run.host, rail.drive, rail.rail, rail.meter), []).append(run)
    return [
        _rail_baseline(key, [idles[run.id].drives.get(key[1], NOT_FOUND) for run in found[key]])
        for key in sorted(found)
    ]


def _rail_baseline(key: tuple[str, str, str, str], idles: Sequence[Idle]) -> Baseline:
    used: list[tuple[Idle, RailIdle]] = [
        (idle, rail) for idle in idles for rail in idle.rails if (rail.rail, rail.meter) == key[2:]
    ]
    watts = [rail.watts for _, rail in used]
    begun = [idle.start_ns for idle, _ in used]
    lows = [rail.low for _, rail in used if rail.low is not None]
    highs = [rail.high for _, rail in used if rail.high is not None]
    return Baseline(
        *key,
        n=len(used),
        watts=statistics.fmean(watts) if watts else None,
        standard_deviation=statistics.stdev(watts) if len(watts) > 1 else None,
        least=min(watts, default=None),
        greatest=max(watts, default=None),
        low=statistics.fmean(lows) if lows and len(lows) == len(used) else None,
        high=statistics.fmean(highs) if highs and len(highs) == len(used) else None,
        first_ns=min(begun, default=None),
        last_ns=max(begun, default=None),
        settled_seconds=max((idle.begins for idle, _ in used), default=None),
        left_out=len(idles) - len(used),
        why=next((idle.why for idle in idles if idle.watts is None), ""),
    )


def _day(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).date().isoformat()
