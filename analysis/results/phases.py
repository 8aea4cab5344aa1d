# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases of a run on the controller's time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from joulerig.analysis.results.schema import FORMER_PHASES, Phase

# How fast a clock that is slewed gains on another one: as adjtimex(2) does it, and chrony on a test
# host (ansible/roles/time_sync).
SLEW = 500e-6
# A smaller step is in `clock_error_ns`, as half of what the offset moved by.
STEP_NS = 10_000_000


def clock_steps(clock: Sequence[Mapping[str, Any]], controller_step_ns: int = 0) -> list[str]:
    """Describe how clocks were set between two measurements of their offset; empty: they were not.

    Times on the controller's axis are wrong where a clock was set, by up to as much.

    Parameters
    ----------
    clock : sequence of mappings
        The offset, measured before and after a run. `booted_ns`, where it is known, moves with a
        step of the host's clock, and not where that is slewed.
    controller_step_ns : int
        How far the controller's clock was set forward, by the same token; 0 also where that is not
        known. The offset then shows a step that is larger than slewing and errors explain.
    """
    steps = {"the controller's": controller_step_ns}
    if len(clock) > 1:
        first, last = clock[0], clock[-1]
        booted = [one["booted_ns"] for one in (first, last) if one.get("booted_ns") is not None]
        if len(booted) == 2:
            steps["the host's"] = booted[1] - booted[0]
        if all(abs(step) <= STEP_NS for step in steps.values()):
            moved = last["offset_ns"] - first["offset_ns"]
            span = abs(last["at_ns"] - first["at_ns"])
            limit = SLEW * span + first["error_ns"] + last["error_ns"] + STEP_NS
            if abs(moved) > limit:
                known = "the host's" in steps  # and it was not set
                steps["the controller's" if known else "the controller's or the host's"] = moved
    return [
        f"{whose} clock was set {'forward' if step > 0 else 'back'} by {abs(step) / 1e9:.3g} s in the run"
        for whose, step in steps.items()
        if abs(step) > STEP_NS
    ]


def on_controller_time(
    phases: Sequence[Mapping[str, Any]], clock: Sequence[Mapping[str, int]]
) -> list[Phase]:
    """Move phases from the host's clock onto the controller's axis.

    `clock` holds the offset measured before and after the run; between them it is interpolated. The
    error is the larger of the two measurements' and half of what the offset moved by: a clock that
    is slewed does not move evenly. Raises ValueError without any measurement.
    """
    if not clock:
        raise ValueError("no clock offset was measured")
    first, last = clock[0], clock[-1]
    moved = last["offset_ns"] - first["offset_ns"]
    span = last["at_ns"] - first["at_ns"]
    error = max(first["error_ns"], last["error_ns"]) + abs(moved) // 2

    def offset(at: int) -> int:
        return first["offset_ns"] + (moved * (at - first["at_ns"]) // span if span > 0 else 0)

    return [
        Phase(
            FORMER_PHASES.get(p["phase"], p["phase"]),
            p["start_ns"] + offset(p["start_ns"]),
            p["end_ns"] + offset(p["end_ns"]),
            offset(p["start_ns"]),
            error,
        )
        for p in phases
    ]
