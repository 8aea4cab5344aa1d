# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases of a run on the controller's time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from joulerig.analysis.results.schema import FORMER_PHASES, Phase


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
