# SPDX-License-Identifier: GPL-3.0-or-later
"""How warm a run's drives were when it began and when it ended, by their own health reports."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from joulerig.analysis.results.campaign import Campaign, ResultsError, Run

ZERO_KELVIN = 273  # as drives convert: NVMe's composite temperature is in whole kelvins


@dataclass(frozen=True)
class Temperatures:
    """Degrees Celsius of the warmest of a run's drives; None where none reports any.

    `start`: before mkfs. `end`: after the tail.
    """

    start: float | None
    end: float | None


def of_run(campaign: Campaign, run: Run) -> Temperatures:
    """Return a run's temperatures. A damaged file is as none: `damaged_files` names it."""
    drives = campaign.drives(run)
    found: list[float | None] = []
    for name in ("health_before", "health_after"):
        report: Mapping[str, Any] = {}
        with contextlib.suppress(ResultsError):
            report = getattr(run, name)
        reports = [report.get(drive) for drive in drives] if len(drives) > 1 else [report]
        known = [value for one in reports if (value := celsius(one)) is not None]
        found.append(max(known, default=None))
    return Temperatures(*found)


def by_run(campaign: Campaign) -> dict[str, Temperatures]:
    """Return the temperatures of each run, by run."""
    return {run.id: of_run(campaign, run) for run in campaign.runs}


def damaged_files(campaign: Campaign) -> list[str]:
    """Return which health reports of runs cannot be read."""
    damaged = []
    for run in campaign.runs:
        for name in ("health_before", "health_after"):
            try:
                getattr(run, name)
            except ResultsError as error:
                damaged.append(str(error))
    return damaged


def celsius(report: Any) -> float | None:
    """Return the degrees Celsius in a health report; None where it has none.

    The report is the JSON of nvme smart-log (`temperature` in kelvins; 0: not reported) or of
    smartctl (`temperature.current` in degrees Celsius).
    """
    found = report.get("temperature") if isinstance(report, Mapping) else None
    if isinstance(found, Mapping):
        current = found.get("current")
        return float(current) if _is_number(current) else None
    return float(found - ZERO_KELVIN) if _is_number(found) and found > 0 else None


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
