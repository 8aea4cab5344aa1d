# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a workload on this host with any tool.

lay_out() creates its files, load() returns its result.
"""

from ansible.module_utils.joulerig.loads import fio, flowop, program

TOOLS = {"fio": fio.Workload, "flowop": flowop.Workload, "program": program.Workload}


def create(definition, surroundings):
    """Create the workload that the controller's definition names (`tool` says which kind)."""
    return TOOLS[definition["tool"]](definition, surroundings)
