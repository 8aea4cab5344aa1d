#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the kernel that a host runs; have it run another."""

DOCUMENTATION = r"""
module: joulerig_kernel
short_description: Look at the running kernel, or have the host run another
description:
  - Reports which kernel runs.
  - Kernels that the rig put on the host are started from the running one (kexec).
options:
  start:
    description: Whether to start another kernel, a moment after the answer.
    type: bool
    default: false
  release: {description: "Of the kernel to start; empty: the host's own, rebooted.", type: str, default: ""}
  settled:
    description: Whether to wait first until the boot has started all that it starts.
    type: bool
    default: false
author: [Joulerig]
"""
RETURN = r"""
status: {description: "ok, not-run (this host can't) or failed.", type: str, returned: always}
reason: {description: Why it is not ok., type: str, returned: always}
cause: {description: "busy, where something else was using the host.", type: str, returned: then}
kernel: {description: "release, tick_hertz, boot_id and of_rig of it.", type: dict, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import kernel, tools
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Busy, Failed, Refused

# For what is short. A run may take days: its end is waited for by asking again, because a call that
# waits here outlives its connection, and would start the kernel under a later run.
PATIENCE_SECONDS = 60


def main():
    module = AnsibleModule(
        argument_spec={
            "start": {"type": "bool", "default": False},
            "release": {"type": "str", "default": ""},
            "settled": {"type": "bool", "default": False},
        },
        supports_check_mode=False,
    )
    p = module.params
    result = {"changed": p["start"], "status": tools.OK, "reason": "", "kernel": kernel.running()}
    try:
        if result["kernel"]["of_rig"]:
            kernel.reached()
        if p["start"]:
            with HostLock(PATIENCE_SECONDS):
                kernel.start(p["release"])
        elif p["settled"]:
            kernel.await_booted()
    except (Refused, Failed) as error:
        status, reason = tools.describe(error)
        result.update(changed=False, status=status, reason=reason)
        if isinstance(error, Busy):
            result["cause"] = "busy"
    module.exit_json(**result)


if __name__ == "__main__":
    main()
