# SPDX-License-Identifier: GPL-3.0-or-later
"""The Pareto front of performance against power."""

from __future__ import annotations

from collections.abc import Mapping

FEWEST_RUNS = 2  # of a cell that is named: a single reading shows nothing of its scatter


def named(points: Mapping[str, tuple[float, float]], runs: Mapping[str, int]) -> list[str]:
    """Return the cells of the `front` that have at least `FEWEST_RUNS` runs. `runs`: by cell."""
    return [cell for cell in front(points) if runs[cell] >= FEWEST_RUNS]


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names of the points that no other one beats, by rising watts.

    `points`: (performance, watts) by name. One beats another where it is at least as fast with no
    more watts, and better in one of the two; points that are alike are in the front together.
    """
    found: list[str] = []
    fastest, at_watts = float("-inf"), float("nan")
    for name, (performance, watts) in sorted(points.items(), key=lambda item: (item[1][1], -item[1][0])):
        if performance > fastest or (performance, watts) == (fastest, at_watts):
            found.append(name)
            fastest, at_watts = performance, watts
    return found
