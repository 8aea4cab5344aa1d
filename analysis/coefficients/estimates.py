# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate a drive's coefficients, and judge which of them the runs bear."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from joulerig.analysis.coefficients import design
from joulerig.analysis.coefficients.design import LoadRow, Place
from joulerig.analysis.coefficients.fit import Fit, Fitted, fit
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import PhaseName, RailEnergy
from joulerig.analysis.runs import derived
from joulerig.analysis.runs import idle as at_rest
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.statistics.interval import Interval, fieller, student
from joulerig.plural import counted

IDLE, DURABLE = "idle_watts", "joules_per_durable_byte"
UNITS = {
    IDLE: "W",
    "active_watts": "W",
    "joules_per_read_byte": "J/B",
    "joules_per_written_byte": "J/B",
    "joules_per_request": "J",
    "joules_per_flush": "J",
    DURABLE: "J/B",
}
MEANINGS = {
    IDLE: "Power at rest while a mounted file system is left alone.",
    "active_watts": "Power under load that goes with no byte, request or flush.",
    "joules_per_read_byte": "What a byte read by the block layer adds.",
    "joules_per_written_byte": "What a byte written by the block layer adds.",
    "joules_per_request": "What a request adds whatever its size: reads, writes and empty flushes.",
    "joules_per_flush": "What a flush or a forced unit access adds to its request.",
    DURABLE: "What a byte that the workload wrote and synced adds to idle power, altogether.",
}

MOST_HALF_WIDTH = 0.5  # of the value
MOST_HELD_OUT = 0.10  # root mean square, of the watts of loads that the fit has not seen
MOST_INFLATION = 1000.0  # of a variance, by other terms that go along
FEWEST_IDLE, FEWEST_DURABLE = 2, 3
"""Runs. Of a ratio of two runs the intervals that are narrow are those of lucky runs."""


@dataclass(frozen=True)
class Estimate:
    """One coefficient of a drive.

    `cell`: of which it is, where it is one cell's. `value`, `interval`: None where there is none.
    `withheld`: why it is not given away; empty: it is. `runs`: how many it rests on.
    """

    name: str
    value: float | None
    interval: Interval | None
    runs: int
    withheld: str
    cell: str = ""

    @property
    def unit(self) -> str:
        return UNITS[self.name]


@dataclass(frozen=True)
class DriveEstimates:
    """A drive's coefficients, the fit behind those of its loads, and the runs that it is of.

    `fit`: None where no run can be a row. `left_out`: runs that are no rows, by why.
    `meter_known`: whether the intervals have the meter's own error in them.
    """

    place: Place
    estimates: tuple[Estimate, ...]
    fit: Fit | None
    rows: tuple[LoadRow, ...]
    left_out: Counter[str]
    meter_known: bool


def of_campaign(campaign: Campaign, idles: Mapping[str, Idle] | None = None) -> list[DriveEstimates]:
    """Return the estimates of each drive that has runs with a load.

    `idles`: power at rest by run (analysis.runs.idle), where it is known already.
    """
    by_drive = sorted(design.by_drive(campaign).items())
    if by_drive and idles is None:
        idles = at_rest.by_run(campaign)
    return [_of_drive(campaign, place, runs, idles or {}) for place, runs in by_drive]


def _of_drive(campaign: Campaign, place: Place, runs: list[Run], idles: Mapping[str, Idle]) -> DriveEstimates:
    loads, left_out = design.load_rows(campaign, runs)
    fitted = fit(design.rows(campaign, loads)) if loads else None
    alone = [run for run in runs if campaign.drives(run) == [run.drive]]
    durable = _durable(campaign, [load.run for load in loads], idles)
    estimates = [_idle([idles[run.id] for run in alone]), *of_loads(fitted), *durable]
    rails = [rail for load in loads for rail in load.run.energy if rail.phase == PhaseName.WORKLOAD]
    known = bool(rails) and all(rail.meter_joules is not None for rail in rails)
    return DriveEstimates(place, tuple(estimates), fitted, tuple(loads), left_out, known)


def judged(name: str, value: float, interval: Interval | None, runs: int, cell: str = "") -> Estimate:
    """Return an estimate, withheld where its interval is too wide to be of use."""
    if interval is None:
        return Estimate(name, value, None, runs, "no interval: too few runs", cell)
    half = max(interval.high - value, value - interval.low)
    if math.isinf(half):
        return Estimate(name, value, None, runs, design.NOT_BOUNDED, cell)
    why = ""
    if interval.low <= 0:
        why = "its interval reaches 0"
    elif half > MOST_HALF_WIDTH * value:
        why = f"known to ±{100 * half / value:.0f} % only; at most {100 * MOST_HALF_WIDTH:.0f} %"
    return Estimate(name, value, interval, runs, why, cell)


