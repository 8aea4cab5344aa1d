# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of the controller that a test host's roles need.

They are about packages, the agent's configuration and the clock.
"""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab import inventory, model, packages


class ActionModule(ActionBase):
    """Action `joulerig_deployment:`, which takes no arguments.

    Its facts are rig_build, rig_clock_server, rig_agent and rig_filesystem_packages.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            described = model.load(inventory.of_playbook(task_vars))
            facts = services.deployment(described, task_vars["inventory_hostname"])
            facts["rig_filesystem_packages"] = packages.for_filesystems(described)
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": False, "ansible_facts": facts, "_ansible_no_log": True}
