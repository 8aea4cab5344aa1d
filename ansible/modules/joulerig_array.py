#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have an array of declared drives; each member is wiped under a wipe lease only."""

DOCUMENTATION = r"""
module: joulerig_array
short_description: Have an array of declared drives
description:
  - Leaves an array of that name whose level and members are as declared as it is; refuses one that differs.
  - Creates it where there is none, when every member passes the checks of a wipe lease. A new array with
    redundancy is taken to be clean, as every run makes a new file system, so no content is at stake.
  - Waits for the end of a resync of an array that is there, as it has after a host went down under load.
options:
  name: {description: "Name: /dev/md/NAME, or /dev/joulerig/NAME.", type: str, required: true}
  level:
    description: "Of md: linear, raid0, raid1, raid5, raid6, raid10; lvm-linear, lvm-striped; crypt."
    type: str
    required: true
  chunk_kib: {description: "Chunk in KiB.", type: int, default: 64}
  members: {description: "Names of the drives that make it.", type: list, elements: str, required: true}
  drives: {description: "Declared drives by name.", type: dict, required: true}
  state:
    description: "present; or absent: stopped where emulated disks are in it, else left as it is."
    type: str
    choices: [present, absent]
    default: present
author: [Joulerig]
"""

import contextlib
import os
import time
import uuid

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import limits
from ansible.module_utils.joulerig.arrays import kinds
from ansible.module_utils.joulerig.drives import identity, wipe_lease
from ansible.module_utils.joulerig.drives.host import SCSI_DEBUG, Host
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable, run

PATIENCE_SECONDS = 60


def existing(asked, kind, members, host):
    """Return the kernel name of the array where it is there as declared, else None.

    Raises Refused where it differs.
    """
    name = asked["name"]
    kind.start(asked, host)
    if not os.path.exists(kind.device(name, host)):
        return None
    kernel_name = os.path.basename(os.path.realpath(kind.device(name, host)))
    slaves = set(os.listdir(f"{host.sys}/block/{kernel_name}/slaves"))
    if slaves != {identity.find(spec, host) for spec in members}:
        others = ", ".join(sorted(slaves))
        raise Refused(f"{name}: /dev/{kernel_name} has other members than the inventory: {others}")
    if differs := kind.difference(asked, kernel_name, host):
        raise Refused(f"{name}: /dev/{kernel_name} {differs}")
    kinds.link(kind, name, host)
    return kernel_name


def create(asked, kind, members, host):
    name = asked["name"]
    with contextlib.ExitStack() as stack:
        wanted = [wipe_lease.lease_drive(spec) for spec in members]
        leases = stack.enter_context(wipe_lease.together(wanted))
        try:
            kind.check(asked["level"], host)
        except Unable as lacking:
            raise Unable(f"{name}: {lacking}") from None
        identifiers = [uuid.uuid4().hex for _ in leases]
        for lease in leases:
            lease.begin(*identifiers)
        for lease in leases:
            lease.check()
            lease.lend()
        kind.create(asked, leases, identifiers)
        for lease in leases:
            lease.made()
    device = kind.device(name, host)
    for _ in range(50):  # udev makes the link
        if os.path.exists(device):
            kinds.link(kind, name, host)
            return
        time.sleep(0.1)
    raise Failed(f"{name}: was made, but {device} did not appear")


def needs_resync(kernel_name, host):
    action = host.read(f"{host.sys}/block/{kernel_name}/md/sync_action", "idle")
    return action != "idle" or not identity.is_synchronised(kernel_name, host)


def await_resync(name, kernel_name, seconds, host):
    """Begin the resync that an array has before it, and wait for its end. Raises Failed."""
    base = f"{host.sys}/block/{kernel_name}/md"
    if host.read(f"{base}/array_state") == "read-auto":  # it would begin with the first write
        run(["mdadm", "--readwrite", f"{host.dev}/{kernel_name}"])
    end = time.monotonic() + seconds
    while needs_resync(kernel_name, host):
        if time.monotonic() >= end:
            done = host.read(f"{base}/sync_completed", "unknown")
            raise Failed(
                f"{name}: /dev/{kernel_name} is still at its resync after {seconds:.0f} s (sectors: {done});"
                " provision again later"
            )
        time.sleep(1)


def stop(name, kind, members, host):
    """Stop the array under its wipe lease and unmark its members.

    Members that are still marked would be refused as such for ever.
    """
    with wipe_lease.lease_array(name, members, host) as lease:
        device = lease.path
    kind.stop(name, device)  # the kernel stops none that is open
    kinds.unlink(kind, name, host)
    with wipe_lease.together([wipe_lease.lease_drive(spec, host) for spec in members]) as leases:
        for lease in leases:
            lease.begin()  # what the array held is without a signature then
            with lease.lent() as device:
                kind.unmark(device)


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "level": {"type": "str", "required": True},
            "chunk_kib": {"type": "int", "default": 64},
            "members": {"type": "list", "elements": "str", "required": True},
            "drives": {"type": "dict", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    p = module.params
    host = Host()
    try:
        if missing := [name for name in p["members"] if name not in p["drives"]]:
            allowed = ", ".join(p["drives"])
            raise Refused(f"{p['name']}: member {missing[0]!r} is no declared drive; allowed: {allowed}")
        members = [{**p["drives"][name], "name": name} for name in p["members"]]
        with HostLock(PATIENCE_SECONDS):
            changed = have(p, members, host, module.check_mode)
    except (Refused, Failed) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


def have(p, members, host, check_mode):
    """Have the array as it is asked for; return whether that changes anything."""
    kind = kinds.by_level(p["level"])
    there = _there(p, kind, members, host)
    present = p["state"] == "present"
    resync = present and bool(there) and needs_resync(there, host)
    changed = bool(there) != present or resync
    if changed and not check_mode:
        if resync:
            await_resync(p["name"], there, limits.seconds(members, limits.WHOLE), host)
        elif present:
            create(p, kind, members, host)
        else:
            stop(p["name"], kind, members, host)
    return changed


def _there(p, kind, members, host):
    if p["state"] == "absent":
        emulated = any(spec["serial"].startswith(SCSI_DEBUG) for spec in members)
        # Where it is not there its members need not be either.
        if not emulated or not os.path.exists(kind.device(p["name"], host)):
            return None
    return existing(p, kind, members, host)


if __name__ == "__main__":
    main()
