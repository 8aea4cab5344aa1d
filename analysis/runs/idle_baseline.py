# SPDX-License-Identifier: GPL-3.0-or-later
"""What each rail of a drive draws when the host asks nothing of it, by a campaign's idle phases.

A separate figure: it is in no joules and no AI. An idle phase follows the layout of the run's
files, so that a drive may still be busy with itself; what the runs differ by is shown for that
reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName, RailEnergy

PHASE = PhaseName.IDLE
MOST_GAP = 0.01  # of the phase: with more, the mean of what is left is not the phase's


@dataclass(frozen=True)
class Baseline:
    """Idle power of one rail over a campaign's runs, in watts.

    `n` runs; `standard_deviation` (n - 1) between them, None for one. `low`, `high`: mean of the
    runs' own intervals (analysis.energy.interval), None where one is not known. `first_ns`,
    `last_ns`: when the idle phases of the first and the last of them began. `left_out`: runs whose
    idle phase has no joules or too long a gap.
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
    left_out: int

    @property
    def same_day(self) -> bool:
        """Return whether all of it was measured on one day (UTC)."""
        return self.first_ns is None or _day(self.first_ns) == _day(self.last_ns)


def rail_baselines(campaign: Campaign) -> list[Baseline]:
    """Compute the idle power of each rail of each drive, from all runs of a campaign.

    By host, drive (an array's members each by themselves), rail and meter, in that order.
    """
    found: dict[tuple[str, str, str, str], list[tuple[Run, RailEnergy]]] = {}
    for run in campaign.runs:
        for rail in run.energy:
            if rail.phase == PHASE and PHASE in run.phases:
                found.setdefault((run.host, rail.drive, rail.rail, rail.meter), []).append((run, rail))
    return [_rail_baseline(key, found[key]) for key in sorted(found)]


def idle_watts(run: Run) -> float | None:
    """Compute the watts that a run's drives drew in its own idle phase, all rails together.

    None without an idle phase, and where a rail has no joules of it or too long a gap in it.
    """
    rails = [rail for rail in run.energy if rail.phase == PHASE]
    if not rails or PHASE not in run.phases or not all(_usable(run, rail) for rail in rails):
        return None
    return sum(rail.corrected_joules for rail in rails) / run.phases[PHASE].seconds


def idle_bounds(run: Run) -> tuple[float, float] | None:
    """Return the least and greatest of `idle_watts`; None where a rail's energy has no interval."""
    rails = [rail for rail in run.energy if rail.phase == PHASE]
    lows = [rail.joules_low for rail in rails if rail.joules_low is not None]
    highs = [rail.joules_high for rail in rails if rail.joules_high is not None]
    if not rails or len(lows) < len(rails) or len(highs) < len(rails):
        return None
    seconds = run.phases[PHASE].seconds
    return sum(lows) / seconds, sum(highs) / seconds


def _usable(run: Run, rail: RailEnergy) -> bool:
    seconds = run.phases[PHASE].seconds
    return rail.joules is not None and seconds > 0 and rail.gap_seconds <= MOST_GAP * seconds


def _rail_baseline(key: tuple[str, str, str, str], phases: Sequence[tuple[Run, RailEnergy]]) -> Baseline:
    used = [(run.phases[PHASE], rail) for run, rail in phases if _usable(run, rail)]
    watts = [rail.corrected_joules / phase.seconds for phase, rail in used]
    begun = [phase.start_ns for phase, _ in used]

    def mean(name: str) -> float | None:
        values = [(getattr(rail, name), phase.seconds) for phase, rail in used]
        if not values or any(joules is None for joules, _ in values):
            return None
        return statistics.fmean(joules / seconds for joules, seconds in values)

    return Baseline(
        *key,
        n=len(used),
        watts=statistics.fmean(watts) if watts else None,
        standard_deviation=statistics.stdev(watts) if len(watts) > 1 else None,
        least=min(watts, default=None),
        greatest=max(watts, default=None),
        low=mean("joules_low"),
        high=mean("joules_high"),
        first_ns=min(begun, default=None),
        last_ns=max(begun, default=None),
        left_out=len(phases) - len(used),
    )


def _day(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).date().isoformat()
