# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of the controller that a test host's roles need.

They are about packages, the agent's configuration and the clock.
"""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import provisioning
from joulerig.rig.lab import inventory, model


class ActionModule(ActionBase):
    """Action `joulerig_deployment:`, which takes no arguments.

    Its facts are rig_build, rig_clock_server, rig_agent, rig_filesystem_packages, and
    rig_provisioned: the mark by which `rig up` knows a virtual host again.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            described = model.load(inventory.of_playbook(task_vars))
            facts = provisioning.facts(described, task_vars["inventory_hostname"])
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": False, "ansible_facts": facts, "_ansible_no_log": True}
