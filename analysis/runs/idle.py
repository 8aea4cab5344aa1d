# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of drives at rest: found in the runs' idle phases, never a phase's mean by its name.

Idle power is the level that an idle phase ends at, where it holds for at least half of the phase
and does not slope, and where no run of the drive shows a lower one. Else it is not known, and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from joulerig.analysis.energy import indicator, meters
from joulerig.analysis.energy.interval import IntervalEnergy
from joulerig.analysis.results import power_points, run_energy
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import Phase, PhaseName
from joulerig.analysis.runs import over_time
from joulerig.analysis.runs.over_time import MOST_GAP, Floats, Rail, Steps
from joulerig.analysis.statistics import segments
from joulerig.plural import counted

RESTING = {
    "apst": "off",
    "link_power": "max_performance",
    "apm": "off",
    "standby_timer": "off",
    "aspm": "performance",
    "runtime_pm": "on",
}
"""Factors by which a drive may rest, with the level that keeps it awake."""
WORKING = ("power_state", "power_limit")
DECIDING = (*RESTING, *WORKING, "kernel")  # factors that idle power may go with
MOST_STEPS = 300  # of a phase
# Fraction by which idle power of a drive at rest may differ between runs, by its temperature. What
# the meters leave uncertain is allowed as well.
ALIKE = 0.05

NO_PHASE = "no idle phase that measured the same rails"
NO_POINTS = "no power points"  # of a run, in its power.csv


@dataclass(frozen=True)
class RailIdle:
    """Mean watts of one rail over the level; `low`, `high` are None where nothing bounds them."""

    drive: str
    meter: str
    rail: str
    watts: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Idle:
    """The power that one drive, or a run's drives together, draw at rest in one run.

    `watts`: None where that is not known; `why` not. `low`, `high`: within which the power at rest
    lies; None where nothing bounds it. `reach`: the part of that of the level's own noise and of
    what differs between the drive's runs; `limit`: that of the meters and what they did not
    measure. `begins`: seconds into the idle phase at which the level begins; `steps`: its power.
    `drives`: by drive, of a run.
    """

    watts: float | None = None
    low: float | None = None
    high: float | None = None
    reach: float = 0.0
    limit: float = 0.0
    begins: float = 0.0
    start_ns: int = 0
    steps: Steps = field(default_factory=Steps)
    rails: tuple[RailIdle, ...] = ()
    drives: Mapping[str, Idle] = field(default_factory=dict)
    why: str = ""

    @property
    def points_watts(self) -> float:
        """Return the mean of the stored points at rest, which has no correction."""
        if self.drives:
            return math.fsum(one.points_watts for one in self.drives.values())
        return float(self.steps.watts.mean()) if len(self.steps.watts) else self.watts or 0.0

    def deviation(self, step_seconds: float) -> float:
        """Return the standard deviation of the means of steps of that length, at rest."""
        if self.drives:
            return math.hypot(*(one.deviation(step_seconds) for one in self.drives.values()))
        watts = self.steps.watts
        each = max(1, round(step_seconds / self.steps.step_seconds)) if len(watts) else 1
        count = len(watts) // each
        if count < 2:
            return float(watts.std()) if len(watts) else 0.0
        return float(watts[: count * each].reshape(count, each).mean(axis=1).std(ddof=1))


NOT_FOUND = Idle(why=NO_PHASE)


@dataclass(frozen=True)
class _Level:
    """A level of a drive's power at the end of a phase, in watts, and how far noise moves it.

    Of a phase that ends at no level: the most that the drive drew for a tenth of it near the end.
    """

    where: str
    watts: float
    reach: float


@dataclass(frozen=True)
class DriveLevels:
    """A drive in a run: idle power by this run alone, and the levels that its phases end at.

    `own`: of the idle phase; `tail`: of what was measured after the load. None: not measured.
    """

    idle: Idle
    own: _Level | None = None
    tail: _Level | None = None


def by_run(campaign: Campaign) -> dict[str, Idle]:
    """Find what each run's drives draw at rest, by run; of all of a campaign's runs.

    By the runs' power.csv: its energy has the meters' uncertainty over the level in it. A run
    without one, or whose file cannot be read, has no idle power.
    """
    return judged(campaign, {run.id: read_run(campaign, run) for run in campaign.runs})


