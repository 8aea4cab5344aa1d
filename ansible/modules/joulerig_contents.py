#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at what is on drives, and release one for wiping."""

DOCUMENTATION = r"""
module: joulerig_contents
short_description: Look at what is on drives, and adopt one
description:
  - "Says of each drive or array what it holds, and whether it may be wiped: it is blank, was made by this
    rig, or was adopted. Reads only, but for the host's record of drives."
  - An array that is not there yet is looked at as its members.
options:
  drives: {description: "Declared drives by name.", type: dict, required: true}
  arrays: {description: "Names of members by name of an array.", type: dict, default: {}}
  names: {description: "Drives and arrays to look at.", type: list, elements: str, required: true}
  adopt:
    description: "What was seen on the drive that is adopted (identity of an earlier look); empty: none is."
    type: dict
    default: {}
author: [Joulerig]
"""

RETURN = r"""
found:
  description:
    - "By name: device, holds (in words), identity, details, free (why it may be wiped; empty: it may not),
      problem (why it is refused in any case), model, serial, size_bytes."
  type: dict
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import provenance
from ansible.module_utils.joulerig.drives import wipe_lease
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused

PATIENCE_SECONDS = 60


def leases(p, host):
    """Yield the lease of each drive or array to look at; none is taken."""
    drives = {name: {**spec, "name": name} for name, spec in p["drives"].items()}
    for name in p["names"]:
        members = [drives[one] for one in p["arrays"].get(name, [name])]
        if name in p["arrays"] and os.path.exists(f"{host.dev}/md/{name}"):
            yield wipe_lease.lease_array(name, members, host), None
        else:
            yield from ((wipe_lease.lease_drive(spec, host), spec) for spec in members)


def look(lease, spec):
    try:
        found = lease.look()
    except Refused as refusal:
        return {"problem": str(refusal)}
    if spec:
        shown = provenance.drive(lease.name, spec["interface"])
        found.update({key: shown[key] for key in ("model", "serial", "size_bytes")})
    return found


def main():
    module = AnsibleModule(
        argument_spec={
            "drives": {"type": "dict", "required": True},
            "arrays": {"type": "dict", "default": {}},
            "names": {"type": "list", "elements": "str", "required": True},
            "adopt": {"type": "dict", "default": {}},
        },
        supports_check_mode=False,
    )
    p, host = module.params, Host()
    found = {}
    try:
        with HostLock(PATIENCE_SECONDS):
            for lease, spec in leases(p, host):
                if p["adopt"]:
                    lease.adopt(p["adopt"])
                found[lease.what] = look(lease, spec)
    except (Refused, Failed) as error:
        module.fail_json(msg=str(error), found=found)
    module.exit_json(changed=bool(p["adopt"]), found=found)


if __name__ == "__main__":
    main()
