# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a cell as arrays: what comparisons compute with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from joulerig.analysis.energy.interval import gap_correction, product_correction
from joulerig.analysis.results.campaign import RAIL_AMOUNTS, Run

Place = tuple[str, str, str, str]  # host, drive, rail, meter
_VALUES = RAIL_AMOUNTS.index("joules")  # where the values begin
_LOW, _HIGH, _PRODUCT = map(RAIL_AMOUNTS.index, ("gap_low_joules", "gap_high_joules", "product_joules"))
_AMOUNTS = ("ops", "seconds", "bytes_moved", "joules", "phase_seconds")
_amounts_of = attrgetter(*_AMOUNTS)


class Rails:
    """Energy of the loads of runs, one entry a run and rail, run by run; NaN: not known.

    `of_run`: the position of the run. `of_place`: that of host, drive, rail and meter in `places`.
    `gap_correction`, `product_correction`: what the run's AI has for the rail's gaps and for its
    product of means, in joules. The others are as the journal's table `energy` has them.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        numbers: dict[Place, int] = {}
        of_run, of_place, gaps, products, values = [], [], [], [], []
        for number, run in enumerate(runs):
            corrected = run.load_amounts.corrected
            for rail in run.rail_amounts:
                of_run.append(number)
                of_place.append(numbers.setdefault((run.host, *rail[:_VALUES]), len(numbers)))
                gaps.append(gap_correction(rail[_LOW], rail[_HIGH]) if corrected else 0.0)
                products.append(product_correction(rail[_PRODUCT]) if corrected else 0.0)
                values.append(rail[_VALUES:])
        self.of_run = np.array(of_run, dtype=np.intp)
        self.of_place = np.array(of_place, dtype=np.intp)
        self.places = list(numbers)
        self.gap_correction = np.array(gaps, dtype=float)
        self.product_correction = np.array(products, dtype=float)
        (
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
            self.samples,
            self.spread_watts,
        ) = np.array(values, dtype=float).reshape(len(values), len(RAIL_AMOUNTS) - _VALUES).T.copy()

    def __len__(self) -> int:
        return len(self.of_run)


class CellRuns:
    """Runs of one cell, one entry a run in each array; NaN: not known."""

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

    @property
    def ops(self) -> NDArray[np.float64]:
        return self._amounts[0]

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Return how long the loads took, by their own reports."""
        return self._amounts[1]

    @property
    def bytes_moved(self) -> NDArray[np.float64]:
        return self._amounts[2]

    @property
    def joules(self) -> NDArray[np.float64]:
        """Return the joules that the runs' AI is of."""
        return self._amounts[3]

    @property
    def phase_seconds(self) -> NDArray[np.float64]:
        """Return how long the workload phases took, on the controller's clock."""
        return self._amounts[4]

    @cached_property
    def phase_starts(self) -> NDArray[np.int64]:
        """Return when they began, UTC ns; 0 without one."""
        return np.array([run.load_amounts.phase_start_ns for run in self.runs], dtype=np.int64)

    @cached_property
    def rails(self) -> Rails:
        return Rails(self.runs)

    @cached_property
    def _amounts(self) -> list[NDArray[np.float64]]:
        values = [_amounts_of(run.load_amounts) for run in self.runs]
        return list(np.array(values, dtype=float).reshape(len(values), len(_AMOUNTS)).T.copy())
