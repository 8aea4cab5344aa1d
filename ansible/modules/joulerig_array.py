#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create an md array of declared drives; each member is wiped under a wipe lease only."""

DOCUMENTATION = r"""
module: joulerig_array
short_description: Have an md array of declared drives
description:
  - Leaves an array of that name whose level and members are as declared as it is; refuses one that differs.
  - Creates it where there is none, when every member passes the checks of a wipe lease.
options:
  name: {description: "Name: /dev/md/NAME.", type: str, required: true}
  level: {description: "raid0, raid5, raid6 or raid10.", type: str, required: true}
  chunk_kib: {description: "Chunk in KiB.", type: int, default: 64}
  members: {description: "Names of the drives that make it.", type: list, elements: str, required: true}
  drives: {description: "Declared drives by name.", type: dict, required: true}
author: [Joulerig]
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import drive
from ansible.module_utils.joulerig.tools import Failed, Refused, run


def existing(name, level, chunk_kib, members, host):
    """Whether the array is there, as declared. Raises Refused where it is there and differs."""
    try:
        kernel_name = drive.find_array(name, host)
    except Refused:
        return False
    base = f"{host.sys}/block/{kernel_name}"
    slaves = set(os.listdir(f"{base}/slaves"))
    if slaves != {drive.find(spec, host) for spec in members}:
        others = ", ".join(sorted(slaves))
        raise Refused(f"{name}: /dev/{kernel_name} has other members than the inventory: {others}")
    if (found := host.read(f"{base}/md/level")) != level:
        raise Refused(f"{name}: /dev/{kernel_name} is {found}, the inventory says {level}")
    if (found := int(host.read(f"{base}/md/chunk_size", "0")) // 1024) != chunk_kib:
        raise Refused(f"{name}: /dev/{kernel_name} has chunks of {found} KiB, the inventory says {chunk_kib}")
    return True


def create(name, level, chunk_kib, members):
    leases = [drive.lease(spec) for spec in members]
    run(
        ["mdadm", "--create", f"/dev/md/{name}", "--run", "--homehost=any", f"--name={name}",
         f"--level={level}", f"--chunk={chunk_kib}", f"--raid-devices={len(members)}",
         *(lease.device() for lease in leases)]
    )  # fmt: skip
    for _ in range(50):  # udev makes the link
        if os.path.exists(f"/dev/md/{name}"):
            return
        time.sleep(0.1)
    raise Failed(f"{name}: mdadm made it, but /dev/md/{name} did not appear")


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "level": {"type": "str", "required": True},
            "chunk_kib": {"type": "int", "default": 64},
            "members": {"type": "list", "elements": "str", "required": True},
            "drives": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    p = module.params
    try:
        if missing := [name for name in p["members"] if name not in p["drives"]]:
            allowed = ", ".join(p["drives"])
            raise Refused(f"{p['name']}: member {missing[0]!r} is no declared drive; allowed: {allowed}")
        members = [{**p["drives"][name], "name": name} for name in p["members"]]
        changed = not existing(p["name"], p["level"], p["chunk_kib"], members, drive.Host())
        if changed and not module.check_mode:
            create(p["name"], p["level"], p["chunk_kib"], members)
    except (Refused, Failed) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
