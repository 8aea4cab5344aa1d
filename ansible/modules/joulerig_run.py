#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of a campaign, from identity check to restore, in one module call."""

DOCUMENTATION = r"""
module: joulerig_run
short_description: Execute one run on a test host
description:
  - "Identity check, wipe lease, mkfs, scheduler and write cache set and read back, mount, precondition, idle,
    workload, tail, unmount, restore. Everything set is put back, also after an error."
  - Refuses a drive whose serial, WWN or size differs from the declared, or that anything on the host uses.
options:
  version: {description: "Version of the request.", type: int, default: 1}
  run: {description: "Id of the run.", type: str, required: true}
  campaign: {description: "Id of the campaign.", type: str, required: true}
  host: {description: "Name of this host in the inventory.", type: str, required: true}
  drive: {description: "Name of the drive or array.", type: str, required: true}
  members:
    description: "Declared drives: the drive itself, or the members of the array."
    type: list
    elements: dict
    required: true
  array: {description: "Whether the drive is an array.", type: bool, default: false}
  pool:
    description: "Whether the array is no device: the file system takes its members itself."
    type: bool
    default: false
  journal:
    description: "Declared drive that takes the file system's journal; empty: none."
    type: dict
    default: {}
  filesystem:
    description: "Definition: name, type, module, mkfs, mount_options, dax, external_journal."
    type: dict
    required: true
  preconditioned:
    description: "Whether the drive was brought to a state that a discard by mkfs would undo."
    type: bool
    default: false
  scheduler: {description: "I/O scheduler.", type: str, required: true}
  write_cache:
    description: "write back, write through, no flush, or empty: as it is."
    type: str
    default: ""
  workload:
    description: "Definition: name, tool (fio, flowop or program) and what that one takes."
    type: dict
    required: true
  seeks: {description: "Whether seeks are counted, from the kernel's trace.", type: bool, default: false}
  free_nids:
    description: "Whether the search for free node numbers in f2fs's fsync is timed."
    type: bool
    default: false
  use_bytes:
    description: "Size of the file system, from the drive's beginning; 0: as large as the drive."
    type: int
    default: 0
  fill: {description: "Part of the file system to fill before the load.", type: float, default: 0.0}
  age: {description: "How often what fills it is deleted and written again.", type: float, default: 0.0}
  kernel_files:
    description:
      - "Kernel files that factors set for the run: factor, path (under /sys or /proc/sys; {device} stands for
        each drive), value, needs. They are read back, checked after the load, and put back."
    type: list
    elements: dict
    default: []
  drive_settings:
    description:
      - "Settings of the drives themselves that factors ask for: factor (power_state, apst, apm,
        standby_timer), level. They are set, checked and put back as kernel files are."
    type: list
    elements: dict
    default: []
  kernel: {description: "Release of the kernel that must run; empty: any.", type: str, default: ""}
  phases: {description: "Seconds of idle, workload, tail.", type: dict, required: true}
  slowness:
    description: "How many seconds a second of a virtual lab lasts from rest to tail; 1: no slow motion."
    type: float
    default: 1.0
  seed: {description: "Seed of the load.", type: int, required: true}
  lanes_of:
    description: "Campaign of which calls of other drives may run at the same time; empty: none may."
    type: str
    default: ""
  alone: {description: "Whether this one is nevertheless alone on the host.", type: bool, default: false}
  clock_server: {description: "address:port of the controller's clock (UDP).", type: str, required: true}
  agent_socket: {description: "Socket of the host's agent.", type: str, default: /run/joulerig/iod.sock}
  call: {description: "Name of the call, executed as a unit; empty: here.", type: str, default: ""}
  begin: {description: "Whether a call that the host does not know is begun.", type: bool, default: true}
  collected: {description: "Calls whose outcome arrived: the host forgets them.", type: list, elements: str}
author: [Joulerig]
"""