def judged(campaign: Campaign, read: Mapping[str, Mapping[str, DriveLevels]]) -> dict[str, Idle]:
    """Judge what `read_run` gave of each run by all runs of the same drives, in the same states."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for run in campaign.runs:
        levels = tuple(str(run.factors.get(name, "")) for name in DECIDING)
        for drive in read[run.id]:
            groups.setdefault((run.host, drive, *levels), []).append(run.id)
    found: dict[str, dict[str, Idle]] = {}
    for (_, drive, *_), ids in groups.items():
        for own, idle in _over_runs([read[one][drive] for one in ids], ids):
            found.setdefault(own, {})[drive] = idle
    return {run.id: _together(found.get(run.id, {})) for run in campaign.runs}


def _over_runs(found: Sequence[DriveLevels], runs: Sequence[str]) -> Iterable[tuple[str, Idle]]:
    """Yield each run's idle power, by what all of them show of one drive."""
    levels = [one for drive in found for one in (drive.own, drive.tail) if one is not None]
    for run, drive in zip(runs, found, strict=True):
        idle, own = drive.idle, drive.own
        if own is None or idle.watts is None:
            yield run, idle
            continue
        least = min(levels, key=lambda one: one.watts)
        alike = max(ALIKE * abs(least.watts), idle.limit)
        if own.watts - least.watts > own.reach + least.reach + alike:
            yield run, Idle(why=f"not at rest: {own.watts:.3g} W, and {least.watts:.3g} W {least.where}")
        else:
            more = max(0.0, own.watts - own.reach - (least.watts - least.reach))
            low = None if idle.low is None else idle.low - more
            yield run, replace(idle, low=low, reach=idle.reach + more)


def _together(drives: Mapping[str, Idle]) -> Idle:
    """Return what a run's drives draw at rest together; not known where one's is not."""
    if not drives:
        return NOT_FOUND
    known = list(drives.values())
    if why := next((one.why for one in known if one.watts is None), ""):
        return Idle(drives=drives, why=why)

    def total(name: str) -> float | None:
        return indicator.total([getattr(one, name) for one in known])

    return Idle(
        total("watts"),
        total("low"),
        total("high"),
        math.fsum(one.reach for one in known),
        math.fsum(one.limit for one in known),
        max(one.begins for one in known),
        min(one.start_ns for one in known),
        rails=tuple(rail for one in known for rail in one.rails),
        drives=drives,
    )


def read_run(campaign: Campaign, run: Run) -> dict[str, DriveLevels]:
    """Find the levels of each drive of a run, for `judged`, by the run's power.csv."""
    try:
        return from_points(campaign, run, power_points.read(run.folder / "power.csv"))
    except power_points.PowerFileError as error:
        return {drive: DriveLevels(Idle(why=str(error))) for drive, _, _ in _measured(run)}


def from_points(campaign: Campaign, run: Run, frame: pl.DataFrame | None) -> dict[str, DriveLevels]:
    """Find the levels of each drive of a run, for `judged`, by its power points.

    Empty where no idle phase measured the rails of the load.
    """
    rails = sorted(_measured(run))
    if frame is None:
        return {drive: DriveLevels(Idle(why=NO_POINTS)) for drive, _, _ in rails}
    return {
        drive: _drive(
            campaign, run, frame, run.phases[PhaseName.IDLE], [one for one in rails if one[0] == drive]
        )
        for drive in sorted({drive for drive, _, _ in rails})
    }


def _measured(run: Run) -> set[run_energy.Rail]:
    """Return the rails that the idle phase measured, if they are those of the load."""
    phase = run.phases.get(PhaseName.IDLE)
    idle, load = (
        {(one.drive, one.meter, one.rail) for one in run.energy if one.phase == name}
        for name in (PhaseName.IDLE, PhaseName.WORKLOAD)
    )
    alike = PhaseName.WORKLOAD not in run.phases or idle == load
    return idle if phase is not None and phase.seconds > 0 and alike else set()


def _drive(
    campaign: Campaign, run: Run, frame: pl.DataFrame, phase: Phase, rails: Sequence[run_energy.Rail]
) -> DriveLevels:
    stored = over_time.stored_rails(frame.filter(pl.col("drive") == rails[0][0]), phase.start_ns)
    if len(stored) < len(rails):
        return DriveLevels(Idle(why=NO_POINTS))
    tail = _after_load(run, stored, phase)
    unmeasured = [one for one in run.energy if one.phase == PhaseName.IDLE and one.joules is None]
    if any((one.drive, one.meter, one.rail) in rails for one in unmeasured):
        return DriveLevels(Idle(why="a rail has no joules of the idle phase"), tail=tail)
    steps = _steps(stored, 0.0, phase.seconds)
    found, why = _last(steps)
    own = _level(steps, f"in run {run.id}")
    if found is None:
        return DriveLevels(Idle(why=why), own, tail)
    begins = found.begin * steps.step_seconds
    window = _inside(campaign, phase, frame, rails, begins, steps.step_seconds)
    energies = run_energy.phase_energies(
        frame, [window], rails, host=run.host, lab=campaign.lab, provenance=campaign.provenance
    )
    return DriveLevels(_idle(found, begins, window, steps, energies), own, tail)


