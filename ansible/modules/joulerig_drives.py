#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the declared drives and check them against what nvme-cli and smartctl say of them."""

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
from ansible.module_utils.joulerig.tools import Refused, run_json


def second_opinion(name, interface):
    """Ask the drive's own tool for (serial, size_bytes); None where there is no such tool.

    None, too, of a disk that scsi_debug emulates: the serial that it reports changes with every
    load. Raises Refused where the tool does not know the drive.
    """
    if Host().debug_adapter(name) is not None:
        return None
    if interface == "nvme":
        listing = run_json(["nvme", "list", "--output-format=json"]) or {}
        for device in listing.get("Devices", []):
            if device.get("DevicePath") == f"/dev/{name}":
                return device.get("SerialNumber", "").strip(), device.get("PhysicalSize")
        raise Refused(f"/dev/{name}: nvme list does not know it")
    if interface in ("sata-ssd", "hdd"):
        info = run_json(["smartctl", "--json", "--info", f"/dev/{name}"]) or {}
        if "serial_number" not in info:
            raise Refused(f"/dev/{name}: smartctl cannot identify it")
        return info["serial_number"].strip(), info.get("user_capacity", {}).get("bytes")
    return None


def check(spec):
    name = identity.find(spec)
    reported = second_opinion(name, spec["interface"])
    if reported is not None and reported != (spec["serial"], spec["size_bytes"]):
        raise Refused(
            f"{spec['name']}: /dev/{name}: its tool says serial {reported[0]!r}, {reported[1]} bytes;"
            f" the inventory says {spec['serial']!r}, {spec['size_bytes']}"
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
