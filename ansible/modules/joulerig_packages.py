#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find which of the wanted packages this host can have."""

DOCUMENTATION = r"""
module: joulerig_packages
short_description: Find which of the wanted packages a host can have
description:
  - Reads only, but may refresh the lists of packages.
  - An optional package that the host's distribution lacks makes what needs it not-run, and nothing else fail.
options:
  required: {description: "Packages that each run needs.", type: list, elements: str, default: []}
  optional: {description: "Packages of single levels.", type: list, elements: str, default: []}
  refresh_seconds: {description: "How old the lists may be; left out: any age.", type: int}
author: [Joulerig]
"""

RETURN = r"""
available: {description: "What can be installed, or is.", type: list, elements: str, returned: success}
lacking: {description: "The optional ones that cannot.", type: list, elements: str, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.changes import packages
from ansible.module_utils.joulerig.tools import Failed


def main():
    module = AnsibleModule(
        argument_spec={
            "required": {"type": "list", "elements": "str", "default": []},
            "optional": {"type": "list", "elements": "str", "default": []},
            "refresh_seconds": {"type": "int"},
        },
        supports_check_mode=True,
    )
    p = module.params
    names = list(dict.fromkeys([*p["required"], *p["optional"]]))
    try:
        lacking = packages.lacking(names, p["refresh_seconds"])
    except Failed as error:
        module.fail_json(msg=str(error))
    if missing := [name for name in lacking if name in p["required"]]:
        module.fail_json(msg=f"this host's distribution has no {', '.join(missing)}, which each run needs")
    if lacking:
        module.warn(f"this host's distribution has no {', '.join(lacking)}: what needs it is not-run")
    module.exit_json(changed=False, available=[n for n in names if n not in lacking], lacking=lacking)


if __name__ == "__main__":
    main()
