# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the drives of a campaign before its first run: one that is not the rig's refuses it."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.action import ActionBase

from joulerig.rig.campaign import adoption, contents
from joulerig.rig.campaign.execution.ansible_channel import AnsibleChannel, user_errors_fail
from joulerig.rig.campaign.execution.host_channel import HostGoneError
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.lab import inventory, model


class ActionModule(ActionBase):
    """Action `joulerig_look: {folder: results/ID}` of one host of a campaign.

    Fails where a drive of its planned runs holds what may not be wiped: no run is executed then, on
    whichever host. A host that does not answer is passed over: each lease looks again.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        with user_errors_fail():
            lab = model.load(inventory.of_playbook(task_vars))
            journal = Journal(Path(self._task.args["folder"]))
            host = task_vars["inventory_hostname"]
            asked = contents.arguments(lab, host, adoption.drives(journal, host))
            journal.close()
            if not asked["names"]:
                return {**result, "changed": False}
            try:
                found = AnsibleChannel(self, task_vars).call("joulerig_contents", asked)
            except HostGoneError as error:  # its executor may bring it back: a cut left it off
                return {**result, "changed": False, "msg": f"could not be asked: {error}"}
            adoption.check(host, found)
        return {**result, "changed": False}
