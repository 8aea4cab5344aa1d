# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a module with what the inventory declares of its host's drives, read by the rig."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from joulerig.rig.campaign.execution import made_drives
from joulerig.rig.campaign.execution.ansible_channel import user_errors_fail
from joulerig.rig.lab import inventory, model


class ActionModule(ActionBase):
    """Action `joulerig_declared: {module: joulerig_array, state: absent}`.

    A variable of the inventory would be a template wherever a task names it: a drive's model is
    not. The module is called once for each array, else once.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"module", "state"})

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        with user_errors_fail():
            lab = model.load(inventory.of_playbook(task_vars))
        more = {key: value for key, value in self._task.args.items() if key != "module"}
        module, changed = self._task.args["module"], False
        for declared in made_drives.declared(lab.hosts[task_vars["inventory_hostname"]], module):
            reply = self._execute_module(
                module_name=module, module_args={**declared, **more}, task_vars=task_vars
            )
            reply.pop("ansible_facts", None)
            if reply.get("failed"):
                return reply
            changed = changed or bool(reply.get("changed"))
        return {**result, "changed": changed}
