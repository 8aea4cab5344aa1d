# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a test host back, and show what was undone there and what stays."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig.campaign import hosts
from joulerig.rig.campaign.execution.ansible_channel import show, user_errors_fail
from joulerig.rig.campaign.launch import handed
from joulerig.rig.campaign.reservations import asking


class ActionModule(ActionBase):
    """Action `joulerig_release:`; in check mode it only looks for a refusal.

    `rig` hands it `packages`: whether to remove those that were installed.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        person = asking.in_the_name_of(task_vars["inventory_hostname"])

        def call(asked):
            return self._execute_module(
                module_name=asking.MODULE, module_args=dict(asked), task_vars=task_vars
            )

        with user_errors_fail():
            reply = asking.ask(call, {**person, "state": "check", "alone": True})
        if reply.refused:
            raise AnsibleActionFail(reply.reason)
        given = handed.read(task_vars["inventory_hostname"]) or {}
        arguments = {"packages": given.get("packages", False), **person}
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        if not self._task.check_mode and "undone" in result:
            with user_errors_fail():
                lines = hosts.released_lines(task_vars["inventory_hostname"], result)
            for line in lines:
                show(self, line)
        return result
