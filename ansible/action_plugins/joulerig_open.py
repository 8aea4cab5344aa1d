# SPDX-License-Identifier: GPL-3.0-or-later
"""Open a campaign: validate, plan, journal it; or take up an earlier one where it was left."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import ansible.context
from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from joulerig.analysis.results.schema import Status
from joulerig.plural import counted
from joulerig.rig.campaign import hosts, opening, origin
from joulerig.rig.campaign.claims import heartbeat
from joulerig.rig.campaign.execution.ansible_channel import show
from joulerig.rig.campaign.launch import handed
from joulerig.rig.common import paths, process
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import inventory, model


class ActionModule(ActionBase):
    """Action `joulerig_open: {campaign: MAPPING, short: BOOL, resume: ID, take_over: BOOL}`.

    `rig` hands it all but the campaign; a person's ansible-playbook gives them by -e.
    Gives the facts campaign_folder, campaign_executor (the process that executes it),
    campaign_hosts (those that may execute its runs), campaign_holder (the campaign's name for test
    hosts), and of `joulerig.rig.workloads.deployment` campaign_programs and campaign_packages.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        playbook = Path(ansible.context.CLIARGS["args"][0]).absolute()
        executor = process.identity(os.getppid())  # ansible-playbook, to whose workers this belongs
        try:
            described = model.load(inventory.of_playbook(task_vars))
            given = {**self._task.args, **(handed.read(handed.CONTROLLER) or {})}
            if resume := given.get("resume"):
                take_over = boolean(given.get("take_over", False))
                journal = opening.resume_campaign(
                    str(resume), described, executor=executor, take_over=take_over, say=partial(show, self)
                )
                origin.record(journal, playbook)
            else:
                short = boolean(given.get("short", False))
                source = paths.short(playbook)
                journal = opening.open_campaign(given["campaign"], described, source, short=short)
                journal.claim(executor)
            heartbeat.start(journal.folder, executor)
            opened = opening.load(journal, described)
            needed, used = opened.deployment(), opened.hosts()
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        folder = journal.folder
        counts, holder = journal.counts(), hosts.holder(journal)
        journal.close()
        return {
            **result,
            "changed": True,
            "msg": f"{paths.short(folder)}: {counted(counts.get(Status.PLANNED, 0), 'run')} to do",
            "ansible_facts": {
                "campaign_folder": str(folder),
                "campaign_executor": executor,
                "campaign_hosts": used,
                "campaign_holder": holder,
                **needed,
            },
        }
