# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of the controller that a test host's roles need: the agent's configuration, the clock's address."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig import controller, lab
from joulerig.rig.errors import UserError


class ActionModule(ActionBase):
    """`joulerig_deployment:` takes no arguments; its facts are rig_build, rig_clock_server and rig_agent."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            described = lab.load(Path(task_vars["inventory_file"]))
            facts = controller.deployment(described, task_vars["inventory_hostname"])
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": False, "ansible_facts": facts, "_ansible_no_log": True}
