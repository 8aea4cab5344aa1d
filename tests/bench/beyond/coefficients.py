# SPDX-License-Identifier: GPL-3.0-or-later
"""Coefficients of a twin from a campaign of six loads: exported, verified, held to its profile."""

from __future__ import annotations

import json

from joulerig.virtuallab import profile
from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import executed, provided
from tests.support.lab_driver import Lab

DRIVE, PROFILE = "nvme-plp", "nvme-enterprise"
WORKLOADS = [
    "randread",
    "seqwrite",
    "randwrite-fsync",
    "randwrite-fsync-paced",
    "seqwrite-fsync",
    "seqwrite-fsync-16",
]


def show(lab: Lab) -> str:
    campaign = executed(
        lab,
        name="coefficients",
        drives=[DRIVE],
        replicates=2,
        factors={"filesystem": ["ext4", "xfs"], "scheduler": ["none"], "workload": WORKLOADS},
    )
    path = lab.folder / "coefficients.json"
    for words in (
        ("export", campaign),
        ("verify", campaign),
        ("export", campaign, "--coefficients", str(path)),
    ):
        provided(lab.rig(*words), f"rig {words[0]}")
    (drive,) = json.loads(path.read_text())["drives"]
    found = {one["name"]: one for one in drive["coefficients"] if one["cell"] is None}
    own = _parameters()
    inside = [name for name, one in found.items() if one["low"] <= own[name] <= one["high"]]
    if "idle_watts" not in inside or 2 * len(inside) < len(found):
        outside = {name: (one["low"], one["high"], own[name]) for name, one in found.items()}
        raise NotShownError(f"intervals and the profile's own: {outside}")
    return (
        f"{len(found)} of {len(own)} coefficients exported, {len(inside)} hold the twin's own;"
        f" idle {found['idle_watts']['value']:.3f} W of {own['idle_watts']:.3f}"
    )


def _parameters() -> dict[str, float]:
    """Return the twin's own parameters, by the names of the coefficients."""
    rails = profile.load(PROFILE).rails.values()
    idle = sum(rail.idle_watts for rail in rails)
    return {
        "idle_watts": idle,
        "active_watts": idle,
        "joules_per_read_byte": sum(rail.read_joules_per_byte for rail in rails),
        "joules_per_written_byte": sum(rail.write_joules_per_byte for rail in rails),
        "joules_per_request": sum(rail.command_joules for rail in rails),
        "joules_per_flush": sum(rail.flush_joules for rail in rails),
    }
