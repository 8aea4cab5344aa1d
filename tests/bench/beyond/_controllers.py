# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab whose NVMe drives are controllers for their host, in place of the one that is up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.bench.beyond import _campaigns
from tests.support import ROOT
from tests.support.lab_driver import Lab

Profile = dict[str, Any]


@contextmanager
def instead(lab: Lab, name: str, changes: Mapping[str, Callable[[Profile], None]]) -> Iterator[Path]:
    """Have such a lab up, with the profiles of some drives changed; yield its inventory."""
    inventory = _inventory(lab, name, changes)
    lab.rig("down")
    try:
        _campaigns.provided(lab.rig("up", inventory=inventory, timeout=1800), "rig up")
        yield inventory
    finally:
        lab.rig("down", inventory=inventory)
        lab.rig("up", timeout=1800)


def measured(lab: Lab, inventory: Path, **campaign: Any) -> str:
    """Execute a campaign, check it with `rig verify`, and return its id."""
    opened = _campaigns.executed(lab, inventory, **campaign)
    _campaigns.provided(lab.rig("verify", opened, inventory=inventory), f"rig verify {opened}")
    return opened


def _inventory(lab: Lab, name: str, changes: Mapping[str, Callable[[Profile], None]]) -> Path:
    def own_controllers(host: dict[str, Any]) -> None:
        host["virtual"]["nvme"] = "twin"
        for drive in changes:
            host["drives"][drive]["profile"] = f"{name}-{drive}"

    inventory = lab.inventory_copy(own_controllers, name)
    shipped = yaml.safe_load((ROOT / "host_vars" / "vhost1.yml").read_text())["drives"]
    profiles = inventory.parent / "profiles"
    profiles.mkdir(exist_ok=True)
    for drive, change in changes.items():
        file = ROOT / f"virtuallab/profiles/{shipped[drive]['profile']}.yml"
        profile = yaml.safe_load(file.read_text())
        change(profile)
        (profiles / f"{name}-{drive}.yml").write_text(yaml.safe_dump(profile))
    return inventory
