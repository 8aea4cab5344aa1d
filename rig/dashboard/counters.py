# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates from cumulative counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rates(seconds: Floats, counts: Floats, longest_gap_seconds: float) -> Floats:
    """Return rates per second (c, n) of cumulative counters.

    `seconds` (n,) are the times of the readings, NaN where there was none; `counts` (c, n) the
    counters then. The rate at a reading is what was counted since the previous reading, per second:
    no count is lost or taken twice. NaN where there is no reading, none before it within
    `longest_gap_seconds`, or where any counter stepped back: counting restarted, and what happened
    across that is unknown.
    """
    result = np.full(counts.shape, np.nan)
    have = np.flatnonzero(~np.isnan(seconds))
    if len(have) < 2:
        return result
    elapsed = np.diff(seconds[have])
    counted = np.diff(counts[:, have], axis=1)
    known = (elapsed > 0) & (elapsed <= longest_gap_seconds) & (counted >= 0).all(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        result[:, have[1:]] = np.where(known, counted / elapsed, np.nan)
    return result
