#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the declared drives and check them against what they themselves report."""

DOCUMENTATION = r"""
module: joulerig_drives
short_description: Check a test host's drives against the inventory
description: Reads only. Fails with one line for the first drive that is missing or differs.
options:
  drives: {description: "Declared drives by name.", type: dict, required: true}
author: [Joulerig]
"""

RETURN = r"""
found:
  description: "By name: device, model, firmware, serial, wwn, size_bytes."
  type: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import provenance
from ansible.module_utils.joulerig.drives import identity
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.tools import Refused


def second_opinion(name, interface):
    """Ask the drive itself for (serial, size_bytes); None of memory and of emulated disks.

    The serial that scsi_debug reports changes with every load. Raises Refused where a drive gives
    no answer.
    """
    host = Host()
    if interface not in ("nvme", "sata-ssd", "hdd") or host.debug_adapter(name) is not None:
        return None
    try:
        with host.opened(name) as descriptor:
            return host.calls.identity(descriptor, name)
    except OSError as error:
        raise Refused(f"/dev/{name}: does not identify itself: {error}") from None


def check(spec):
    name = identity.find(spec)
    reported = second_opinion(name, spec["interface"])
    if reported is not None and reported != (spec["serial"], spec["size_bytes"]):
        raise Refused(
            f"{spec['name']}: /dev/{name}: the drive itself reports serial {reported[0]!r},"
            f" {reported[1]} bytes; the inventory says {spec['serial']!r}, {spec['size_bytes']}"
        )
    return provenance.drive(name, spec["interface"])


def main():
    module = AnsibleModule(
        argument_spec={"drives": {"type": "dict", "required": True}}, supports_check_mode=True
    )
    found = {}
    try:
        for name, spec in module.params["drives"].items():
            if spec["interface"] != "nvdimm":  # checked where its namespace is made
                found[name] = check({**spec, "name": name})
    except Refused as refusal:
        module.fail_json(msg=str(refusal), found=found)
    module.exit_json(changed=False, found=found)


if __name__ == "__main__":
    main()
