# SPDX-License-Identifier: GPL-3.0-or-later
"""What a load did, in the terms of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from joulerig.analysis.energy import indicator


@dataclass(frozen=True)
class Performance:
    """Work of a whole load; None where its report does not tell. `unit`: what one of its ops is.

    `figure`: the figure of merit by which a program of others is known; `figure_better`: higher or lower.
    """

    ops: int
    read_bytes: int | None
    write_bytes: int | None
    syncs: int | None
    latency_p50_seconds: float | None
    latency_p99_seconds: float | None
    unit: str = "operation"
    figure_name: str | None = None
    figure_unit: str | None = None
    figure: float | None = None
    figure_better: str | None = None

    def row(self, seconds: float) -> dict[str, Any]:
        """The journal's `performance` row, without `run`. Raises ZeroDivisionError where it took no time."""
        moved = indicator.moved(self.read_bytes, self.write_bytes)
        return {
            "seconds": seconds,
            "ops_per_second": self.ops / seconds,
            "mb_per_second": moved / 1e6 / seconds if moved is not None else None,
            **asdict(self),
        }


def quantiles(histograms: Iterable[Mapping[str, int]], fractions: Iterable[float]) -> list[float | None]:
    """Quantiles, in seconds, of several histograms {ns: count} taken together; None where all are empty."""
    merged: dict[int, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            merged[int(value)] = merged.get(int(value), 0) + count
    total = sum(merged.values())
    found: list[float | None] = []
    for fraction in fractions:
        seen = 0
        answer = None
        for value in sorted(merged):
            seen += merged[value]
            if seen >= fraction * total:
                answer = value / 1e9
                break
        found.append(answer)
    return found
