# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit two virtual drives that report their own power: one true, one a fifth too high."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.bench.beyond import NotShownError, _controllers
from tests.bench.beyond._controllers import Profile
from tests.support.lab_driver import Lab

STATED_PERCENT = 5
FACTORS = {"nvme-plp": 1.0, "nvme-consumer": 1.2}  # of the truth, which they report
EXPECTED = {"nvme-plp": ("holds", None), "nvme-consumer": ("contradicted", "scale")}
LOADS = ["randread", "seqwrite", "randwrite-fsync"]
CAMPAIGN = {
    "name": "audited",
    "drives": list(FACTORS),
    "factors": {"filesystem": ["ext4"], "scheduler": ["none"], "workload": LOADS},
    "replicates": 4,
    "phases": {"rest_seconds": 2, "idle_seconds": 12, "workload_seconds": 12, "tail_seconds": 1},
}


def show(lab: Lab) -> str:
    """Measure both drives idle and under three loads, and return the verdicts on one line.

    Drives report their power where they are their host's controllers, which those of the lab that
    is up are not: it goes down, one of another inventory comes up, and it is brought back.
    """
    with _controllers.instead(lab, "audited", {drive: _reporting(drive) for drive in FACTORS}) as inventory:
        campaign = _controllers.measured(lab, inventory, **CAMPAIGN)
        found = json.loads(lab.rig("drives", "audit", campaign, "--json", inventory=inventory).stdout)
    verdicts = {one["drive"]: one for one in found["drives"]}
    said = []
    for drive, expected in EXPECTED.items():
        one = verdicts.get(drive)
        if one is None or (one["verdict"], one["finding"]) != expected:
            raise NotShownError(f"{drive}: {one and (one['verdict'], one['detail'], one['problems'][:1])}")
        said.append(f"{drive} {one['verdict']}" + (f" ({one['detail']})" if one["detail"] else ""))
    return f"power by the drives' own word, by their rails: {', '.join(said)}; rig verify agrees"


def _reporting(drive: str) -> Callable[[Profile], None]:
    """Have a drive report its power, true or wrong."""
    report = {"energy_factor": FACTORS[drive], "error_percent": STATED_PERCENT}
    return lambda profile: profile.update(self_report=report)
