# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the power states of two virtual drives: one that does as it declares, one that does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.bench.beyond import NotShownError, _controllers
from tests.bench.beyond._controllers import Profile
from tests.support.lab_driver import Lab

OBEYS, DOES_NOT = "nvme-consumer", "nvme-plp"
DECLARED, DRAWN = 0.5, 2.0  # watts at rest of the drive that does not obey
CAMPAIGN = {
    "name": "obeyed",
    "drives": [OBEYS, DOES_NOT],
    "factors": {
        "filesystem": ["ext4"], "scheduler": ["none"], "workload": ["pauses"], "apst": ["off", "any"],
    },
    "waveforms": {"max_megabytes": 64},
    "replicates": 3,
    "phases": {"rest_seconds": 3, "idle_seconds": 6, "workload_seconds": 21, "tail_seconds": 1},
}  # fmt: skip


def show(lab: Lab) -> str:
    """Let both rest in the pauses of a load, and return what was found on one line.

    Drives have power states that their host sees where they are its controllers, which those of the
    lab that is up are not: it goes down meanwhile.
    """
    with _controllers.instead(lab, "obeyed", {DOES_NOT: _disobey}) as inventory:
        campaign = _controllers.measured(lab, inventory, **CAMPAIGN)
        found = json.loads(lab.rig("drives", "obey", campaign, "--json", inventory=inventory).stdout)
    checks = {one["drive"]: {row["quantity"]: row for row in one["checks"]} for one in found["drives"]}
    own, other = checks[OBEYS], checks[DOES_NOT]
    _expect(own, "power at rest", "obeys", 0.004, 0.006)
    _expect(own, "rests after", "obeys", *(share * own["rests after"]["declared"] for share in (0.95, 1.1)))
    if own["leaving a rest takes"]["verdict"] == "contradicted":  # an emulated host adds to it
        raise NotShownError(f"leaving a rest takes: {own['leaving a rest takes']}")
    _expect(own, "break-even rest", "nothing declared", 0.02, 0.2)
    _expect(other, "power at rest", "contradicted", 0.98 * DRAWN, 1.02 * DRAWN)
    cost, pays = own["a rest costs"]["value"], own["break-even rest"]["value"]
    return (
        f"{OBEYS} obeys: {own['power at rest']['value'] * 1e3:.2f} mW at rest, it rests"
        f" after {own['rests after']['value'] * 1e3:.0f} ms, a rest costs {cost * 1e3:.1f} mJ and pays"
        f" from {pays * 1e3:.0f} ms on; {DOES_NOT}, which declares {DECLARED} W, is contradicted at"
        f" {other['power at rest']['value']:.2f} W; rig verify agrees"
    )


def _expect(
    checks: Mapping[str, dict[str, Any]], quantity: str, verdict: str, low: float, high: float
) -> None:
    one = checks.get(quantity)
    if one is None or one["verdict"] != verdict or not low <= one["value"] <= high:
        raise NotShownError(f"{quantity}: {one}")


def _disobey(profile: Profile) -> None:
    """Give a profile a state to rest in that declares less than it draws."""
    profile["power_states"] = [
        {"name": "PS0", "watts": {"12v": 14.0}},
        {
            "name": "PS1", "watts": {"12v": DRAWN}, "idle_seconds": 0.2, "entry_us": 1000, "exit_us": 1000,
            "declared_watts": DECLARED,
        },
    ]  # fmt: skip
    profile["operating_state"] = "PS0"
