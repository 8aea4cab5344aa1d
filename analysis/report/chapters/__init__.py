# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapters of the lab report, in their order.

A new chapter is a `Chapter` in a module of this folder, a template of its name, and a line in
`CHAPTERS`.
"""

from __future__ import annotations

from typing import Any

from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.report.chapters import (
    cells,
    cross_talk,
    drift,
    energy,
    load_courses,
    power_cuts,
    power_trace,
    precision,
    provenance,
    quiescence,
    runs,
    study,
    summary,
)
from joulerig.analysis.report.chapters.conditions import steadiness, steady_state, temperature
from joulerig.analysis.report.chapters.drives import (
    agreement,
    audit,
    coefficients,
    endurance,
    power_states,
    windows,
)

CHAPTERS: tuple[Chapter[Any], ...] = (
    power_cuts.POWER_CUTS,
    summary.ANSWERS,
    study.STUDY,
    summary.HEAT_MAPS,
    summary.RANKING,
    cells.CELLS,
    cells.POWER_AND_IO,
    cells.FIGURES_OF_MERIT,
    quiescence.QUIESCENCE,
    quiescence.WITH_PROCESSOR,
    precision.PRECISION,
    power_trace.POWER_TRACE,
    load_courses.LOAD_COURSES,
    steadiness.STEADINESS,
    cross_talk.CROSS_TALK,
    drift.DRIFT,
    temperature.TEMPERATURE,
    audit.AUDIT,
    agreement.AGREEMENT,
    power_states.POWER_STATES,
    energy.TRUE_JOULES,
    energy.LOSSES,
    energy.INTERVALS,
    steady_state.STEADY_STATE,
    energy.IDLE_BASELINE,
    windows.WINDOWS,
    endurance.ENDURANCE,
    coefficients.COEFFICIENTS,
    runs.NOT_RUN,
    provenance.PROVENANCE,
    provenance.REPETITION,
    runs.RUNS,
)
