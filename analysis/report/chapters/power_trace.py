# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapter that shows the power of one run, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from joulerig.analysis.drawing import Svg
from joulerig.analysis.energy import indicator
from joulerig.analysis.report import figures
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.results import power_points
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import RailEnergy, Status
from joulerig.analysis.tables import runs_and_cells


@dataclass(frozen=True)
class PhaseRow:
    """A phase of the run, all rails of its drives together.

    Seconds, joules, watts; None where not known.
    """

    phase: str
    seconds: float
    joules: float | None
    true_joules: float | None
    low: float | None
    high: float | None
    watts: float | None


@dataclass(frozen=True)
class PowerTrace:
    """The power trace that stands for the campaign.

    `figure`: None where there is none. `note`: which run it is of, or why there is none.
    """

    run: Run | None
    note: str
    figure: Svg | None
    phases: list[PhaseRow]
    expired: bool = False  # whether it rests on a calibration past its date


def power_trace(analysed: Analysed) -> PowerTrace:
    """Return the power trace of the first group's best cell.

    It is that of the run whose AI is the median (the lower of two).
    """
    campaign = analysed.campaign
    order = [
        run for group in analysed.groups for cell in group.ranked for run in _by_ai(campaign, cell["cell"])
    ]
    order += [run for run in campaign.runs if run.status == Status.PARTIAL]
    problem = ""
    for run in order:
        try:
            points = power_points.read(run.folder / "power.csv")
        except power_points.PowerFileError as error:
            problem = problem or f" ({error})"
            continue
        if points is None:
            continue
        if not points["watts"].count():
            problem = problem or f" ({run.folder / 'power.csv'}: no watts in it)"
            continue
        phases = sorted(run.phases.values(), key=lambda phase: phase.start_ns)
        figure = figures.power_trace(points, phases, virtual=campaign.virtual)
        why = _standing(campaign, run, order)
        expired = runs_and_cells.calibration(campaign, [run]) == "expired"
        return PowerTrace(run, why, figure, [_phase_row(run, phase.phase) for phase in phases], expired)
    if not order:
        return PowerTrace(None, "No power trace: no run ended with joules.", None, [])
    return PowerTrace(None, f"No power trace: no finished run kept its power.csv{problem}.", None, [])


def _standing(campaign: Campaign, run: Run, order: Sequence[Run]) -> str:
    if run is not order[0]:
        return "the first run that kept its trace"
    if not run.counts:
        return "a run without joules"
    counted = sum(other.counts for other in campaign.runs if other.cell == run.cell)
    return (
        "the only run of its cell, the best one"
        if counted == 1
        else "the median run of its cell, the best one"
    )


def _by_ai(campaign: Campaign, cell: str) -> list[Run]:
    """Return the cell's runs that count, the median one by AI first."""
    runs = sorted(
        (run for run in campaign.runs if run.cell == cell and run.counts),
        key=lambda run: ((run.result.ai_ops_per_joule if run.result else None) or 0.0, run.ordinal),
    )
    middle = (len(runs) - 1) // 2
    return sorted(runs, key=lambda run: abs(runs.index(run) - middle))


def _phase_row(run: Run, phase: str) -> PhaseRow:
    rails = [rail for rail in run.energy if rail.phase == phase]
    seconds = run.phases[phase].seconds
    joules, corrected = _sum(rails, "joules"), _sum(rails, "corrected_joules")
    return PhaseRow(
        phase,
        seconds,
        joules,
        _sum(rails, "true_joules"),
        _sum(rails, "joules_low"),
        _sum(rails, "joules_high"),
        corrected / seconds if corrected is not None and seconds > 0 else None,
    )


def _sum(rails: Sequence[RailEnergy], name: str) -> float | None:
    """Sum a column over the rails; None where a rail has no value, or there is none."""
    return indicator.total([getattr(rail, name) for rail in rails])


POWER_TRACE = Chapter("power_trace", "Power over a run", power_trace)
