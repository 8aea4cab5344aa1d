# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a run that series and bisections follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from joulerig.analysis.results.campaign import Run


@dataclass(frozen=True)
class Figure:
    """A figure of a run's load, above 0.

    `metered`: it rests on joules, so that what the meters have wrong is part of it. `of`: its value
    for a run; None where the run has none.
    """

    name: str
    title: str
    unit: str
    metered: bool
    of: Callable[[Run], float | None]


def _work_per_joule(run: Run) -> float | None:
    amounts = run.load_amounts
    return amounts.ops / amounts.joules if run.counts and amounts.ops and amounts.joules else None


def _speed(run: Run) -> float | None:
    amounts = run.load_amounts
    if not (run.counts or run.unmetered) or not amounts.ops or not amounts.seconds:
        return None
    return amounts.ops / amounts.seconds


def _watts(run: Run) -> float | None:
    amounts = run.load_amounts
    if not run.counts or not amounts.joules or not amounts.phase_seconds:
        return None
    return amounts.joules / amounts.phase_seconds


FIGURES: Mapping[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("work-per-joule", "work per joule", "ops/J", True, _work_per_joule),
        Figure("speed", "speed", "ops/s", False, _speed),
        Figure("watts", "power", "W", True, _watts),
    )
}
DEFAULT = "work-per-joule"
