# SPDX-License-Identifier: GPL-3.0-or-later
"""Reserve a test host, free it, or refuse what would change one that another has reserved."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig.campaign.execution.ansible_channel import AnsibleChannel, user_errors_fail
from joulerig.rig.campaign.execution.host_channel import HostGoneError
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.reservations import asking, lease


class ActionModule(ActionBase):
    """Action `joulerig_reservation: {state: TEXT, folder: results/ID, purpose: TEXT, seconds: N}`.

    `folder`: the campaign that asks; without one a person does. `state` is that of the module.
    Fails where the host refuses. A host that a campaign cannot reach is passed over: the campaign's
    executor asks it again before each run.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        asked = {key: value for key, value in self._task.args.items() if key != "folder"}
        folder, host = self._task.args.get("folder"), task_vars["inventory_hostname"]
        if folder:
            with user_errors_fail(), closing(Journal(Path(folder))) as journal:
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

        try:
            with user_errors_fail():
                reply = asking.ask(call, asked)
        except HostGoneError as error:
            return {**result, "changed": False, "msg": f"could not be asked: {error}"}
        if reply.refused:
            raise AnsibleActionFail(reply.reason)
        return {**result, "changed": reply.changed, "reservation": reply.model_dump(mode="json")}
