# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads by name: what a campaign can name under `factors.workload`, and what a test host needs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.lab import definitions
from joulerig.rig.lab.model import Lab
from joulerig.rig.workloads import engines, place
from joulerig.rig.workloads.engines import Workload

SHIPPED = paths.ROOT / "workloads" / "workloads.yml"
KIND = "workload"


def load(lab: Lab) -> dict[str, Workload]:
    """The shipped workloads and those of `workloads.yml` beside the inventory. Raises UserError."""
    own = lab.inventory.parent / "workloads.yml"
    return definitions.with_own(shipped(), [own], KIND, _entry_in(own.parent))


def shipped() -> dict[str, Workload]:
    """fio's job files, the personalities, and what `workloads/workloads.yml` names. Raises UserError."""
    found: dict[str, Workload] = {}
    for name in place.FIO_JOBS.names():
        found[name] = engines.Fio(engine="fio", job=name).resolved(SHIPPED.parent)
    for name in place.PERSONALITIES.names():
        found[name] = engines.Flowop(engine="flowop", personality=name).resolved(SHIPPED.parent)
    named = definitions.read(SHIPPED, KIND, _entry_in(SHIPPED.parent))
    return found | dict(sorted(named.items()))


def _entry_in(folder: Path) -> Callable[[str, Any, str], Workload]:
    return lambda name, entry, source: engines.parse(name, entry, source, folder)


def deployment(names: Iterable[str], lab: Lab) -> dict[str, Any]:
    """What test hosts need to run these workloads, for the role `programs`.

    {"campaign_programs": [{"src", "dest", "mode"}], "campaign_packages": [Debian packages]}; Raises UserError
    where something of it is not on the controller.
    """
    known = load(lab)
    files: dict[Path, None] = {}
    packages: set[str] = set()
    for name in names:
        files |= dict.fromkeys(known[name].files())
        packages |= set(known[name].needed_packages())
    programs = [{"src": str(path), "dest": place.on_host(path), "mode": place.mode(path)} for path in files]
    return {"campaign_programs": programs, "campaign_packages": sorted(packages)}
