# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a module with the arguments that `rig` handed to the playbook for its host."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from joulerig.rig.campaign.launch import handed


class ActionModule(ActionBase):
    """Action `joulerig_handed: {module: joulerig_facts}`.

    A playbook that a person started has no arguments for it. What the module returns sets no
    facts: a host's facts would take the place of its variables in the inventory.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"module"})

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        arguments = handed.read(task_vars["inventory_hostname"]) or {}
        reply = self._execute_module(
            module_name=self._task.args["module"], module_args=arguments, task_vars=task_vars
        )
        reply.pop("ansible_facts", None)
        return {**result, **reply}
