#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return what a test host and its disks are, and how they are set."""

DOCUMENTATION = r"""
module: joulerig_facts
short_description: Return what a test host and its disks are
description:
  - "For `rig doctor` and `rig hosts discover`: reads the kernel's files, and asks disks what they are."
  - Changes nothing, and needs nothing that provisioning installs.
options:
  units: {description: "Background units to ask for.", type: list, elements: str, default: []}
  addresses: {description: "HOST:PORT (TCP) to reach.", type: list, elements: str, default: []}
  drives: {description: "Declared drives by name.", type: dict, default: {}}
author: [Joulerig]
"""

RETURN = r"""
machine: {description: "Facts of the host, by subject.", type: dict, returned: success}
disks: {description: "Facts of each whole disk.", type: list, elements: dict, returned: success}
nvdimms:
  description: "Of each region of persistent memory: serial, size_bytes, devices, and use (or empty)."
  type: list
  elements: dict
  returned: success
declared:
  description: "Of each declared drive, by name: device, and problem (why it is refused, or empty)."
  type: dict
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.facts import disks, machine


def main():
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "default": []},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "drives": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    p, host = module.params, Host()
    module.exit_json(
        changed=False,
        machine=machine.look(host, p["units"], p["addresses"]),
        disks=disks.look(host),
        nvdimms=disks.nvdimms(host),
        declared=disks.declared(host, p["drives"]),
    )


if __name__ == "__main__":
    main()
