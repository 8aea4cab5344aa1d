# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive ran on after its rails were off: the energy of its capacitors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

BEFORE_NS = 100_000_000  # of the cut: what the drive draws while it works


def with_energy(
    held: Mapping[str, Mapping[str, Any]], points: pl.DataFrame, cut_ns: int
) -> dict[str, dict[str, Any]]:
    """Return `held` with `watts_before` and `joules` for each rail.

    held: by "drive/rail", {state, seconds, volts, threshold_volts} as the tap reported them;
    points: a frame of analysis.results.power_points.points; cut_ns: UTC, before the rails were
    switched. Behind an open switch no current flows, so the tap sees the volts fall and no energy.
    A drive that goes on at the watts that it drew before takes them out of its capacitors: E = P t,
    t being the time until the volts were at the threshold. That is an estimate, and a lower bound
    of what is stored: below the threshold there is some left. Both are None where no point or no
    hold-up is known.
    """
    before = points.filter(pl.col("time_ns").is_between(cut_ns - BEFORE_NS, cut_ns))
    found = {}
    for name, rail in held.items():
        drive, _, key = name.partition("/")
        watts = before.filter((pl.col("drive") == drive) & (pl.col("rail") == key))["watts"].mean()
        seconds = rail.get("seconds") if rail.get("state") == "DONE" else None
        joules = watts * seconds if watts is not None and seconds is not None else None
        found[name] = {**rail, "watts_before": watts, "joules": joules}
    return found
