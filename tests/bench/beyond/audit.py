# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit two virtual drives that report their own power: one true, one a fifth too high."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.bench.beyond import NotShownError
from tests.support import ROOT
from tests.support.lab_driver import Lab

STATED_PERCENT = 5
FACTORS = {"nvme-plp": 1.0, "nvme-consumer": 1.2}  # of the truth, which they report
EXPECTED = {"nvme-plp": ("holds", None), "nvme-consumer": ("contradicted", "scale")}
LOADS = ["randread", "seqwrite", "randwrite-fsync"]


def show(lab: Lab) -> str:
    """Measure both drives idle and under three loads, and return the verdicts on one line.

    Drives report their power where they are their host's controllers, which those of the lab that
    is up are not: it goes down, one of another inventory comes up, and it is brought back.
    """
    inventory = _inventory(lab)
    with _instead(lab, inventory):
        campaign = _measured(lab, inventory)
        found = json.loads(lab.rig("drives", "audit", campaign, "--json", inventory=inventory).stdout)
        verdicts = {one["drive"]: one for one in found["drives"]}
        verified = lab.rig("verify", campaign, inventory=inventory)
    if verified.returncode:
        raise NotShownError(f"rig verify {campaign}: {verified.stdout.splitlines()[-1:]}")
    said = []
    for drive, expected in EXPECTED.items():
        one = verdicts.get(drive)
        if one is None or (one["verdict"], one["finding"]) != expected:
            raise NotShownError(f"{drive}: {one and (one['verdict'], one['detail'], one['problems'][:1])}")
        said.append(f"{drive} {one['verdict']}" + (f" ({one['detail']})" if one["detail"] else ""))
    return f"power by the drives' own word, by their rails: {', '.join(said)}; rig verify agrees"


def _measured(lab: Lab, inventory: Path) -> str:
    """Execute a campaign, and return its id."""
    before = set(lab.campaigns())
    playbook = lab.playbook(
        name="audited",
        drives=list(FACTORS),
        factors={"filesystem": ["ext4"], "scheduler": ["none"], "workload": LOADS},
        replicates=4,
        phases={"rest_seconds": 2, "idle_seconds": 12, "workload_seconds": 12, "tail_seconds": 1},
    )
    done = lab.rig("run", str(playbook), inventory=inventory, timeout=7200)
    new = sorted(set(lab.campaigns()) - before)
    if done.returncode or not new:
        raise NotShownError(f"rig run: {(done.stderr or done.stdout).splitlines()[-1:]}")
    return new[-1]


@contextmanager
def _instead(lab: Lab, inventory: Path) -> Iterator[None]:
    """Have the lab of `inventory` up in place of the one that is."""
    lab.rig("down")
    try:
        up = lab.rig("up", inventory=inventory, timeout=1800)
        if up.returncode:
            raise NotShownError(f"rig up: {up.stderr.splitlines()[-1:]}")
        yield
    finally:
        lab.rig("down", inventory=inventory)
        lab.rig("up", timeout=1800)


def _inventory(lab: Lab) -> Path:
    """Return an inventory whose drives are controllers, with profiles that report their power."""

    def reporting(host: dict[str, Any]) -> None:
        host["virtual"]["nvme"] = "twin"
        for drive in FACTORS:
            host["drives"][drive]["profile"] = f"reporting-{drive}"

    inventory = lab.inventory_copy(reporting, "audited")
    shipped = yaml.safe_load((ROOT / "host_vars" / "vhost1.yml").read_text())["drives"]
    profiles = inventory.parent / "profiles"
    profiles.mkdir(exist_ok=True)
    for drive, factor in FACTORS.items():
        described = yaml.safe_load(
            (ROOT / f"virtuallab/profiles/{shipped[drive]['profile']}.yml").read_text()
        )
        described["self_report"] = {"energy_factor": factor, "error_percent": STATED_PERCENT}
        (profiles / f"reporting-{drive}.yml").write_text(yaml.safe_dump(described))
    return inventory
