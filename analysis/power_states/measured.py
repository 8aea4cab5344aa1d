# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run gives of a drive's power states: idle, under load, and in the pauses of a load."""

from __future__ import annotations

from dataclasses import dataclass

from joulerig.analysis.audit import rails
from joulerig.analysis.audit.rails import RailPower
from joulerig.analysis.power_states import course, declared, traces
from joulerig.analysis.power_states.course import Rests
from joulerig.analysis.power_states.declared import Declared
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.load_reports import fio
from joulerig.analysis.results.schema import PhaseName
from joulerig.analysis.runs import over_time
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.runs.over_time import PowerOverTime, Steps


@dataclass(frozen=True)
class Measured:
    """A drive in a run. None: not measured.

    `idle`: watts at rest (analysis.runs.idle), `no_idle` why they are not known; `load`: mean watts
    of the load. `greatest`: the greatest mean over 10 s of the load. `power`: the load's, in short
    steps. `pause_seconds`: of the load, from an operation to the next. `latency_seconds`: within
    which a quarter of its operations are done, where no other drive is in the run: what a host adds
    now and then is not in it.
    """

    run: str
    block: int
    declared: Declared
    idle: RailPower | None
    no_idle: str
    load: RailPower | None
    greatest: float | None
    power: Steps
    pause_seconds: float | None
    latency_seconds: float | None

    def rests(self, awake_watts: float) -> Rests | None:
        """Return the rests of its load, as `course.find`."""
        return course.find(self.power, awake_watts)


def of_run(
    campaign: Campaign, run: Run, drive: str, idle: Idle, with_traces: bool, over: PowerOverTime | None
) -> Measured:
    """Return what a run has of a drive.

    `idle`: the drive's in this run. `with_traces`: whether the pauses of its load are of interest.
    `over`: the run's power over time. Raises ResultsError, and what `traces.of_load` raises.
    """
    alone = campaign.drives(run) == [drive]
    performance = run.performance
    pause = latency = None
    if performance is not None and alone:
        latency = _latency(run)
        if performance.ops:
            pause = performance.seconds / performance.ops
    ten = over.greatest.get(over_time.WINDOWS[-1]) if over and alone else None
    return Measured(
        run.id,
        run.block,
        declared.of_run(run, drive),
        at_rest(idle),
        idle.why,
        _load(run, drive),
        ten.watts if ten else None,
        traces.of_load(run, drive) if with_traces else Steps(),
        pause,
        latency,
    )


def _latency(run: Run) -> float | None:
    """Return the lower quartile of a load's latencies; their median where a report has no more."""
    if run.load.get("jobs"):
        return fio.latency_quantile(run.load, 0.25)
    return run.performance.latency_p50_seconds if run.performance else None


def at_rest(idle: Idle) -> RailPower | None:
    """Return power at rest, as far off as it can be too much; None: not known, or not bounded."""
    return None if idle.watts is None or idle.low is None else RailPower(idle.watts, idle.watts - idle.low)


def _load(run: Run, drive: str) -> RailPower | None:
    found = [one for one in run.energy if (one.drive, one.phase) == (drive, PhaseName.WORKLOAD)]
    phase = run.phases.get(PhaseName.WORKLOAD)
    if phase is None or phase.seconds <= 0:
        return None
    return rails.together(found, phase.seconds)
