#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a host back: undo what provisioning and campaigns changed on it."""

DOCUMENTATION = r"""
module: joulerig_release
short_description: Undo what provisioning and campaigns changed on a host
description:
  - Undoes what the host's own record says, in the opposite order, and removes what the rig keeps on the host.
  - Refuses while a run is in progress, another has reserved the host, or a kernel of the rig's runs. Check
    mode looks for that alone. The asker's own reservation ends.
options:
  packages: {description: "Whether to undo the installation of packages.", type: bool, default: false}
  owner: {description: "Who asks: a user and a controller, for people.", type: str, required: true}
  machine: {description: "The controller, by a name that no other has.", type: str, required: true}
  host: {description: "Name of this host in the inventory.", type: str, required: true}
author: [Joulerig]
"""

RETURN = r"""
undone: {description: "What was done, a line each.", type: list, returned: always}
stays: {description: "What is left as it is, and why.", type: list, returned: always}
packages: {description: "Packages that are left as --packages was not given.", type: list, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import kernel, quiet, reservation
from ansible.module_utils.joulerig.changes import record
from ansible.module_utils.joulerig.changes.undo import Undo
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused


def main():
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "bool", "default": False},
            "owner": {"type": "str", "required": True},
            "machine": {"type": "str", "required": True},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    p = module.params
    result = {"changed": False, "undone": [], "stays": [], "packages": []}
    try:
        asker = reservation.Asker(p["owner"], p["machine"], p["host"])
        reservation.check(asker)
        running = kernel.running()
        if running["of_rig"]:
            raise Refused(
                f"kernel {running['release']} of the rig's runs; reboot the host into its own first"
            )
        if module.check_mode:
            with HostLock():
                module.exit_json(**result)
        with reservation.locked(), HostLock(), record.locked(create=False):
            reservation.check(asker)  # one that asks from here on waits for the end
            undoing = Undo(record.Record())
            if reservation.remove():
                undoing.undone.append("ended the reservation")
            if quiet.end():
                undoing.undone.append("unmasked the background units")
            undoing.execute(with_packages=p["packages"])
        left = record.Record()
        result.update(
            changed=bool(undoing.undone),
            undone=undoing.undone,
            stays=undoing.stays,
            packages=[] if p["packages"] else sorted(left.names(record.PACKAGE)),
        )
        if undoing.failures:
            module.fail_json(msg="; ".join(undoing.failures), **result)
    except (Refused, Failed, OSError) as error:
        module.fail_json(msg=str(error), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
