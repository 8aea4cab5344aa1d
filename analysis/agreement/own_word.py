# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives that measure their own power read of a run's phases, as a method among others."""

from __future__ import annotations

from collections.abc import Mapping

from joulerig.analysis.agreement.reading import Key, Reading
from joulerig.analysis.audit import rails, readings
from joulerig.analysis.results import power_points
from joulerig.analysis.results.campaign import Campaign, ResultsError, Run
from joulerig.analysis.results.schema import WORKED, PhaseName

METHOD = "the drive's own word"
_WRONG = (
    ArithmeticError, AttributeError, LookupError, ResultsError, TypeError, ValueError,
    power_points.PowerFileError,
)  # fmt: skip


def is_there(campaign: Campaign) -> bool:
    """Return whether a drive measured itself in any run; it costs less than its readings."""
    return any(map(_has_measurement, campaign.runs))


def _has_measurement(run: Run) -> bool:
    try:
        return any(one.get("measurement") for one in run.power_reports or [])
    except _WRONG:
        return False


def of_campaign(campaign: Campaign, measured: Mapping[Key, Reading]) -> dict[Key, Reading]:
    """Return the drives' own readings of phases that their rails' meters have `measured`.

    A drive measures whole seconds of a phase. What it reports, over what its rails had in the same
    seconds, times their energy of the phase, is its reading of the phase; the uncertainty is the
    error that it states, and what the ends of its seconds leave open. Damaged reports are left out:
    `rig drives audit` names them.
    """
    found: dict[Key, Reading] = {}
    for run in campaign.without_controls.runs:
        if run.status in WORKED:
            for drive in campaign.drives(run):
                try:
                    found.update(_of_run(campaign, run, drive, measured))
                except _WRONG:
                    continue
    return found


def _of_run(campaign: Campaign, run: Run, drive: str, measured: Mapping[Key, Reading]) -> dict[Key, Reading]:
    reports = readings.of_run(run.id, drive, run.workload, run.power_reports or [], run.clock[0])
    intervals = [one for one in reports.readings if one.quantity == readings.INTERVAL]
    frame = power_points.read(run.folder / "power.csv") if intervals else None
    if frame is None:
        return {}
    power = rails.power_of(campaign, run, drive, frame)
    found = {}
    for one in intervals:
        key = (drive, run.id, PhaseName.WORKLOAD if one.condition == run.workload else one.condition)
        compared = rails.compare(one, power)
        if compared is None or key not in measured:
            continue
        joules = compared.ratio * measured[key].joules
        expanded = None
        if one.error_percent is not None:
            expanded = joules * (one.error_percent / 100 + rails.open_share([compared]))
        found[key] = Reading(joules, expanded)
    return found
