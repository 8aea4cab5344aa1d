# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a cell as arrays: what comparisons compute with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.results.campaign import Run

Place = tuple[str, str, str, str]  # host, drive, rail, meter
_OF_RAIL = (
    "joules",
    "gap_seconds",
    "gap_low_joules",
    "gap_high_joules",
    "interpolation_joules",
    "alignment_joules",
    "product_joules",
    "meter_joules",
    "volt_seconds",
    "amp_seconds",
)
_values_of = attrgetter(*_OF_RAIL)
_performance_of = attrgetter("ops", "seconds", "bytes_moved")


class Rails:
    """Energy of the loads of runs, one entry a run and rail, run by run; NaN: not known.

    `of_run`: the position of the run. `of_place`: that of host, drive, rail and meter in `places`.
    `correction`: what the run's AI counts of the rail's gaps, in joules. The others are as the
    journal's table `energy` has them.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        numbers: dict[Place, int] = {}
        of_run, of_place, values = [], [], []
        for number, run in enumerate(runs):
            for rail in run.workload_rails:
                place = (run.host, rail.drive, rail.rail, rail.meter)
                of_run.append(number)
                of_place.append(numbers.setdefault(place, len(numbers)))
                values.append((run.gap_correction(rail), *_values_of(rail)))
        self.of_run = np.array(of_run, dtype=np.intp)
        self.of_place = np.array(of_place, dtype=np.intp)
        self.places = list(numbers)
        (
            self.correction,
            self.joules,
            self.gap_seconds,
            self.gap_low,
            self.gap_high,
            self.interpolation,
            self.alignment,
            self.product,
            self.meter,
            self.volt_seconds,
            self.amp_seconds,
        ) = np.array(values, dtype=float).reshape(len(values), 1 + len(_OF_RAIL)).T.copy()

    def __len__(self) -> int:
        return len(self.of_run)


class CellRuns:
    """Runs of one cell, one entry a run in each array; NaN: not known.

    Of runs without performance, `ops`, `seconds` and `bytes_moved` cannot be asked for.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs

    def __len__(self) -> int:
        return len(self.runs)

    def amount(self, name: str) -> NDArray[np.float64]:
        """Return one of ops, seconds, bytes_moved and joules."""
        found: NDArray[np.float64] = getattr(self, name)
        return found

    @cached_property
    def blocks(self) -> list[int]:
        return [run.block for run in self.runs]

    @cached_property
    def joules(self) -> NDArray[np.float64]:
        """Return the joules that the runs' AI is of."""
        return np.array([run.result.ai_joules if run.result else None for run in self.runs], dtype=float)

    @property
    def ops(self) -> NDArray[np.float64]:
        return self._done[0]

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Return how long the loads took, by their own reports."""
        return self._done[1]

    @property
    def bytes_moved(self) -> NDArray[np.float64]:
        return self._done[2]

    @property
    def phase_seconds(self) -> NDArray[np.float64]:
        """Return how long the workload phases took, on the controller's clock."""
        return self._phases[0]

    @property
    def phase_starts(self) -> NDArray[np.int64]:
        """Return when they began, UTC ns; 0 without one."""
        return self._phases[1]

    @cached_property
    def rails(self) -> Rails:
        return Rails(self.runs)

    @cached_property
    def _done(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        values = [_performance_of(run.performance) for run in self.runs]
        ops, seconds, moved = np.array(values, dtype=float).reshape(len(values), 3).T.copy()
        return ops, seconds, moved

    @cached_property
    def _phases(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        phases = [run.workload_phase for run in self.runs]
        seconds = [None if phase is None else phase.seconds for phase in phases]
        starts = [0 if phase is None else phase.start_ns for phase in phases]
        return np.array(seconds, dtype=float), np.array(starts, dtype=np.int64)
