# SPDX-License-Identifier: GPL-3.0-or-later
"""AI to quiescence of cells, by the rule of the report (docs/decisions/044-quiescence.md)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from joulerig.analysis.compare.cells import AI, Comparison
from joulerig.analysis.compare.more_joules import quiescent
from joulerig.analysis.results import power_points, run_file
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.runs import idle, over_time, quiescence
from joulerig.analysis.runs.idle import DriveLevels
from joulerig.analysis.runs.over_time import PowerOverTime

MOST_RUNS = 5000  # of which the power after the load is kept
# What is about the load: a campaign's runs would be a lot of it.
NOT_NEEDED: dict[str, Any] = {"instants": np.array([]), "watts": np.array([]), "work": None, "reported": None}


@dataclass(frozen=True)
class _Kept:
    """The part of a run that is kept. `state`: when its trace was written, how many energies."""

    state: tuple[int, int]
    power: PowerOverTime | None
    at_rest: dict[str, DriveLevels]


class AfterLoads:
    """What runs drew after their loads. Any thread may ask; each run's trace is read once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()

    def by_cell(self, campaign: Campaign, compared: Sequence[Comparison]) -> dict[str, dict[str, Any]]:
        """Return `ops_per_joule` (None: not known), `runs`, `settled` and `why` not all are."""
        kept = {run.id: self._read(campaign, run) for run in campaign.runs}
        over = {run: one.power for run, one in kept.items() if one.power}
        idles = idle.judged(campaign, {run: one.at_rest for run, one in kept.items()})
        after, cells = quiescence.by_run(campaign, over, idles), campaign.cells()
        found = {}
        for one in compared:
            for cell in one.ranking.order if one.quantity == AI else ():
                runs = [run for run in cells[cell] if run.counts]
                shown = quiescent.cell_after_load(cell, one.points[cell].ai, runs, after)
                found[cell] = {
                    "ops_per_joule": shown.to_quiescence,
                    "runs": shown.runs,
                    "settled": shown.settled,
                    "why": shown.why[0] if shown.why else "",
                }
        return found

    def _read(self, campaign: Campaign, run: Run) -> _Kept:
        trace = run.folder / "power.csv"
        try:
            state = trace.stat().st_mtime_ns, len(run.energy)
        except OSError:
            return _Kept((0, 0), None, {})
        known = self._kept.pop(trace, None)
        if known is None or known.state != state:
            try:
                power = over_time.read_run(run)
                at_rest = idle.read_run(campaign, run)
                known = _Kept(state, power and replace(power, **NOT_NEEDED), at_rest)
            except (power_points.PowerFileError, run_file.RunFileError):
                known = _Kept(state, None, {})  # 'rig verify' says what is wrong with it
        self._kept[trace] = known
        while len(self._kept) > MOST_RUNS:
            self._kept.popitem(last=False)
        return known
