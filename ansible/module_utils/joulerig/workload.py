# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload on this host, whatever loads: lay_out() creates its files, load() tells what became of it."""

from ansible.module_utils.joulerig import fio, flowop, program

TOOLS = {"fio": fio.Workload, "flowop": flowop.Workload, "program": program.Workload}


def of(definition, surroundings):
    """The workload of a definition as the controller delivers it (`tool` says which), in its Surroundings."""
    return TOOLS[definition["tool"]](definition, surroundings)
