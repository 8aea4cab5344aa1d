#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep background units from starting while a campaign uses a host."""

DOCUMENTATION = r"""
module: joulerig_quiet
short_description: Mask background units while a campaign uses a host
description:
  - "begin: stop and mask, for this boot, those of the units that the host has. end: undo that, unless another
    campaign uses the host."
  - The host undoes it alone an hour after the last module call of a campaign.
options:
  state: {description: "What to do.", type: str, required: true, choices: [begin, end]}
  campaign: {description: "Name of the campaign, with its controller's.", type: str, required: true}
  units: {description: "Units to mask.", type: list, elements: str, default: []}
author: [Joulerig]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig import quiet
from ansible.module_utils.joulerig.host_lock import HostLock
from ansible.module_utils.joulerig.tools import Failed, Refused

PATIENCE_SECONDS = 60


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "required": True, "choices": ["begin", "end"]},
            "campaign": {"type": "str", "required": True},
            "units": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=False,
    )
    p = module.params
    try:
        if p["state"] == "begin":
            changed = quiet.begin(p["units"], p["campaign"])
        else:
            with HostLock(PATIENCE_SECONDS):
                changed = quiet.end(p["campaign"])
    except (Refused, Failed, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
