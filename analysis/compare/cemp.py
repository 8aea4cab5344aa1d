# SPDX-License-Identifier: GPL-3.0-or-later
"""Cemp: how energy changes with performance, at the combinations that stand out.

Sun, Qin, Xie 2014 (doi 10.1631/jzus.C1300314) study "the changes of energy consumption and mean
performance" at the combination with the largest AI, the lowest power and the highest performance;
the text found gives no formula. The shipped one is inferred, and its name says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

DEFINITION = "dE/dP, inferred"


def _slope(energy: float, performance: float) -> float | None:
    return energy / performance if performance != 0 else None


# By name: from dE and dP to Cemp, None where it has no value. Replace it where the true one is
# known.
DEFINITIONS: dict[str, Callable[[float, float], float | None]] = {DEFINITION: _slope}


@dataclass(frozen=True)
class Point:
    """A cell: its performance (ops/s), AI (ops/J) and mean power (W)."""

    performance: float
    ai: float
    watts: float


@dataclass(frozen=True)
class Change:
    """The change at one anchor.

    `energy` (dE) and `performance` (dP) are relative to the means over all cells.
    """

    anchor: str
    cell: str
    energy: float
    performance: float
    cemp: float | None


_ANCHORS: Sequence[tuple[str, Callable[[Point], float]]] = (
    ("largest AI", lambda point: point.ai),
    ("lowest power", lambda point: -point.watts),
    ("highest performance", lambda point: point.performance),
)


def changes(points: Mapping[str, Point], definition: str = DEFINITION) -> list[Change]:
    """Compute dE, dP and Cemp at the three anchors, over the cells of one drive and workload.

    ``dE = W / mean(W) - 1`` and ``dP = performance / mean(performance) - 1``, the means over all
    cells; power stands for energy, as all cells are loaded for the same time. Empty with fewer than
    two cells, or means that are not positive. Raises KeyError for a definition that is not in
    `DEFINITIONS`.
    """
    formula = DEFINITIONS[definition]
    if len(points) < 2:
        return []
    watts = fmean(point.watts for point in points.values())
    performance = fmean(point.performance for point in points.values())
    if not (watts > 0 and performance > 0):
        return []
    found = []
    for anchor, merit in _ANCHORS:
        cell = max(points, key=lambda name: merit(points[name]))
        energy, speed = points[cell].watts / watts - 1, points[cell].performance / performance - 1
        found.append(Change(anchor, cell, energy, speed, formula(energy, speed)))
    return found
