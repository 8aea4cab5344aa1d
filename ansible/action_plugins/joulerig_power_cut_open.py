# SPDX-License-Identifier: GPL-3.0-or-later
"""Open a power-cut campaign: validate its mapping, and make its results folder."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import model
from joulerig.rig.powercut import plan
from joulerig.rig.powercut.record import Record


class ActionModule(ActionBase):
    """`joulerig_power_cut_open: {power_cut: MAPPING, source: NAME}`; gives the fact power_cut_folder."""

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            described = model.load(Path(task_vars["inventory_file"]))
            campaign = plan.parse(self._task.args["power_cut"], described, self._task.args["source"])
            subjects = plan.subjects(campaign, described)
            record = Record.create(
                campaign.name, subjects, campaign.model_dump(mode="json"), described.virtual
            )
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        return {
            **result,
            "changed": True,
            "msg": f"{paths.short(record.folder)}: {campaign.cuts} cuts of {len(subjects)} subjects",
            "ansible_facts": {
                "power_cut_folder": str(record.folder),
                "power_cut_writer": str(paths.program("durawriter")),
            },
        }