def _inside(
    campaign: Campaign,
    phase: Phase,
    frame: pl.DataFrame,
    rails: Sequence[run_energy.Rail],
    begins: float,
    step_seconds: float,
) -> Phase:
    """Return the level's part of a phase, as far from both ends as instants can be wrong.

    What came before and after is then not in its energy, nor in what that is uncertain by.
    """
    residual = float(frame["clock_residual_seconds"].fill_null(0.0).to_numpy().max(initial=0.0))
    wrong = max(meters.edge_error_ns(campaign.lab, meter) for _, meter, _ in rails) + phase.clock_error_ns
    wrong += round(1e9 * (residual + 2 * step_seconds))
    start = phase.start_ns + round(begins * 1e9)
    margin = min(wrong, (phase.end_ns - start) // 4)
    return replace(phase, start_ns=start + margin, end_ns=phase.end_ns - margin)


def _after_load(run: Run, stored: Sequence[Rail], origin: Phase) -> _Level | None:
    """Return the level that a run's tail ends at, if it has one: it shows what is no idle."""
    load, tail = run.phases.get(PhaseName.WORKLOAD), run.phases.get(PhaseName.TAIL)
    if load is None or tail is None:
        return None
    begin, end = ((at - origin.start_ns) * 1e-9 for at in (load.end_ns, tail.end_ns))
    return _level(_steps(stored, begin, end), f"after the load of run {run.id}")


def _level(steps: Steps, where: str) -> _Level | None:
    """Return the level that a phase ends at; None where it was not measured, or too short."""
    found, _ = _last(steps)
    if found is not None:
        return _Level(where, found.value, (found.high - found.low) / 2)
    means = _tenths(steps.watts) if len(steps.watts) >= segments.FEWEST else np.full(1, np.nan)
    return None if np.isnan(means).any() else _Level(where, float(means[len(means) // 2 :].max()), 0.0)


def _steps(stored: Sequence[Rail], begin: float, end: float) -> Steps:
    """Return the power from one instant to another one in steps, each a stored point or longer."""
    spacing = max(float(np.median(np.diff(rail.times))) for rail in stored)
    count = min(MOST_STEPS, int((end - begin) / spacing + 1e-6)) if spacing > 0 else 0
    if count < 1:
        return Steps()
    return Steps(over_time.watts_between(stored, np.linspace(begin, end, count + 1)), (end - begin) / count)


def _last(steps: Steps) -> tuple[segments.Level | None, str]:
    """Return the level that steps end at, or why they end at none."""
    known = steps.watts[~np.isnan(steps.watts)]
    if len(known) < (1 - MOST_GAP) * len(steps.watts):
        return None, "a rail was not measured in all of the idle phase"
    found = segments.last_level(known)
    if found is None:
        points = counted(len(known), "point")
        return None, f"the idle phase has {points} of power, {segments.FEWEST} are needed"
    if found.why:
        return None, f"not at rest: {_ends(known)}, {found.why}"
    return found, ""


def _tenths(watts: Floats) -> Floats:
    """Return the means of ten parts of a phase."""
    return np.array([part.mean() for part in np.array_split(watts, segments.BATCHES)])


def _ends(watts: Floats) -> str:
    """Return the greatest and the least mean of tenths of a phase, in the order that they have."""
    means = _tenths(watts)
    first, second = sorted((int(np.argmax(means)), int(np.argmin(means))))
    return f"{means[first]:.3g} to {means[second]:.3g} W"


def _idle(
    found: segments.Level,
    begins: float,
    window: Phase,
    steps: Steps,
    energies: Sequence[tuple[Phase, run_energy.Rail, IntervalEnergy]],
) -> Idle:
    """Return what a drive draws at rest by the energy of its rails over the level."""
    reach, seconds = (found.high - found.low) / 2, window.seconds
    rails: list[RailIdle] = []
    lows: list[float] = []
    highs: list[float] = []
    for _, (drive, meter, rail), energy in energies:
        if energy.joules is None:
            return Idle(why=f"{rail} of meter {meter}: {energy.reason}")
        if energy.gap_seconds > MOST_GAP * seconds:
            return Idle(why=f"{rail} of meter {meter}: gaps of {energy.gap_seconds:.3g} s while at rest")
        watts = (energy.joules + energy.budget.correction) / seconds
        low, high = energy.joules_low, energy.joules_high
        if low is None or high is None:
            rails.append(RailIdle(drive, meter, rail, watts, None, None))
            continue
        lows.append(low / seconds)
        highs.append(high / seconds)
        rails.append(RailIdle(drive, meter, rail, watts, lows[-1] - reach, highs[-1] + reach))
    bounded = len(lows) == len(rails)
    low, high = math.fsum(lows), math.fsum(highs)
    return Idle(
        math.fsum(rail.watts for rail in rails),
        low - reach if bounded else None,
        high + reach if bounded else None,
        reach,
        (high - low) / 2 if bounded else 0.0,
        begins,
        window.start_ns,
        Steps(steps.watts[~np.isnan(steps.watts)][found.begin :], steps.step_seconds),
        tuple(rails),
    )
