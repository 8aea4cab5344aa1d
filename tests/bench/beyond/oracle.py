# SPDX-License-Identifier: GPL-3.0-or-later
"""Applications are judged by power cuts: one keeps its word, one that never syncs is caught.

The states that a cut may leave the first one in are checked too where this machine has loop
devices.
"""

from __future__ import annotations

import json
from typing import Any

from joulerig.virtuallab.blocklog import device
from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import newest, provided
from tests.support.lab_driver import Lab

HOST_SECONDS = 900  # an emulated host on a busy machine may start for more than the default
SUBJECTS = [
    {"drive": "nvme-consumer", "filesystem": "ext4", "application": "sqlite-wal"},
    {"drive": "sata-consumer", "filesystem": "ext4", "application": "toystore-no-fsync"},
]


def show(lab: Lab) -> str:
    """Cut both drives together once, verify the campaign, and check states in software."""
    playbook = lab.write_playbook(
        {
            "kind": "power-cut",
            "name": "oracle",
            "question": "Does each application keep what it acknowledged?",
            "subjects": SUBJECTS,
            "cuts": 1,
            "seed": 3,
            "host_seconds": HOST_SECONDS,
        }
    )
    done = lab.rig("run", str(playbook), timeout=3600)
    # It fails where a promise was broken, which is what the second subject is for.
    campaign = newest(lab, "oracle")
    reported = lab.results_of(campaign)
    found = {one["application"]: one for one in reported["power_cuts"]}
    kept, broke = (found[str(one["application"])]["verdict"] for one in SUBJECTS)
    if (kept["cuts"], kept["broken_cuts"]) != (1, 0) or broke["broken_cuts"] != 1:
        raise NotShownError(f"{kept['statement']} {broke['statement']} {done.stderr[-300:]}")
    provided(lab.rig("verify", campaign), "rig verify")
    joules = found["sqlite-wal"]["joules_per_durable_write"]
    if joules is None:
        raise NotShownError("no joules for a durable transaction")
    said = (
        f"{kept['promised_writes']} transactions of sqlite-wal kept, {1e3 * joules:.3g} mJ each;"
        f" toystore-no-fsync: {_fates(broke)}"
    )
    return said + _states(lab)


def _fates(verdict: dict[str, Any]) -> str:
    return ", ".join(f"{number} {fate}" for fate, number in verdict["broken_by_fate"].items())


def _states(lab: Lab) -> str:
    if problem := device.missing():
        return f"; no states in software: this machine {problem}"
    options = ["--transactions", "6", "--states", "20", "--json"]
    right = lab.rig("crash-states", "sqlite-wal", *options)
    wrong = lab.rig("crash-states", "toystore-no-fsync", *options)
    if (right.returncode, wrong.returncode) != (0, 1):
        raise NotShownError(
            f"rig crash-states: {right.stdout}{right.stderr} {wrong.stdout}{wrong.stderr}"[:600]
        )
    return f"; states: {json.loads(right.stdout)['statement']}"
