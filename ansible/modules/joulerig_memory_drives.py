#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have, or have no longer, the declared drives that the kernel makes of memory."""

DOCUMENTATION = r"""
module: joulerig_memory_drives
short_description: Have the RAM block device and the emulated disks that are declared
description:
  - Loads brd for a drive of interface ram, scsi_debug for drives with a serial scsi_debug-N.
  - A module that is loaded with other parameters is refused and left as it is.
  - The drives are gone with a reboot; a campaign has those that its runs need made again.
options:
  drives: {description: "Declared drives by name.", type: dict, required: true}
  emulated: {description: "How emulated disks are made: access_milliseconds.", type: dict}
  state:
    description: "present; or absent, each taken away under a wipe lease."
    type: str
    choices: [present, absent]
    default: present
author: [Joulerig]
"""

RETURN = r"""
modules: {description: "What is loaded (unloaded) now for the drives.", type: list, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.drives import memory_drives
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused

PATIENCE_SECONDS = 60


def main():
    module = AnsibleModule(
        argument_spec={
            "drives": {"type": "dict", "required": True},
            "emulated": {"type": "dict"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    p, host = module.params, Host()
    present = p["state"] == "present"
    changed = []
    try:
        wanted = memory_drives.wanted(p["drives"], p["emulated"])
        with HostLock(PATIENCE_SECONDS):
            for name, (parameters, specs) in wanted.items():
                if memory_drives.is_loaded(name, parameters, specs, host) == present:
                    continue
                if not module.check_mode:
                    if present:
                        memory_drives.load(name, parameters, specs, host)
                    else:
                        memory_drives.unload(name, specs, host)
                changed.append(name)
    except (Refused, Failed) as error:
        module.fail_json(msg=str(error), modules=changed)
    module.exit_json(changed=bool(changed), modules=changed)


if __name__ == "__main__":
    main()
