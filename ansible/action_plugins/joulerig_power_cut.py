# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute the power cuts of one test host."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from joulerig.rig.common import wait
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import model
from joulerig.rig.powercut import host
from joulerig.rig.powercut.record import Record


class ActionModule(ActionBase):
    """`joulerig_power_cut: {folder: results/ID}`."""

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        record = Record(Path(self._task.args["folder"]))
        name = task_vars["inventory_hostname"]

        def execute(**arguments):
            return self._execute_module(
                module_name="joulerig_powercut", module_args=arguments, task_vars=task_vars
            )

        def answers():
            try:
                self._connection.reset()
                execute_ping = self._execute_module(
                    module_name="ansible.builtin.ping", module_args={}, task_vars=task_vars
                )
                return "ping" in execute_ping
            except AnsibleConnectionFailure:
                return False

        def await_return():
            seconds = record.definition["host_seconds"]
            if not wait.until(answers, seconds, 2.0):
                raise UserError(f"{name}: does not answer {seconds:g} s after its power was restored")

        try:
            described = model.load(Path(task_vars["inventory_file"]))
            cuts = host.campaign(
                record, host.Host(described, name, execute, await_return), self._display.display
            )
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": cuts > 0, "cuts": cuts}
