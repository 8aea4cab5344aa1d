#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host's part in a power cut."""

DOCUMENTATION = r"""
module: joulerig_powercut
short_description: Prepare a drive for power cuts, start the writer, tell what is there after a cut
description:
  - "prepare: wipe lease, mkfs; of a bare drive the writer's region is zeroed. write: mount (or wipe lease of
    the bare drive), start the writer and leave it running. survey: mount, read back, unmount, check; what
    cannot be mounted is repaired first. probe: read from the drive, whose power is off. reset: reset the
    host. clean: unmount."
  - Refuses a drive whose serial, WWN or size differs from the declared, or that anything on the host uses.
options:
  action:
    description: "What to do."
    type: str
    required: true
    choices: [prepare, write, survey, probe, reset, clean]
  member: {description: "The declared drive.", type: dict, required: true}
  filesystem: {description: "Definition as of joulerig_run; empty: the bare drive.", type: dict, default: {}}
  after:
    description: "before_mount, repair and check: commands that get the device."
    type: dict
    default: {}
  options: {description: "Words for the writer.", type: list, elements: str, default: []}
  witness: {description: "Where the witness listens: tcp:HOST:PORT.", type: str, default: ""}
  secret: {description: "What the writer introduces itself to the witness with.", type: str, default: ""}
author: [Joulerig]
"""

RETURN = r"""
made: {description: "By what the content of the drive is known now.", type: dict, returned: prepare, survey}
problem: {description: "Why it could not be done, or empty.", type: str, returned: always}
refused: {description: "Whether nothing was touched.", type: bool, returned: always}
boot_id: {description: "Of the running kernel.", type: str, returned: write, survey, reset}
answers: {description: "Whether the drive could be read.", type: bool, returned: probe}
survey: {description: "What durawriter survey printed.", type: str, returned: survey}
mount_seconds: {description: "How long the mount took.", type: float, returned: survey of a file system}
before_mount: {description: "command, exit and last_lines of it.", type: dict, returned: where it needs one}
mount_problem:
  description: "Why it could not be mounted."
  type: str
  returned: survey of a file system that had to be repaired
repair: {description: "command, exit and last_lines of it.", type: dict, returned: where it was repaired}
lost:
  description: "Why it cannot be mounted after the repair either."
  type: str
  returned: survey of a file system that is lost
check: {description: "command, exit and last_lines of it.", type: dict, returned: where there is one}
writer: {description: "The last line that the writer printed.", type: str, returned: clean}
health: {description: "The drive's health report.", type: dict, returned: survey}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import powercut
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused

PATIENCE_SECONDS = 60
ACTIONS = ("prepare", "write", "survey", "probe", "reset", "clean")


def execute(p):
    member, definition = p["member"], p["filesystem"]
    if p["action"] == "prepare":
        return powercut.prepare(member, definition, p["options"])
    if p["action"] == "write":
        return powercut.start(member, definition, p["options"], p["witness"], p["secret"])
    if p["action"] == "survey":
        return powercut.survey(member, definition, p["after"], p["options"])
    if p["action"] == "probe":
        return powercut.probe(member)
    if p["action"] == "reset":
        return powercut.reset()
    return powercut.clean(member)


def main():
    spec = {
        "action": {"type": "str", "required": True, "choices": list(ACTIONS)},
        "member": {"type": "dict", "required": True},
        "filesystem": {"type": "dict", "default": {}},
        "after": {"type": "dict", "default": {}},
        "options": {"type": "list", "elements": "str", "default": []},
        "witness": {"type": "str", "default": ""},
        "secret": {"type": "str", "default": "", "no_log": True},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=False)
    result = {"changed": module.params["action"] not in ("survey", "probe"), "problem": "", "refused": False}
    try:
        with HostLock(PATIENCE_SECONDS):
            result.update(execute(module.params))
    except (Refused, Failed, OSError) as error:
        result.update(problem=str(error), refused=isinstance(error, Refused))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
