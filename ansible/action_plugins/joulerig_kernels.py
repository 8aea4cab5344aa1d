# SPDX-License-Identifier: GPL-3.0-or-later
"""Have the kernels that a campaign's runs ask for, built where the cache lacks them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ansible.plugins.action import ActionBase

from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.execution.ansible_channel import show, user_errors_fail
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.lab import filesystems, inventory, kernels, model
from joulerig.rig.lab.kernels import build


class ActionModule(ActionBase):
    """Action `joulerig_kernels: {folder: results/ID}`, which sets the fact campaign_kernels.

    The fact has, for each host and each level of the kernel to boot, its archive, its release and
    its tick_hertz.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        with user_errors_fail():
            described = model.load(inventory.of_playbook(task_vars))
            journal = Journal(Path(self._task.args["folder"]))
            wanted = {
                (run["host"], level)
                for run in journal.runs()
                if run["status"] == Status.PLANNED
                and (level := factors.kernel_level(run["factors"])) != kernels.INSTALLED
            }
            journal.close()
            known = kernels.load(described)
            modules = filesystems.modules(filesystems.load(described))
            found: dict[str, dict] = {host: {} for host in described.hosts}
            for host, level in sorted(wanted):
                configuration = kernels.configuration(described.hosts[host])
                recipe = build.recipe(known[level], configuration, modules)
                built = build.build(recipe, partial(show, self))
                found[host][level] = {
                    "archive": str(built.archive),
                    "release": built.release,
                    "tick_hertz": recipe.tick_hertz,
                }
        return {**result, "changed": False, "ansible_facts": {"campaign_kernels": found}}
