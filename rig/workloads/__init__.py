# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads by name: those a campaign can list, and what a test host needs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import definitions, programs
from joulerig.rig.lab.model import Lab
from joulerig.rig.lab.programs import Program
from joulerig.rig.workloads import engines, place
from joulerig.rig.workloads.engines import Workload

SHIPPED = paths.share() / "workloads" / "workloads.yml"
KIND = "workload"


def load(lab: Lab) -> dict[str, Workload]:
    """Return the shipped workloads and the lab's own, by name. Raises UserError.

    Its own are those of `workloads.yml` and of the programs in `programs/` next to its inventory.
    """
    folder = lab.folder
    known = shipped()
    own = definitions.with_own(known, [folder / "workloads.yml"], KIND, _entry_in(folder))
    mine = {name: one for name, one in programs.load(lab).items() if one.directory.parent != programs.SHIPPED}
    for name, workload in _program_workloads(mine, folder).items():
        if name in own:
            what = f"is a shipped {KIND}" if name in known else f"is a {KIND} of workloads.yml too"
            raise UserError(f"{paths.short(folder / 'programs')}: {name}: {what}; give another name")
        own[name] = workload
    return own


def shipped() -> dict[str, Workload]:
    """Return the shipped workloads by name. Raises UserError.

    They are fio's job files, the personalities, those in `workloads/workloads.yml`, and the
    programs'.
    """
    found: dict[str, Workload] = {}
    for name in place.FIO_JOBS.names():
        found[name] = engines.Fio(engine="fio", job=name).resolved(SHIPPED.parent)
    for name in place.PERSONALITIES.names():
        found[name] = engines.Flowop(engine="flowop", personality=name).resolved(SHIPPED.parent)
    named = definitions.read(SHIPPED, KIND, _entry_in(SHIPPED.parent))
    named |= _program_workloads(programs.read(programs.SHIPPED), SHIPPED.parent)
    return found | dict(sorted(named.items()))


def _program_workloads(known: Mapping[str, Program], folder: Path) -> dict[str, Workload]:
    """Return the workloads that programs make; their files are in `folder`. Raises UserError."""
    found: dict[str, Workload] = {}
    for program in known.values():
        source = paths.short(program.directory / programs.DEFINITION)
        for name, entry in program.definition.workloads.items():
            given = {"engine": "program", "program": program.name, **entry}
            if name in found:
                raise UserError(f"{source}: workloads.{name}: is another program's; give another name")
            found[name] = engines.parse(name, given, source, folder)
    return found


def _entry_in(folder: Path) -> Callable[[str, Any, str], Workload]:
    return lambda name, entry, source: engines.parse(name, entry, source, folder)


def deployment(names: Iterable[str], lab: Lab) -> dict[str, Any]:
    """Return what test hosts need to run these workloads, for the role `programs`.

    {"campaign_programs": [{"src", "dest", "mode"}], "campaign_packages": [Debian packages]}. Raises
    UserError where a file is missing on the controller.
    """
    known = load(lab)
    files: dict[Path, None] = {}
    packages: set[str] = set()
    for name in names:
        files |= dict.fromkeys(known[name].files())
        packages |= set(known[name].needed_packages())
    programs = [{"src": str(path), "dest": place.on_host(path), "mode": place.mode(path)} for path in files]
    return {"campaign_programs": programs, "campaign_packages": sorted(packages)}
