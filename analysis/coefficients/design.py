# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of a drive for a fit: of each run's load its watts, and what reached the drive a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from joulerig.analysis.coefficients.fit import Rows
from joulerig.analysis.compare.cell_runs import CellRuns
from joulerig.analysis.compare.meter_errors import MeterErrors
from joulerig.analysis.results.campaign import Campaign, Run
from joulerig.analysis.results.schema import CELL_FACTORS, IoCount, PhaseName

Place = tuple[str, str]
"""A host and one of its drives."""

TERMS = (
    "active_watts",
    "joules_per_read_byte",
    "joules_per_written_byte",
    "joules_per_request",
    "joules_per_flush",
)
"""The coefficients of a load's watts, in the order of the columns."""

ANOTHER_DRIVE = "another drive shared the run"
NOT_MEASURED = "not measured to its end"
NOT_BOUNDED = "nothing bounds what was not measured"
NOT_COUNTED = "its requests were not counted"


@dataclass(frozen=True)
class LoadRow:
    """A run's load: mean watts, and bytes, requests and flushes of the block layer a second."""

    run: Run
    watts: float
    read_bytes: float
    written_bytes: float
    requests: float
    flushes: float

    @property
    def group(self) -> str:
        """Return the load that it repeats: its cell without the scheduler, which few loads feel."""
        levels = {**self.run.factors, "drive": self.run.drive, "workload": self.run.workload}
        levels["filesystem"] = self.run.filesystem
        kept = [str(levels.pop(name)) for name in ("workload", "filesystem")]
        others = (f"{name}={level}" for name, level in levels.items() if name not in CELL_FACTORS)
        return "/".join([*kept, *others])

    @property
    def terms(self) -> tuple[float, ...]:
        """Return by what each of `TERMS` is multiplied in the load's watts."""
        return (1.0, self.read_bytes, self.written_bytes, self.requests, self.flushes)


def by_drive(campaign: Campaign) -> dict[Place, list[Run]]:
    """Return the campaign's runs that have a load, by drive, runs of arrays left out."""
    found: dict[Place, list[Run]] = {}
    for run in campaign.without_controls.runs:
        if run.performance is not None and campaign.drives(run)[0] == run.drive:
            found.setdefault((run.host, run.drive), []).append(run)
    return found


def load_rows(campaign: Campaign, runs: list[Run]) -> tuple[list[LoadRow], Counter[str]]:
    """Return the rows of a drive's runs, and why others are left out."""
    found: list[LoadRow] = []
    left_out: Counter[str] = Counter()
    for run in runs:
        one = _row(campaign, run)
        if isinstance(one, str):
            left_out[one] += 1
        else:
            found.append(one)
    return found, left_out


def _row(campaign: Campaign, run: Run) -> LoadRow | str:
    if campaign.drives(run) != [run.drive]:
        return ANOTHER_DRIVE
    phase = run.phases.get(PhaseName.WORKLOAD)
    joules = run.result.ai_joules if run.result else None
    if not run.counts or phase is None or phase.seconds <= 0 or not joules:
        return NOT_MEASURED
    if any(rail.gap_low_joules is None for rail in run.energy if rail.phase == PhaseName.WORKLOAD):
        return NOT_BOUNDED
    io = counted(run)
    if io is None or None in (io.reads, io.read_bytes, io.writes, io.write_bytes):
        return NOT_COUNTED
    flushes = (io.flushes or 0) + (io.fua_writes or 0)
    amounts = (io.read_bytes or 0, io.write_bytes or 0, (io.reads or 0) + (io.writes or 0), flushes)
    return LoadRow(run, joules / phase.seconds, *(one / phase.seconds for one in amounts))


def counted(run: Run) -> IoCount | None:
    """Return what the block layer of the test host passed to the run's drive."""
    return run.block_counts(run.drive) or run.io.get("host")


def rows(campaign: Campaign, loads: list[LoadRow]) -> Rows:
    """Return the rows as arrays, with what the meter may do to them. `loads`: one at least."""
    watts = np.array([load.watts for load in loads])
    errors = MeterErrors(campaign).of_runs(CellRuns([load.run for load in loads]))
    common: dict[Hashable, np.ndarray] = {source: shares * watts for source, shares in errors.common.items()}
    return Rows(
        TERMS,
        np.array([load.terms for load in loads]),
        watts,
        [load.group for load in loads],
        errors.own * watts,
        common,
    )
