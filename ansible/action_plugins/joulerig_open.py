# SPDX-License-Identifier: GPL-3.0-or-later
"""Open a campaign: validate, plan, journal it; or take up an earlier one where it was left."""

from __future__ import annotations

import os

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from joulerig.analysis.results.schema import Status
from joulerig.plural import counted
from joulerig.rig.campaign import hosts, opening
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import inventory, model


class ActionModule(ActionBase):
    """Action `joulerig_open: {campaign: MAPPING, short: BOOL, resume: ID}`.

    Gives the facts campaign_folder, campaign_hosts (those that may execute its runs),
    campaign_holder (the campaign's name for test hosts), and of
    `joulerig.rig.workloads.deployment` campaign_programs and campaign_packages.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        executor = process.identity(os.getppid())  # ansible-playbook, to whose workers this belongs
        try:
            described = model.load(inventory.of_playbook(task_vars))
            if resume := self._task.args.get("resume"):
                journal = opening.resume_campaign(resume, described, executor=executor)
            else:
                source = self._task.args.get("source") or "playbook"
                short = boolean(self._task.args.get("short", False))
                journal = opening.open_campaign(self._task.args["campaign"], described, source, short=short)
                journal.claim(executor)
            opened = opening.load(journal, described)
            needed, used = opened.deployment(), opened.hosts()
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        folder = journal.folder
        counts = journal.counts()
        journal.close()
        return {
            **result,
            "changed": True,
            "msg": f"{paths.short(folder)}: {counted(counts.get(Status.PLANNED, 0), 'run')} to do",
            "ansible_facts": {
                "campaign_folder": str(folder),
                "campaign_hosts": used,
                "campaign_holder": hosts.holder(folder.parent, folder.name),
                **needed,
            },
        }
