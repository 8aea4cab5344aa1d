# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a campaign will still take, from how long its runs took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

Run = dict[str, Any]


def remaining_seconds(runs: Sequence[Run], now_ns: int) -> float | None:
    """Seconds until the last host is through, or None while no run has been measured to judge by.

    A run is taken to last the median of the finished runs of its workload (of all finished runs when its
    workload has none yet), plus the median pause between two runs of a host. Hosts work in parallel, so the
    slowest counts.
    """
    lasted: dict[str, list[float]] = defaultdict(list)
    of_host: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        of_host[run["host"]].append(run)
        if run["status"] in ("ok", "partial") and _timed(run):
            lasted[run["workload"]].append((run["ended_ns"] - run["started_ns"]) / 1e9)
    waiting = [run for run in runs if run["status"] in ("planned", "running")]
    if not waiting:
        return 0.0
    if not lasted:
        return None
    overall = median([seconds for times in lasted.values() for seconds in times])
    typical = {workload: median(times) for workload, times in lasted.items()}
    pause = _median_pause(of_host)

    def of(host: str) -> float:
        left = 0.0
        for run in of_host[host]:
            seconds = typical.get(run["workload"], overall)
            if run["status"] == "planned":
                left += seconds + pause
            elif run["status"] == "running":
                begun = now_ns if run["started_ns"] is None else run["started_ns"]
                left += max(seconds - (now_ns - begun) / 1e9, 0.0)
        return left

    return max(of(host) for host in of_host)


def _timed(run: Run) -> bool:
    return run["started_ns"] is not None and run["ended_ns"] is not None


def _median_pause(of_host: dict[str, list[Run]]) -> float:
    pauses = []
    for runs in of_host.values():
        timed = sorted((run for run in runs if _timed(run)), key=lambda run: run["started_ns"])
        pauses += [
            (after["started_ns"] - before["ended_ns"]) / 1e9
            for before, after in pairwise(timed)
            if after["started_ns"] >= before["ended_ns"]
        ]
    return median(pauses) if pauses else 0.0
