# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute the planned runs of one test host, of whichever kind the campaign is.

rig/campaign/execution/executor.py has the loop, rig/campaign/powercut/executor.py that of power
cuts.
"""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.action import ActionBase

from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution.ansible_channel import (
    AnsibleChannel,
    end_if_taken_over,
    end_with_ansible,
    user_errors_fail,
)
from joulerig.rig.campaign.execution.executor import Executor
from joulerig.rig.campaign.execution.holds import of_controller, of_host
from joulerig.rig.campaign.execution.kernels import InstalledKernel
from joulerig.rig.campaign.execution.result_points import ResultPoints
from joulerig.rig.campaign.execution.side_by_side.lanes import LanesExecutor
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.powercut.executor import PowerCutExecutor
from joulerig.rig.campaign.reservations.lease import HostLease
from joulerig.rig.lab import inventory, model


class ActionModule(ActionBase):
    """Action `joulerig_campaign`, which executes the runs of one host.

    Arguments: `{folder: results/ID, executor: PROCESS, kernels: {LEVEL: {release: TEXT, tick_hertz:
    N}}}`.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        end_with_ansible()
        kernels = {
            level: InstalledKernel(one["release"], int(one["tick_hertz"]))
            for level, one in (self._task.args.get("kernels") or {}).items()
        }
        with user_errors_fail(), end_if_taken_over():
            lab = model.load(inventory.of_playbook(task_vars))
            campaign = opening.load(
                Journal(Path(self._task.args["folder"]), self._task.args["executor"]), lab
            )
            channel, host = AnsibleChannel(self, task_vars), task_vars["inventory_hostname"]
            reserve = HostLease(campaign.journal, host, channel).keep
            if isinstance(campaign, opening.OpenPowerCuts):
                done = PowerCutExecutor(campaign, host, channel, reserve=reserve).execute()
            else:
                conditions = [*of_controller.conditions(campaign), *of_host.conditions(campaign)]
                publish = ResultPoints(campaign, host, channel.say).send
                with_all = {"holds": conditions, "reserve": reserve, "publish": publish}
                executor = (
                    LanesExecutor(campaign, host, channel, **with_all)
                    if campaign.definition.side_by_side
                    else Executor(campaign, host, channel, kernels, **with_all)
                )
                done = executor.execute()
        return {**result, "changed": done > 0, "runs": done}
