# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a campaign will still take, from how long its runs took."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from types import MappingProxyType
from typing import Any

from joulerig.analysis.results.schema import WORKED, Status, is_control

Run = dict[str, Any]
Settlings = Mapping[str, Mapping[str, Any]]


def is_settling(run: Run, settlings: Settlings) -> bool:
    """Return whether the drive of a run is being preconditioned."""
    return run["id"] in settlings and settlings[run["id"]]["ended_ns"] is None


def remaining_seconds(
    runs: Sequence[Run],
    now_ns: int,
    settlings: Settlings = MappingProxyType({}),
    *,
    side_by_side: bool = False,
) -> float | None:
    """Return the seconds until the last host is done; None while no run has been measured.

    They are of the clock on the wall, also where a virtual lab goes in slow motion.

    A run is assumed to take the median time of the finished runs of its workload (of all finished
    runs when its workload has none yet), plus the median pause between two runs of a host. Hosts
    work in parallel, so the slowest counts. `side_by_side`: so do the drives of a host, but for
    runs that have it alone.

    Preconditions (`Journal.read`'s `settlings`) are not part of a run's time; one under way is
    assumed to take its longest time. Preconditions that may follow are not in the estimate.
    """
    lasted: dict[str, list[float]] = defaultdict(list)  # by the lab's clock
    stretched: list[float] = []  # how many times longer a run took by the clock on the wall
    runs_by_host: dict[str, list[Run]] = defaultdict(list)  # of a lane, its drive as well
    alone: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if side_by_side and is_control(json.loads(run["factors"])):
            alone[run["host"]].append(run)
        else:
            runs_by_host[f"{run['host']} {run['drive']}" if side_by_side else run["host"]].append(run)
        if run["status"] in WORKED and _timed(run):
            took = (run["ended_ns"] - _begun_ns(run, settlings, now_ns)) / 1e9
            lasted[run["workload"]].append(took)
            stretched.append(1 + run["slow_seconds"] / took if took > 0 else 1.0)
    waiting = [run for run in runs if run["status"] in (Status.PLANNED, Status.RUNNING)]
    if not waiting:
        return 0.0
    if not lasted:
        return None
    overall = median([seconds for times in lasted.values() for seconds in times])
    typical = {workload: median(times) for workload, times in lasted.items()}
    pause, stretch = _median_pause(runs_by_host), median(stretched)

    def seconds_left(of: Sequence[Run]) -> float:
        left = 0.0
        for run in of:
            seconds = typical.get(run["workload"], overall)
            if run["status"] == Status.PLANNED:
                left += stretch * seconds + pause
            elif run["status"] == Status.RUNNING:
                spent = (now_ns - _begun_ns(run, settlings, now_ns)) / 1e9
                left += stretch * max(seconds - spent, 0.0)
                if is_settling(run, settlings):
                    settling = settlings[run["id"]]
                    spent = (now_ns - settling["began_ns"]) / 1e9
                    left += max(settling["at_most_seconds"] - spent, 0.0)
        return left

    return max(seconds_left([*of, *alone[of[0]["host"]]]) for of in runs_by_host.values())


def _begun_ns(run: Run, settlings: Settlings, now_ns: int) -> int:
    """Return when a run itself began.

    After its drive's precondition, which ends now at the earliest.
    """
    if run["id"] in settlings:
        return settlings[run["id"]]["ended_ns"] or now_ns
    return now_ns if run["started_ns"] is None else run["started_ns"]


def _timed(run: Run) -> bool:
    return run["started_ns"] is not None and run["ended_ns"] is not None


def _median_pause(runs_by_host: dict[str, list[Run]]) -> float:
    pauses = []
    for runs in runs_by_host.values():
        timed = sorted((run for run in runs if _timed(run)), key=lambda run: run["started_ns"])
        pauses += [
            (after["started_ns"] - before["ended_ns"]) / 1e9
            for before, after in pairwise(timed)
            if after["started_ns"] >= before["ended_ns"]
        ]
    return median(pauses) if pauses else 0.0
