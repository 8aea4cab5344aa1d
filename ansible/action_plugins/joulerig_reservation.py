# SPDX-License-Identifier: GPL-3.0-or-later
"""Reserve a test host, free it, or refuse what would change one that another has reserved."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig.campaign.execution.ansible_channel import (
    AnsibleChannel,
    end_if_taken_over,
    user_errors_fail,
)
from joulerig.rig.campaign.execution.host_channel import HostGoneError
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.launch import handed
from joulerig.rig.campaign.reservations import asking, lease


class ActionModule(ActionBase):
    """Action `joulerig_reservation: {state: TEXT, folder: results/ID, executor: PROCESS, ...}`.

    `folder`: the campaign that asks, in the name of `executor`; without one a person does. Further
    arguments: `purpose` and `seconds`. `state` is that of the module. Without arguments it does
    what `rig` hands it, else it shows.
    Fails where the host refuses. A host that a campaign cannot reach is passed over: the campaign's
    executor asks it again before each run.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        host = task_vars["inventory_hostname"]
        given = self._task.args or handed.read(host) or {"state": "show"}
        asked = {key: value for key, value in given.items() if key not in ("folder", "executor")}
        folder = self._task.args.get("folder")
        if folder:
            executor = self._task.args.get("executor")
            with (
                user_errors_fail(),
                end_if_taken_over(),
                closing(Journal(Path(folder), executor)) as journal,
            ):
                journal.raise_if_taken_over()
                if asked["state"] == "free" and journal.goes_on(host):
                    return {
                        **result,
                        "changed": False,
                        "msg": "kept: the host may be in a run of the campaign",
                    }
                asked = {"seconds": lease.LEASE_SECONDS, **asking.in_the_name_of(host, journal), **asked}
            channel = AnsibleChannel(self, task_vars)

            def call(arguments):
                return channel.call(asking.MODULE, arguments)
        else:
            asked = {**asking.in_the_name_of(host), **asked}

            def call(arguments):
                return self._execute_module(
                    module_name=asking.MODULE, module_args=dict(arguments), task_vars=task_vars
                )

        with user_errors_fail():
            try:
                reply = asking.ask(call, asked)
            except HostGoneError as error:
                return {**result, "changed": False, "msg": f"could not be asked: {error}"}
        if reply.refused:
            raise AnsibleActionFail(reply.reason)
        return {**result, "changed": reply.changed, "reservation": reply.model_dump(mode="json")}
