# SPDX-License-Identifier: GPL-3.0-or-later
"""Campaigns of the features, and a drive that got worse for those that compare campaigns.

That drive is measured with its twin's profile, and with one that draws twice the watts when idle: a
firmware that got worse, as far as a rig can see.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.bench.beyond import NotShownError
from tests.support import ROOT
from tests.support.lab_driver import Done, Lab

DRIVE, PROFILE, WORSE = "nvme-plp", "nvme-enterprise", "nvme-enterprise-worse"
FIELDS = {
    "drives": [DRIVE],
    "factors": {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["randwrite-fsync"]},
    "replicates": 4,
    "phases": {"rest_seconds": 1, "idle_seconds": 1, "workload_seconds": 4, "tail_seconds": 1},
}


def measured(lab: Lab, name: str, inventory: Path | None = None) -> str:
    """Execute a campaign of FIELDS under a name; return its id."""
    return executed(lab, inventory, name=name, **FIELDS)


def executed(lab: Lab, inventory: Path | None = None, **campaign: Any) -> str:
    """Execute a campaign, which has a name; return its id."""
    done = lab.rig("run", str(lab.playbook(**campaign)), inventory=inventory, timeout=7200)
    provided(done, f"rig run, {campaign['name']}")
    return newest(lab, campaign["name"])


def newest(lab: Lab, name: str) -> str:
    """Return the id of the last campaign of a name; an interrupted one may stand before it."""
    mine = [one for one in lab.campaigns() if one.startswith(f"{name}-")]
    if not mine:
        raise NotShownError(f"no campaign {name} was opened")
    return mine[-1]


@contextlib.contextmanager
def worse_drive(lab: Lab) -> Iterator[Path]:
    """Yield the inventory with the worse drive while the lab has it; then the shipped one again."""
    inventory = lab.inventory_copy(lambda host: host["drives"][DRIVE].update(profile=WORSE), "worse")
    profile = yaml.safe_load((ROOT / "virtuallab" / "profiles" / f"{PROFILE}.yml").read_text())
    folder = inventory.parent / "profiles"
    folder.mkdir(exist_ok=True)
    (folder / f"{WORSE}.yml").write_text(yaml.safe_dump(with_twice_the_idle_watts(profile)))
    try:
        provided(lab.rig("up", inventory=inventory, timeout=1800), "the lab with the worse drive")
        yield inventory
    finally:
        lab.rig("up", timeout=1800)


def with_twice_the_idle_watts(profile: dict[str, Any]) -> dict[str, Any]:
    rails = {name: {**rail, "idle_watts": 2 * rail["idle_watts"]} for name, rail in profile["rails"].items()}
    return {**profile, "rails": rails}


def provided(done: Done, what: str) -> None:
    if done.returncode:
        said = [text.strip().splitlines()[-1] for text in (done.stdout, done.stderr) if text.strip()]
        raise NotShownError(f"{what}: {'; '.join(said) or 'no output'}")


def last_line(done: Done) -> str:
    return (done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["no output"])[-1]
