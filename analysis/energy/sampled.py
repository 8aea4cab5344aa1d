# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy of a polled meter as a sample: how far chance can have moved its readings' mean.

What a rail drew between two readings is bounded by its supply alone. Where the instants of the
readings have nothing to do with the load, they are a sample of its power, and their mean has an
interval by its spread over blocks of readings (W. G. Cochran, Sampling Techniques, 3rd ed., 1977,
chapter 8). That is an assumption, tested in two ways: the readings' instants vary by so much that
within a block they pass through the whole interval between two, which a load in step with the
meter's polls cannot follow; and neighbouring blocks do not resemble each other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
FEWEST_BLOCKS, FEWEST_READINGS = 10, 5  # readings of a block
MOST_REPEATED = 0.1  # of the readings: the instrument then measures at its own instants
_ALIKE = 1.645  # standard errors of a correlation of blocks that are independent: one in twenty


def half_width(seconds: NDArray[np.float64], joules: NDArray[np.float64], repeated: float) -> float | None:
    """Compute half of the 95 % interval of the energy over readings, in joules.

    Parameters
    ----------
    seconds, joules : arrays of float, (readings,)
        The readings' instants, and the energy up to each by their trapezoids.
    repeated : float
        The share of the readings that the instrument had given before.

    Returns
    -------
    float or None
        None where the readings are not shown to be a sample: too few, at instants that are too
        regular, repeated, or in blocks that resemble their neighbours however long they are. Of the
        sampling alone: the meter's own errors are not in it.
    """
    gaps = np.diff(seconds)
    if len(gaps) < FEWEST_BLOCKS * FEWEST_READINGS or repeated > MOST_REPEATED or gaps.std() == 0:
        return None
    from scipy import special  # here, as every reader of a journal would wait for its import

    # Deviations add up: after this many the instants are an interval off a regular poll's.
    length = max(FEWEST_READINGS, math.ceil((gaps.mean() / gaps.std()) ** 2))
    while (blocks := len(gaps) // length) >= FEWEST_BLOCKS:
        ends = np.linspace(0, len(gaps), blocks + 1).round().astype(int)
        watts = np.diff(joules[ends]) / np.diff(seconds[ends])
        if _correlation(watts) <= _ALIKE / math.sqrt(blocks):
            reach = float(special.stdtrit(blocks - 1, (1 + CONFIDENCE) / 2))
            spread = float(watts.std(ddof=1)) / math.sqrt(blocks)
            return reach * spread * float(seconds[-1] - seconds[0])
        length *= 2
    return None


def _correlation(values: NDArray[np.float64]) -> float:
    """Return the correlation of neighbouring values; 0 where they do not differ."""
    off = values - values.mean()
    square = float(off @ off)
    return float(off[1:] @ off[:-1]) / square if square > 0 else 0.0
