# SPDX-License-Identifier: GPL-3.0-or-later
"""The energy that a drive had left when its rails were off."""

from __future__ import annotations

import polars as pl
import pytest

from joulerig.analysis.powercut import hold_up

CUT = 1_700_000_000_000_000_000
MS = 1_000_000


def points(**watts: float) -> pl.DataFrame:
    """Return points at 100 Hz.

    `watts` by rail in the 100 ms before the cut, 9 W earlier, 0 W after.
    """
    rows = [
        {
            "time_ns": CUT + n * 10 * MS,
            "drive": "d",
            "rail": rail,
            "watts": 9.0 if n < -10 else drawn if n <= 0 else 0.0,
        }
        for rail, drawn in watts.items()
        for n in range(-50, 50)
    ]
    return pl.DataFrame(rows, schema={"time_ns": pl.Int64, "drive": str, "rail": str, "watts": pl.Float64})


def rail(state: str = "DONE", seconds: float | None = 0.02) -> dict:
    return {"state": state, "seconds": seconds, "volts": 5.0, "threshold_volts": 2.5}


def test_it_is_what_the_drive_drew_before_for_as_long_as_it_held_up():
    held = {"d/5v": rail(), "d/12v": rail(seconds=0.05)}
    found = hold_up.with_energy(held, points(**{"5v": 2.0, "12v": 4.0}), CUT)
    assert found["d/5v"]["watts_before"] == pytest.approx(2.0)
    assert found["d/5v"]["joules"] == pytest.approx(0.04)
    assert found["d/12v"]["joules"] == pytest.approx(0.2)
    assert found["d/5v"] | held["d/5v"] == found["d/5v"]


@pytest.mark.parametrize("seen", [rail("RUNNING"), rail("NONE", None)])
def test_a_rail_that_is_not_seen_down_has_no_energy(seen):
    found = hold_up.with_energy({"d/5v": seen}, points(**{"5v": 2.0}), CUT)
    assert found["d/5v"]["joules"] is None


def test_without_points_it_is_not_known():
    found = hold_up.with_energy({"d/3v3": rail()}, points(**{"5v": 2.0}), CUT)
    assert (found["d/3v3"]["watts_before"], found["d/3v3"]["joules"]) == (None, None)


def test_watts_are_of_the_rails_own_drive():
    other = points(**{"5v": 8.0}).with_columns(drive=pl.lit("e"))
    both = pl.concat([points(**{"5v": 2.0}), other])
    assert hold_up.with_energy({"d/5v": rail()}, both, CUT)["d/5v"]["watts_before"] == pytest.approx(2.0)
