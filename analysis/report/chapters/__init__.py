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
    drift,
    energy,
    load_courses,
    power_cuts,
    power_trace,
    precision,
    provenance,
    runs,
    steady_state,
    study,
    summary,
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
    precision.PRECISION,
    power_trace.POWER_TRACE,
    load_courses.LOAD_COURSES,
    drift.DRIFT,
    energy.TRUE_JOULES,
    energy.LOSSES,
    energy.INTERVALS,
    steady_state.STEADY_STATE,
    energy.IDLE_BASELINE,
    runs.NOT_RUN,
    provenance.PROVENANCE,
    provenance.REPETITION,
    runs.RUNS,
)
