#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have an fsdax namespace over the whole of a declared NVDIMM."""

DOCUMENTATION = r"""
module: joulerig_nvdimm
short_description: Have an fsdax namespace on a declared NVDIMM
description:
  - The NVDIMM is known by its DIMM id and its region's size; a namespace in use is never touched.
  - A namespace of another mode is given this one under a wipe lease; the host records what is on it then.
options:
  nvdimm: {description: "The declared drive, with its name.", type: dict, required: true}
author: [Joulerig]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.drives import identity, wipe_lease
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused, run

PATIENCE_SECONDS = 60


def have(spec, check_mode):
    """Have the namespace; return its block device and whether that changes anything."""
    region = identity.nvdimm_region(spec)
    namespaces = region.get("namespaces", [])
    if [n.get("mode") for n in namespaces] == ["fsdax"] and namespaces[0].get("blockdev"):
        return namespaces[0]["blockdev"], False
    for namespace in namespaces:
        if not namespace.get("blockdev"):
            what = f"{region['dev']} has a namespace in mode {namespace.get('mode')!r}"
            raise Refused(f"{spec['name']}: {what}; whether it is in use cannot be checked")
    if len(namespaces) > 1:
        raise Refused(
            f"{spec['name']}: {region['dev']} has {len(namespaces)} namespaces; one or none is expected"
        )
    create = ["ndctl", "create-namespace", "--mode=fsdax"]
    if namespaces:
        with wipe_lease.lease_drive(spec) as lease:
            if not check_mode:
                with lease.closed():  # ndctl changes none that is open
                    run([*create, f"--reconfig={namespaces[0]['dev']}", "--force"])
    elif not check_mode:
        # No lease looked at what a former namespace left there: the first run's decides on it.
        run([*create, f"--region={region['dev']}"])
    return None, True


def main():
    module = AnsibleModule(
        argument_spec={"nvdimm": {"type": "dict", "required": True}}, supports_check_mode=True
    )
    try:
        with HostLock(PATIENCE_SECONDS):
            blockdev, changed = have(module.params["nvdimm"], module.check_mode)
    except (Refused, Failed) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, **({"blockdev": blockdev} if blockdev else {}))


if __name__ == "__main__":
    main()
