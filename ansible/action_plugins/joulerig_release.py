# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a test host back, and show what was undone there and what stays."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from joulerig.rig.campaign import hosts
from joulerig.rig.campaign.execution.ansible_channel import show
from joulerig.rig.common import paths


class ActionModule(ActionBase):
    """Action `joulerig_release: {packages: BOOL}`; in check mode it only looks for a refusal."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        arguments = {
            "packages": boolean(self._task.args.get("packages", False)),
            "controller": hosts.holder(paths.results()),
        }
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        if not self._task.check_mode and "undone" in result:
            for line in hosts.released_lines(task_vars["inventory_hostname"], result):
                show(self, line)
        return result
