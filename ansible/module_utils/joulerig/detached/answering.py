# SPDX-License-Identifier: GPL-3.0-or-later
"""The main program of a module whose work can be detached."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ansible.module_utils.joulerig.detached import calls, child
from ansible.module_utils.joulerig.tools import FAILED, Failed

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

OPTIONS: dict[str, Any] = {
    "call": {"type": "str", "default": ""},
    "begin": {"type": "bool", "default": True},
    "collected": {"type": "list", "elements": "str", "default": []},
}


def answer(program: ModuleType, module: AnsibleModule) -> None:
    """Answer a module call: with the outcome of its detached `call`, or of the work done here.

    `program` is the module as Python loaded it. Its `work` imports what does the work: `empty` is
    the result before anything is done, `execute` fills that.
    """
    parameters = {key: value for key, value in module.params.items() if key not in OPTIONS}
    if not module.params["call"]:
        module.exit_json(**child.perform(program.work(), parameters))
    try:
        calls.collected(module.params["collected"])
        found = calls.attend(
            module.params["call"], program.__spec__.name, parameters, begin=module.params["begin"]
        )
    except Failed as error:
        found = {**program.work().empty(), "status": FAILED, "reason": str(error)}
    module.exit_json(**found)
