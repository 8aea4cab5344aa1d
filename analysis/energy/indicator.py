# SPDX-License-Identifier: GPL-3.0-or-later
"""The aggregative indicator: work per joule, of a run and of a cell.

AI = performance / energy, larger is better: Sun, Qin, Xie 2014, Journal of Zhejiang University
SCIENCE C 15(8):607-621, doi 10.1631/jzus.C1300314, with performance in MB/s or IOPS. Mean
performance over mean power is work per joule, ops/s / W = ops/J and MB/s / W = MB/J: these two
forms are used here. MB is 10**6 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RunIndicator:
    """The indicator of one run's workload phase; None where there are no joules to divide by."""

    mean_watts: float | None
    ops_per_joule: float | None
    mb_per_joule: float | None


def moved(read_bytes: int | None, write_bytes: int | None) -> int | None:
    """Return bytes read plus written; None where either is not known."""
    return None if read_bytes is None or write_bytes is None else read_bytes + write_bytes


def total(values: Sequence[float | None]) -> float | None:
    """Sum values of rails or runs; None where one is not known, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def run_indicator(*, ops: int, bytes_moved: int | None, seconds: float, joules: float | None) -> RunIndicator:
    """Compute the AI of a run.

    Parameters
    ----------
    ops, bytes_moved : int
        Operations, and bytes read plus written, that the workload itself counted; None: it counts
        no bytes.
    seconds : float
        Duration of the workload phase.
    joules : float or None
        Energy of the drive over the workload phase, all rails; None without a measurement.

    Returns
    -------
    RunIndicator
        All None without joules. Joules of zero or less are a measurement, and mean power is shown,
        but work per joule has no meaning then: None.
    """
    if joules is None:
        return RunIndicator(None, None, None)
    watts = joules / seconds if seconds > 0 else None
    if not joules > 0:
        return RunIndicator(watts, None, None)
    megabytes_per_joule = bytes_moved / 1e6 / joules if bytes_moved is not None else None
    return RunIndicator(watts, ops / joules, megabytes_per_joule)


def within_energy(work: float | None, low: float | None, high: float | None) -> tuple[float, float] | None:
    """Return the least and greatest work per joule of an energy from `low` to `high` joules.

    Of the energy's interval alone: what the work varies by from run to run is not in it. None where
    the energy or the work is not known, and where the interval reaches zero: there is no greatest
    then.
    """
    if work is None or low is None or high is None or not low > 0:
        return None
    return work / high, work / low


@dataclass(frozen=True)
class Spread:
    """A ratio over the replicates of a cell.

    `mean` is the ratio of sums; `standard_deviation` (n - 1), `least` and `greatest` are of the
    runs' own ratios; `relative_spread` is standard_deviation / |mean|. With one run there is no
    spread: both are None, not zero.
    """

    n: int
    mean: float | None
    standard_deviation: float | None
    least: float | None
    greatest: float | None
    relative_spread: float | None


def ratio_of_sums(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Compute a cell's ratio from those of its runs: sum of numerators / sum of denominators.

    Why not the mean of the runs' ratios: work per joule of a cell is all its work over all its
    joules; the ratio of sums is that, its bias falls with the number of runs while that of a mean
    of ratios does not, and figures of one cell stay consistent: (ops/s of the cell) / (W of the
    cell) is its ops/J, exactly. It is the mean of the runs' ratios weighted by joules, so it lies
    between the least and the greatest of them, and where replicates draw nearly the same energy the
    two agree to second order (Cochran, Sampling Techniques, 3rd ed., chapter 6).

    Parameters
    ----------
    numerators, denominators : sequences of float, of one length
        One pair a run; denominators positive. Give only runs that are to count.

    Raises
    ------
    ValueError
        Lengths that differ, or a denominator that is not positive and finite.
    """
    top, bottom = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    if top.shape != bottom.shape or top.ndim != 1:
        raise ValueError(f"{top.shape} numerators and {bottom.shape} denominators")
    if not np.all(np.isfinite(bottom) & (bottom > 0)):
        raise ValueError("a denominator is not positive and finite")
    if len(top) == 0:
        return Spread(0, None, None, None, None, None)
    ratios = top / bottom
    mean = float(math.fsum(top) / math.fsum(bottom))
    deviation = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None
    return Spread(
        n=len(ratios),
        mean=mean,
        standard_deviation=deviation,
        least=float(ratios.min()),
        greatest=float(ratios.max()),
        relative_spread=deviation / abs(mean) if deviation is not None and mean != 0 else None,
    )


@dataclass(frozen=True)
class Measured:
    """What AI needs of a run that finished.

    `joules` is None where its drives have no rail, `bytes_moved` where its workload does not count
    them.
    """

    ops: int
    bytes_moved: int | None
    seconds: float
    joules: float | None


@dataclass(frozen=True)
class CellIndicator:
    """The indicator of the runs of one cell that finished with joules.

    Where none has any, performance alone.
    """

    ops_per_joule: Spread
    mb_per_joule: Spread
    ops_per_second: Spread
    mb_per_second: Spread
    watts: Spread


def cell_indicator(runs: Sequence[Measured]) -> CellIndicator:
    """Compute AI, performance and power of a cell.

    Runs whose joules are not positive are left out of all five. All five are of the same runs, so
    that they divide into each other; see `ratio_of_sums`. Where no run has joules, as on a drive
    without rails, AI and power are of none, performance is of all. Where a run's bytes are not
    known there is nothing of bytes.
    """
    timed = [run for run in runs if run.seconds > 0]
    measured = [run for run in timed if run.joules is not None and run.joules > 0]
    unmetered = not measured and all(run.joules is None for run in timed)
    runs = timed if unmetered else measured
    ops = [run.ops for run in runs]
    megabytes = [run.bytes_moved / 1e6 for run in runs if run.bytes_moved is not None]
    counted = len(megabytes) == len(runs)
    seconds = [run.seconds for run in runs]
    joules = [run.joules for run in measured if run.joules is not None]
    none = ratio_of_sums([], [])
    return CellIndicator(
        ops_per_joule=none if unmetered else ratio_of_sums(ops, joules),
        mb_per_joule=none if unmetered or not counted else ratio_of_sums(megabytes, joules),
        ops_per_second=ratio_of_sums(ops, seconds),
        mb_per_second=ratio_of_sums(megabytes, seconds) if counted else none,
        watts=none if unmetered else ratio_of_sums(joules, seconds),
    )
