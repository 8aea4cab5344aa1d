# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy of a drive between the first and the last promise of a cut, measured and by its twin, and the
energy that kept it up after the cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joulerig.analysis.powercut import hold_up
from joulerig.analysis.powercut.durable import DurableWrites
from joulerig.analysis.results import power_points
from joulerig.analysis.results.influxdb.client import InfluxError
from joulerig.analysis.results.schema import Phase
from joulerig.rig.campaign import measure
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab
from joulerig.rig.lab.virtual import TruthSource


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


def of_hold_up(lab: Lab, host: str, drive: str, held: dict[str, Any], cut_ns: int) -> dict[str, Any]:
    """Return the tap's hold-up record of a drive's rails, with the energy where there are points."""
    members = lab.members_of(host, drive)
    try:
        with measure.client(lab) as database:
            seen = power_points.points(database, host, members, cut_ns - hold_up.BEFORE_NS, cut_ns)
    except (InfluxError, UserError):
        return held
    return hold_up.with_energy(held, seen, cut_ns)


def true_joules(source: TruthSource, host: str, drive: str, durable: DurableWrites) -> float | None:
    """Return the exact energy of the same interval, from the drive's twin. Raises UserError."""
    if not durable.writes:
        return None
    history = source.history(host, drive, [durable.start_ns, durable.end_ns])
    return float(sum(rail["joules"][1] - rail["joules"][0] for rail in history["rails"]))
