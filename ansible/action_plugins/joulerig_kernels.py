# SPDX-License-Identifier: GPL-3.0-or-later
"""Have the kernels that a campaign's runs ask for, built where the cache lacks them."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.rig.campaign import factors, playbook
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import filesystems, kernels, model
from joulerig.rig.lab.kernels import build


class ActionModule(ActionBase):
    """`joulerig_kernels: {folder: results/ID}`; gives the fact campaign_kernels: for each host,
    for each level of the kernel to boot, its archive, its release, its tick_hertz.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            described = model.load(Path(task_vars["inventory_file"]))
            journal = Journal(Path(self._task.args["folder"]))
            wanted = {
                (run["host"], level)
                for run in journal.runs()
                if run["status"] == "planned"
                and (level := factors.kernel_level(run["factors"])) != kernels.INSTALLED
            }
            journal.close()
            known = kernels.load(described)
            modules = filesystems.modules(filesystems.load(described))
            found: dict[str, dict] = {host: {} for host in described.hosts}
            for host, level in sorted(wanted):
                configuration = kernels.configuration(described.hosts[host])
                recipe = build.recipe(known[level], configuration, modules)
                built = build.build(recipe, self._note)
                found[host][level] = {
                    "archive": str(built.archive),
                    "release": built.release,
                    "tick_hertz": recipe.tick_hertz,
                }
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": False, "ansible_facts": {"campaign_kernels": found}}

    def _note(self, text):
        self._display.display(playbook.NOTE + text)
