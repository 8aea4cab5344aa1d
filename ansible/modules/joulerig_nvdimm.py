#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have an fsdax namespace over the whole of a declared NVDIMM."""

DOCUMENTATION = r"""
module: joulerig_nvdimm
short_description: Have an fsdax namespace on a declared NVDIMM
description: The NVDIMM is known by its DIMM id and its region's size; a namespace in use is never touched.
options:
  nvdimm: {description: "The declared drive, with its name.", type: dict, required: true}
author: [Joulerig]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.drives import identity, usage
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.tools import Failed, Refused, run


def main():
    module = AnsibleModule(
        argument_spec={"nvdimm": {"type": "dict", "required": True}}, supports_check_mode=True
    )
    spec = module.params["nvdimm"]
    try:
        region = identity.nvdimm_region(spec)
        namespaces = region.get("namespaces", [])
        if [n.get("mode") for n in namespaces] == ["fsdax"] and namespaces[0].get("blockdev"):
            module.exit_json(changed=False, blockdev=namespaces[0]["blockdev"])
        for namespace in namespaces:
            if not namespace.get("blockdev"):
                what = f"{region['dev']} has a namespace in mode {namespace.get('mode')!r}"
                raise Refused(f"{spec['name']}: {what}; whether it is in use cannot be checked")
            usage.check_unused(spec["name"], namespace["blockdev"], Host())
        if len(namespaces) > 1:
            raise Refused(
                f"{spec['name']}: {region['dev']} has {len(namespaces)} namespaces; one or none is expected"
            )
        if not module.check_mode:
            which = (
                [f"--reconfig={namespaces[0]['dev']}", "--force"]
                if namespaces
                else [f"--region={region['dev']}"]
            )
            run(["ndctl", "create-namespace", "--mode=fsdax", *which])
    except (Refused, Failed) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
