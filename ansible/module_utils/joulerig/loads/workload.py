# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a workload on this host with any tool.

lay_out() creates its files, load() returns its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.joulerig.changes import packages
from ansible.module_utils.joulerig.loads import fio, flowop, program
from ansible.module_utils.joulerig.tools import Unable

TOOLS = {"fio": fio.Workload, "flowop": flowop.Workload, "program": program.Workload}


def check(definition: Mapping[str, Any]) -> None:
    """Refuse a workload whose packages this host has not: its distribution may lack them."""
    wanted = definition.get("packages", [])
    there = packages.installed(wanted)
    if missing := [name for name in wanted if name not in there]:
        raise Unable(f"{definition['name']}: needs {', '.join(missing)}, which this host has not")


def polls(definition: Mapping[str, Any]) -> bool:
    """Return whether it asks the drive for what is done, instead of waiting to be interrupted."""
    return definition["tool"] == "fio" and fio.polls(definition["job"])


def create(definition, surroundings):
    """Create the workload that the controller's definition names (`tool` says which kind)."""
    return TOOLS[definition["tool"]](definition, surroundings)
