# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles of latency histograms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def quantiles(histograms: Iterable[Mapping[str, int]], fractions: Iterable[float]) -> list[float | None]:
    """Return quantiles, in seconds, of several histograms {ns: count} taken together.

    None where all of them are empty.
    """
    merged: dict[int, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            merged[int(value)] = merged.get(int(value), 0) + count
    total = sum(merged.values())
    found: list[float | None] = []
    for fraction in fractions:
        seen = 0
        quantile: float | None = None
        for nanoseconds in sorted(merged):
            seen += merged[nanoseconds]
            if seen >= fraction * total:
                quantile = nanoseconds / 1e9
                break
        found.append(quantile)
    return found
