#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what is on a host before it is changed."""

DOCUMENTATION = r"""
module: joulerig_record
short_description: Record what is on a host before it is changed
description:
  - Action joulerig_change calls this before each change; joulerig_release undoes what is recorded.
  - What is in the record stays as it is.
options:
  files: {description: "Paths of files, links and folders.", type: list, elements: str, default: []}
  trees: {description: "Folders that are the rig's alone.", type: list, elements: str, default: []}
  units: {description: "systemd's units.", type: list, elements: str, default: []}
  modules: {description: "Kernel modules.", type: list, elements: str, default: []}
  afterwards: {description: "Commands to run once all is undone.", type: list, elements: str, default: []}
author: [Joulerig]
"""

RETURN = r"""
recorded: {description: "All that is recorded on this host, by option.", type: dict, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.changes import record
from ansible.module_utils.joulerig.tools import Failed, Refused

KIND_OF = {
    "files": record.FILE,
    "trees": record.TREE,
    "units": record.UNIT,
    "modules": record.MODULE,
    "afterwards": record.COMMAND,
}


def main():
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "str", "default": []},
            "trees": {"type": "list", "elements": "str", "default": []},
            "units": {"type": "list", "elements": "str", "default": []},
            "modules": {"type": "list", "elements": "str", "default": []},
            "afterwards": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    p = module.params
    wanted = {kind: p[option] for option, kind in KIND_OF.items()}
    try:
        with record.locked(create=not module.check_mode):
            changes = record.Record()
            if not module.check_mode:
                changes.add(wanted)
    except (Refused, Failed, OSError) as error:
        module.fail_json(msg=f"cannot record what is there before a change: {error}")
    recorded = {option: changes.names(kind) for option, kind in KIND_OF.items()}
    module.exit_json(changed=False, recorded=recorded)


if __name__ == "__main__":
    main()
