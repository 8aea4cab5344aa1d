# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells that are compared and of whose loads a notably different share was not measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.results.schema import Cell

# A fifth of what a run may lose by default (loss_limit_percent): what the lost time drew beyond or
# below the mean is then some tenths of a percent of a cell's joules at most.
NOTABLE = 0.002


def unmeasured_share(runs: CellRuns) -> float | None:
    """Return the share of the runs' loads in which their rails were not measured; None: no rail."""
    seconds = runs.phase_seconds[runs.rails.of_run]
    known = ~np.isnan(seconds)
    whole = math.fsum(seconds[known].tolist())
    return math.fsum(runs.rails.gap_seconds[known].tolist()) / whole if whole > 0 else None


def warning(cells: Mapping[str, Cell], counted: Mapping[str, CellRuns]) -> str:
    """Return what a reader of a comparison has to know of its cells' losses; empty: nothing.

    `cells`: those compared, by name; `counted`: the runs that count, by the same names.
    """
    shares = {cell: unmeasured_share(runs) for cell, runs in counted.items() if len(runs)}
    known = {cell: share for cell, share in shares.items() if share is not None}
    if not known:
        return ""
    least, most = (extreme(known, key=lambda cell: known[cell]) for extreme in (min, max))
    if known[most] - known[least] < NOTABLE:
        return ""
    ends = [f"{100 * known[cell]:.2f} % of {cells[cell].combination}" for cell in (least, most)]
    return (
        f"Cells lost notably different shares of their samples, from {ends[0]} to {ends[1]}: joules are"
        " corrected by the middle of what gaps can have drawn, and differences allow for all of it."
    )
