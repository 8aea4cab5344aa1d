# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the lab's data source and dashboards on an existing Grafana, or take them away again."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from joulerig.rig.campaign.execution.ansible_channel import user_errors_fail
from joulerig.rig.grafana import provision
from joulerig.rig.lab import inventory, model

STATES = {"present": provision.present, "absent": provision.absent}


class ActionModule(ActionBase):
    """Action `joulerig_grafana: {state: present}`, or `absent`; the inventory names the Grafana."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset({"state"})

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec({"state": {"choices": list(STATES), "default": "present"}})
        with user_errors_fail():
            lab = model.load(inventory.of_playbook(task_vars))
            done = STATES[given["state"]](lab, pretend=self._task.check_mode)
        return {**result, "changed": bool(done), "changes": done}
