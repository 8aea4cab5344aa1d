# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy of a drive between the first and the last promise of a cut, as measured, and as its twin had it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.influx import InfluxError
from analysis.powercut.durable import DurableWrites
from analysis.results import Phase
from rig import measure
from rig.errors import UserError
from rig.lab import Lab
from rig.virtuallab import lab as virtuallab


def of_interval(lab: Lab, host: str, drive: str, durable: DurableWrites, trace: Path) -> dict[str, Any]:
    """{joules, no_joules}: the sum over the drive's rails, or None and why."""
    if not durable.writes:
        return {"joules": None, "no_joules": "fewer than two promises"}
    # Both instants are the controller's own: the witness is on the clock that the meters are on.
    interval = Phase("workload", durable.start_ns, durable.end_ns, 0, 0)
    try:
        with measure.client(lab) as database:
            rows, missing = measure.energies(lab, database, host, [drive], [interval], trace)
    except (InfluxError, UserError) as error:
        return {"joules": None, "no_joules": str(error)}
    if missing or not rows:
        return {"joules": None, "no_joules": "; ".join(missing) or "no rails"}
    return {"joules": sum(row["joules"] for row in rows), "no_joules": ""}


def true_joules(host: str, drive: str, durable: DurableWrites) -> float | None:
    """The twin's own account of the same interval."""
    if not durable.writes:
        return None
    told = virtuallab.truth(host, drive, f"history {durable.start_ns} {durable.end_ns}")
    return sum(rail["joules"][1] - rail["joules"][0] for rail in told["rails"])