def of_loads(fitted: Fit | None) -> Iterator[Estimate]:
    """Yield the estimates of `design.TERMS` by their fit."""
    for place, name in enumerate(design.TERMS):
        if fitted is None:
            yield Estimate(name, None, None, 0, "no run of this drive alone was measured and counted")
            continue
        one = fitted.coefficients[place]
        why = _why_withheld(fitted, one)
        if one.value is None or why:
            yield Estimate(name, one.value, one.interval, fitted.rows, why)
        else:
            yield judged(name, one.value, one.interval, fitted.rows)


def _why_withheld(fitted: Fit, one: Fitted) -> str:
    """Return why the fit does not bear a coefficient, whatever its interval; else empty."""
    if one.value is None:
        return "the loads cannot separate it from the others, or have none of it"
    if one.only:
        return f"only one load shows it: {one.only}"
    if one.inflation is not None and one.inflation > MOST_INFLATION:
        return f"other terms go along with it in all loads: variance inflated {one.inflation:.0f} times"
    if fitted.held_out_rms is None:
        return "no load can be predicted from the others"
    if fitted.held_out_rms > MOST_HELD_OUT:
        return (
            f"loads left out are predicted to {100 * fitted.held_out_rms:.0f} % only;"
            f" at most {100 * MOST_HELD_OUT:.0f} %"
        )
    return fitted.form


def _idle(idles: Sequence[Idle]) -> Estimate:
    """Estimate idle power: the mean over the runs in which the drive was at rest."""
    known = [(idle.watts, idle.limit) for idle in idles if idle.watts is not None]
    why = next((idle.why for idle in idles if idle.watts is None), "")
    return idle_power([watts for watts, _ in known], [limit for _, limit in known], why)


def idle_power(watts: Sequence[float], limits: Sequence[float], why_not: str = "") -> Estimate:
    """Estimate idle power from runs, each weighing the same.

    `limits`: what may be wrong with all of them alike. `why_not`: why it is not known of others.
    """
    if len(watts) < FEWEST_IDLE:
        few = f"known of {counted(len(watts), 'run')}; at least {FEWEST_IDLE}"
        few += f" ({why_not})" if why_not else ""
        return Estimate(IDLE, watts[0] if watts else None, None, len(watts), few)
    value = sum(watts) / len(watts)
    return judged(IDLE, value, _with_limit(value, student(watts), sum(limits) / len(limits)), len(watts))


def _systematic_joules(rail: RailEnergy) -> float:
    """Return what may be wrong with a rail's energy and does not vary from run to run."""
    if rail.gap_low_joules is None or rail.gap_high_joules is None:
        return math.inf
    gaps = (rail.gap_high_joules - rail.gap_low_joules) / 2
    return (rail.meter_joules or 0.0) + max(gaps, 0.0)


def _with_limit(value: float, random: Interval, limit: float) -> Interval:
    """Add a limit of what is wrong in all runs alike, as the root of the sum of squares."""
    return Interval(
        value - math.hypot(value - random.low, limit), value + math.hypot(random.high - value, limit)
    )


def _durable(campaign: Campaign, runs: Sequence[Run], idles: Mapping[str, Idle]) -> list[Estimate]:
    """Estimate of each cell that syncs what a durable byte adds: a ratio of sums."""
    cells: dict[str, list[tuple[float, float, float]]] = {}
    for run in runs:
        idle = idles[run.id]
        amounts = derived.amounts(campaign, run, idle)
        joules, written = amounts["dynamic_joules"], amounts["durable_bytes"]
        if joules is not None and written:
            loads = [rail for rail in run.energy if rail.phase == PhaseName.WORKLOAD]
            limit = sum(map(_systematic_joules, loads)) + (amounts["seconds"] or 0.0) * idle.limit
            cells.setdefault(run.cell, []).append((joules, written, limit))
    return [durable_byte(cell, rows) for cell, rows in cells.items()]


def durable_byte(cell: str, rows: Sequence[tuple[float, float, float]]) -> Estimate:
    """Estimate what a durable byte adds. `rows`: joules above idle, bytes, limit in joules."""
    joules, written, limits = zip(*rows, strict=True)
    value = sum(joules) / sum(written)
    random = fieller(joules, written)
    if random is None or len(rows) < FEWEST_DURABLE:
        few = f"{counted(len(rows), 'run')}; at least {FEWEST_DURABLE}, with bytes that differ little"
        return Estimate(DURABLE, value, None, len(rows), few, cell)
    interval = _with_limit(value, random, sum(limits) / sum(written))
    return judged(DURABLE, value, interval, len(rows), cell)