RETURN = r"""
version: {description: "Version of the outcome.", type: int, returned: always}
status:
  description:
    - "ok, failed, lost (the host booted), refused (nothing was touched), not-run (the host cannot)"
    - "or absent (a call that is not to begin, and that this host does not know)."
  type: str
  returned: always
reason: {description: "Why it is not ok.", type: str, returned: always}
cause:
  description: "busy, interrupted or booted."
  type: str
  returned: when that ended it
phases: {description: "phase, start_ns, end_ns in the host's clock.", type: list, returned: always}
clock: {description: "Offset to the controller's clock before and after.", type: list, returned: always}
report:
  description: "The load's own report; of one that failed, so far."
  type: dict
  returned: when there was a load
counters:
  description: "Block-layer counters over the workload phase, an external journal's added."
  type: dict
  returned: when there was a load, on drives that count
seeks:
  description: "Requests, seeks and their distance by drive, and how many events of the trace were lost."
  type: dict
  returned: when they were to be counted
free_nids:
  description: "Calls and seconds of f2fs's fsync and of its search for free node numbers; or why not."
  type: dict
  returned: on f2fs, when it was to be timed
taken_down: {description: "What a killed call had left, and was put back.", type: list, returned: always}
made: {description: "What each drive is known by now: types and UUIDs.", type: dict, returned: always}
power_reports:
  description: "What NVMe drives report of their own power, by phase and drive, from their log pages."
  type: list
  returned: when the run came to its idle phase
touched:
  description: "write_bytes and discard_bytes by drive, from mkfs until it was unmounted; null: not counted."
  type: dict
  returned: when a drive was touched
settings:
  description: "Settings in effect; of an array, or with an external journal, by drive."
  type: dict
  returned: always
health:
  description: "The drive's health before and after; of an array, or with an external journal, by drive."
  type: dict
  returned: always
"""

import sys

from ansible.module_utils.joulerig.detached import answering


def work():
    """Import what does the work, in the process that does it: the one that waits does not."""
    from ansible.module_utils.joulerig.runs import one_run

    return one_run


def main():
    # Not for the process that does the work of a call, in which it takes longer than all the rest.
    from ansible.module_utils.basic import AnsibleModule

    spec = {
        "version": {"type": "int", "default": 1},
        "run": {"type": "str", "required": True},
        "campaign": {"type": "str", "required": True},
        "host": {"type": "str", "required": True},
        "drive": {"type": "str", "required": True},
        "members": {"type": "list", "elements": "dict", "required": True},
        "array": {"type": "bool", "default": False},
        "pool": {"type": "bool", "default": False},
        "journal": {"type": "dict", "default": {}},
        "filesystem": {"type": "dict", "required": True},
        "preconditioned": {"type": "bool", "default": False},
        "scheduler": {"type": "str", "required": True},
        "write_cache": {"type": "str", "default": ""},
        "workload": {"type": "dict", "required": True},
        "seeks": {"type": "bool", "default": False},
        "free_nids": {"type": "bool", "default": False},
        "kernel": {"type": "str", "default": ""},
        "use_bytes": {"type": "int", "default": 0},
        "fill": {"type": "float", "default": 0.0},
        "age": {"type": "float", "default": 0.0},
        "kernel_files": {"type": "list", "elements": "dict", "default": []},
        "drive_settings": {"type": "list", "elements": "dict", "default": []},
        "phases": {"type": "dict", "required": True},
        "slowness": {"type": "float", "default": 1.0},
        "seed": {"type": "int", "required": True},
        "lanes_of": {"type": "str", "default": ""},
        "alone": {"type": "bool", "default": False},
        "clock_server": {"type": "str", "required": True},
        "agent_socket": {"type": "str", "default": "/run/joulerig/iod.sock"},
    }
    answering.answer(
        sys.modules[__name__],
        AnsibleModule(argument_spec={**spec, **answering.OPTIONS}, supports_check_mode=False),
    )


if __name__ == "__main__":
    main()
