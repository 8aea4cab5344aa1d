#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a command, and say by the controller's clock when it ran."""

DOCUMENTATION = r"""
module: joulerig_command
short_description: Execute a command of which the energy is to be known
description:
  - "Executes a command without a shell, with nothing on its standard input, and stamps its start and end. The
    host's clock is compared with the controller's before and after it."
  - "No run of a campaign may be in progress on the host, and none begins meanwhile."
options:
  argv: {description: "The command and its arguments.", type: list, elements: str, required: true}
  directory: {description: "Where it is executed; empty: the user's home.", type: str, default: ""}
  clock_server: {description: "address:port of the controller's clock (UDP).", type: str, required: true}
author: [Joulerig]
"""

RETURN = r"""
code:
  description: "Exit code; 128 and the signal's number where a signal ended it."
  type: int
  returned: always
start_ns:
  description: "When it began, by the host's clock (ns since 1970 UTC)."
  type: int
  returned: always
end_ns: {description: "When it had ended.", type: int, returned: always}
clock: {description: "Offset to the controller's clock before and after.", type: list, returned: always}
output:
  description: "What it printed, both streams; of more than 64 KiB the end."
  type: str
  returned: always
"""

import os
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.clocks import offset
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused

MOST_OUTPUT = 65536
SIGNALLED = 128


def execute(p):
    """Return the module's result. Raises Failed where the command cannot be started."""
    with HostLock():
        before = offset.measure(p["clock_server"])
        start_ns = time.time_ns()
        try:
            done = subprocess.run(
                p["argv"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=p["directory"] or os.path.expanduser("~"),
                check=False,
            )
        except OSError as error:
            raise Failed(f"{p['argv'][0]}: {error.strerror}") from None
        end_ns = time.time_ns()
        after = offset.measure(p["clock_server"])
    return {
        "code": done.returncode if done.returncode >= 0 else SIGNALLED - done.returncode,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "clock": [before, after],
        "output": done.stdout[-MOST_OUTPUT:].decode(errors="replace"),
    }


def main():
    spec = {
        "argv": {"type": "list", "elements": "str", "required": True},
        "directory": {"type": "str", "default": ""},
        "clock_server": {"type": "str", "required": True},
    }
    module = AnsibleModule(argument_spec=spec)
    try:
        result = execute(module.params)
    except (Failed, Refused) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, **result)


if __name__ == "__main__":
    main()
