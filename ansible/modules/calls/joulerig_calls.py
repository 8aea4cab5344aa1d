#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
"""The detached calls that a test host knows: which run, end some, forget some."""

DOCUMENTATION = r"""
module: joulerig_calls
short_description: List, end and forget the detached calls of a test host
options:
  stop:
    description: "A campaign whose calls are to end in good order; their outcome stays."
    type: str
    default: ""
  collected:
    description: "Calls whose outcome the controller keeps."
    type: list
    elements: str
    default: []
  over: {description: "A campaign that is over here: its calls that ended.", type: str, default: ""}
author: [Joulerig]
"""

RETURN = r"""
stopped: {description: "names of the calls that were ended.", type: list, returned: always}
calls: {description: "name and runs of each that is left.", type: list, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible.module_utils.joulerig.detached import calls
from ansible.module_utils.joulerig.tools import Failed


def main():
    spec = {
        "stop": {"type": "str", "default": ""},
        "collected": {"type": "list", "elements": "str", "default": []},
        "over": {"type": "str", "default": ""},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=False)
    try:
        stopped = calls.stop_all(module.params["stop"]) if module.params["stop"] else []
        calls.collected(module.params["collected"])
        if module.params["over"]:
            calls.forget(module.params["over"])
    except Failed as error:
        module.fail_json(msg=str(error))
    changed = any(module.params[name] for name in spec)
    module.exit_json(changed=changed, stopped=stopped, calls=calls.listed())


if __name__ == "__main__":
    main()
