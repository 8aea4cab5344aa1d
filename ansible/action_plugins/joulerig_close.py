# SPDX-License-Identifier: GPL-3.0-or-later
"""Conclude a campaign: complete what arrived late, write its tables, print its results.

Fails when a run that was due is not ok, and when power cuts broke a promise.
"""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.action import ActionBase

from joulerig.analysis.results.schema import Status
from joulerig.plural import counted
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.execution import record
from joulerig.rig.campaign.execution.ansible_channel import end_if_taken_over, user_errors_fail
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.cli import results
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import inventory, model


class ActionModule(ActionBase):
    """`joulerig_close: {folder: results/ID, executor: PROCESS}`."""

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        journal = Journal(Path(self._task.args["folder"]), self._task.args["executor"])
        with user_errors_fail(), end_if_taken_over():
            self._settle(journal, inventory.of_playbook(task_vars))
            if not {Status.PLANNED, Status.RUNNING} & set(journal.counts()):
                journal.conclude()
        not_ok = results.not_ok(journal)
        journal.close()
        with user_errors_fail():
            results.write_tables(Path(self._task.args["folder"]))
            self._display.display(results.summary_text(Path(self._task.args["folder"])))
            broken = results.broken_promises(Path(self._task.args["folder"]))
        folder = paths.short(Path(self._task.args["folder"]))
        if broken:
            message = f"{folder}: broke their promise: {', '.join(broken)}"
            return {**result, "failed": True, "msg": message}
        if not_ok:
            first = not_ok[0]
            what = f"{first['id']}: {first['status']}: {first['reason']}"
            message = f"{folder}: {counted(len(not_ok), 'run')} not ok; the first: {what}"
            return {**result, "failed": True, "msg": message}
        return {**result, "changed": False, "msg": f"{folder}: every run is ok"}

    def _settle(self, journal, inventory):
        """Complete runs whose energy arrived meanwhile; `rig settle` does so later."""
        try:
            campaign = opening.load(journal, model.load(inventory))
            if isinstance(campaign, opening.OpenCampaign):
                record.settle(campaign, self._display.display)
        except UserError as error:
            self._display.display(f"note: partial runs are not settled: {error}")
