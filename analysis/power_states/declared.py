# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive declared of its power states, by a run's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Run


@dataclass(frozen=True)
class State:
    """A power state, as Identify Controller has it.

    `watts`: the most that it draws, None where the drive does not say. `serves`: whether the drive
    works in it (operational). `entry_seconds`, `exit_seconds`: the longest that entering and
    leaving it take.
    """

    number: int
    watts: float | None
    serves: bool
    entry_seconds: float
    exit_seconds: float


@dataclass(frozen=True)
class Rest:
    """Where a drive goes that is left alone.

    `first`, `deepest`: the state that it enters first, and the one in which it stays.
    `idle_seconds`: without work, until it begins to enter the first one.
    """

    first: State
    deepest: State
    idle_seconds: float


@dataclass(frozen=True)
class Declared:
    """The states of a drive in a run. `working`: the one that it works in, None where not known.

    `rest` is None where the drive has no table of transitions, or one that is off or empty.
    """

    states: tuple[State, ...] = ()
    working: State | None = None
    rest: Rest | None = None


def of_run(run: Run, drive: str) -> Declared:
    """Return what a drive declared; nothing of one that has no such states. Raises ResultsError.

    As drives are asked when a run has set everything, one that rests by itself may answer with the
    state that it rests in: then the one it works in is that of the run's factor, or not known.
    """
    of_drives = meters.subtree(run.settings, "power").get("drive")
    found = of_drives.get(drive, of_drives) if isinstance(of_drives, Mapping) else {}
    states = tuple(_state(n, one) for n, one in enumerate(found.get("power_states") or []))
    number = run.factors.get("power_state", found.get("power_state"))
    working = states[int(number)] if number is not None and int(number) < len(states) else None
    if working is not None and not working.serves:
        working = None
    return Declared(states, working, _rest(states, working, found.get("autonomous") or {}))


def _state(number: int, one: Mapping[str, Any]) -> State:
    return State(
        number,
        one.get("max_watts"),
        bool(one.get("operational", True)),
        (one.get("entry_microseconds") or 0) * 1e-6,
        (one.get("exit_microseconds") or 0) * 1e-6,
    )


def _rest(states: tuple[State, ...], working: State | None, autonomous: Mapping[str, Any]) -> Rest | None:
    """Follow a table of transitions from the state that the drive works in.

    From the first state that it has a way from, where that state is not known.
    """
    if not autonomous.get("enabled"):
        return None
    ways = {one["state"]: one for one in autonomous.get("transitions") or []}
    serving = [state.number for state in states if state.serves and state.number in ways]
    at = working.number if working else next(iter(serving), None)
    chain: list[Mapping[str, Any]] = []
    while at in ways and ways[at]["to"] < len(states) and ways[at]["to"] not in [way["to"] for way in chain]:
        chain.append(ways[at])
        at = ways[at]["to"]
    if not chain:
        return None
    first, deepest = states[chain[0]["to"]], states[chain[-1]["to"]]
    return Rest(first, deepest, chain[0]["idle_milliseconds"] * 1e-3)
