#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a drive to a known state before its runs."""

DOCUMENTATION = r"""
module: joulerig_precondition
short_description: Purge a drive, write it from end to end, load it in rounds until it is steady
description:
  - "Identity check, wipe lease, write cache set and read back, purge, passes, rounds of a fio job on the raw
    drive until its operations a second are steady, or as many as are allowed. What was set is put back, also
    after an error."
  - Refuses a drive whose serial, WWN or size differs from the declared, or that anything on the host uses.
options:
  run: {description: "Id of the run that it is for.", type: str, required: true}
  campaign: {description: "Id of the campaign.", type: str, required: true}
  host: {description: "Name of this host in the inventory.", type: str, required: true}
  drive: {description: "Name of the drive.", type: str, required: true}
  member: {description: "The declared drive.", type: dict, required: true}
  purge:
    description: "How; auto: in the first way that the drive can; empty: not at all."
    type: str
    default: ""
    choices: ["", auto, discard, format, sanitize, unmap, secure-erase]
  passes: {description: "How often the drive is written.", type: int, default: 0}
  use_bytes:
    description: "Passes and rounds are on the drive's first bytes, so many; 0: on the whole drive."
    type: int
    default: 0
  job: {description: "name and text of a fio job file.", type: dict, required: true}
  round_seconds: {description: "Length of a round.", type: int, required: true}
  rounds: {description: "At most as many now.", type: int, required: true}
  rounds_before: {description: "Rounds of earlier calls.", type: int, default: 0}
  write_cache:
    description: "write back, write through, no flush, or empty: as it is."
    type: str
    default: ""
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
status:
  description: "ok, failed, refused (nothing was touched) or not-run (this host cannot)."
  type: str
  returned: always
reason: {description: "Why it is not ok.", type: str, returned: always}
taken_down: {description: "What a killed call had left, and was put back.", type: list, returned: always}
made: {description: "What the drive is known by now; null: it was not changed.", type: dict, returned: always}
purged: {description: "How, or empty.", type: str, returned: always}
filled: {description: "How often.", type: int, returned: always}
rounds: {description: "number, ops, iops, start_ns, end_ns (host's clock).", type: list, returned: always}
clock: {description: "Offset to the controller's clock before and after.", type: list, returned: always}
touched: {description: "write_bytes and discard_bytes by the block layer.", type: dict, returned: always}
settings: {description: "Scheduler, write cache and purge, and why no other.", type: dict, returned: always}
health: {description: "The drive's health report afterwards.", type: dict, returned: when there is one}
"""

import sys

from ansible.module_utils.joulerig.detached import answering


def work():
    """Import what does the work, in the process that does it: the one that waits does not."""
    from ansible.module_utils.joulerig.preconditioning import steps

    return steps


def main():
    # Not for the process that does the work of a call, in which it takes longer than all the rest.
    from ansible.module_utils.basic import AnsibleModule

    from ansible.module_utils.joulerig.preconditioning import purges

    spec = {
        "run": {"type": "str", "required": True},
        "campaign": {"type": "str", "required": True},
        "host": {"type": "str", "required": True},
        "drive": {"type": "str", "required": True},
        "member": {"type": "dict", "required": True},
        "purge": {"type": "str", "default": "", "choices": ["", "auto", *purges.WAYS]},
        "passes": {"type": "int", "default": 0},
        "use_bytes": {"type": "int", "default": 0},
        "job": {"type": "dict", "required": True},
        "round_seconds": {"type": "int", "required": True},
        "rounds": {"type": "int", "required": True},
        "rounds_before": {"type": "int", "default": 0},
        "write_cache": {"type": "str", "default": ""},
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
