#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have small files and folders of the rig's on this host."""

DOCUMENTATION = r"""
module: joulerig_files
short_description: Have small files and folders of the rig's on a host
description:
  - Writes what is not as wanted, in one call, once the host has recorded what is there before.
  - Each file is written whole or not at all. They are of the user as whom the module is executed, root.
options:
  folders:
    description: "Folders by path, their parents first, each with its mode."
    type: list
    elements: dict
    default: []
  trees:
    description: "Folders that are the rig's alone, where something is to be made in them."
    type: list
    elements: str
    default: []
  files:
    description:
      - Files by dest, each with its mode, and its content, or a secret that is its content and is
        never shown, or src, a file that the controller sends.
    type: list
    elements: dict
    default: []
author: [Joulerig]
"""

RETURN = r"""
written: {description: "Paths that were not as wanted.", type: list, elements: str, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.changes import files
from ansible.module_utils.joulerig.tools import Refused

TEXT = {"type": "str", "required": True}
FOLDER = {"path": TEXT, "mode": TEXT}
CONTENT, SECRET = "content", "secret"
FILE = {"dest": TEXT, "mode": TEXT, CONTENT: {"type": "str"}, SECRET: {"type": "str", "no_log": True}}
EITHER = {"mutually_exclusive": [(CONTENT, SECRET)], "required_one_of": [(CONTENT, SECRET)]}


def main():
    module = AnsibleModule(
        argument_spec={
            "folders": {"type": "list", "elements": "dict", "default": [], "options": FOLDER},
            "trees": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "list", "elements": "dict", "default": [], "options": FILE, **EITHER},
        },
        supports_check_mode=True,
    )
    p = module.params
    wanted = [{**one, CONTENT: one[SECRET] if one[CONTENT] is None else one[CONTENT]} for one in p["files"]]
    try:
        written = files.have(p["folders"], wanted, p["trees"], check=module.check_mode)
    except (Refused, OSError) as error:
        module.fail_json(msg=str(error))
    for path in () if module.check_mode else written:
        module.set_default_selinux_context(path, False)
    module.exit_json(changed=bool(written), written=written)


if __name__ == "__main__":
    main()
