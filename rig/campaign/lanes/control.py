# SPDX-License-Identifier: GPL-3.0-or-later
"""The control for cross-talk: runs that are executed alone, as others of their cell are not."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from joulerig.rig.campaign.lanes.gate import Gate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class Planned(DataclassInstance, Protocol):
        """A planned run, as far as it matters here (`definition.PlannedRun`)."""

        host: str
        drive: str
        excluded: str
        alone: bool

    Run = TypeVar("Run", bound=Planned)


def with_controls(block: Sequence[Run], generator: random.Random) -> list[Run]:
    """Return a block with a control run of each drive that has neighbours on its host.

    It is of a cell of the drive in that block, at random, and has a random place in it: neither the
    cells nor the time favour being alone.
    """
    lanes: dict[tuple[str, str], list[Run]] = {}
    for run in block:
        if not run.excluded:
            lanes.setdefault((run.host, run.drive), []).append(run)
    hosts = [host for host, _ in lanes]
    found = list(block)
    for (host, _), runs in lanes.items():
        if hosts.count(host) > 1:
            control = replace(generator.choice(runs), alone=True)
            found.insert(generator.randrange(len(found) + 1), control)
    return found


def seconds_in_lanes(runs: Sequence[tuple[str, float, bool]]) -> float:
    """Return how long a host takes for runs in lanes.

    `runs`: drive, seconds, and whether it is alone, of each in the order of the plan. They are let
    in by the rule of the execution.
    """
    left: dict[str, list[tuple[float, bool]]] = {}
    for drive, seconds, alone in reversed(runs):
        left.setdefault(drive, []).append((seconds, alone))
    gate, now = Gate(), 0.0
    order = list(dict.fromkeys(drive for drive, _, _ in runs))
    inside: list[tuple[float, str]] = []
    while True:
        for drive in order:
            if left[drive] and all(drive != one for _, one in inside):
                seconds, alone = left[drive][-1]
                if gate.enter(drive, alone=alone):
                    left[drive].pop()
                    heapq.heappush(inside, (now + seconds, drive))
        if not inside:
            return now
        now, drive = heapq.heappop(inside)
        gate.leave(drive)
