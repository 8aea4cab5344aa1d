# SPDX-License-Identifier: GPL-3.0-or-later
"""Conclude a power-cut campaign: write its tables, show its verdicts, fail where a promise was broken."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from joulerig.analysis.powercut import folder, tables
from joulerig.rig.common import paths


class ActionModule(ActionBase):
    """`joulerig_power_cut_close: {folder: results/ID}`."""

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        place = Path(self._task.args["folder"])
        try:
            campaign = folder.load(place)
        except folder.PowerCutError as error:
            raise AnsibleActionFail(str(error)) from None
        tables.write(campaign, place / "report")
        verdicts = campaign.verdicts()
        for verdict in verdicts.values():
            self._display.display(verdict.statement, color="red" if verdict.broken_cuts else "green")
        failed = [reason for reasons in campaign.failed.values() for reason in reasons]
        broken = [verdict.subject for verdict in verdicts.values() if verdict.broken_cuts]
        if failed:
            raise AnsibleActionFail(
                f"{paths.short(place)}: {len(failed)} cuts failed; the first: {failed[0]}"
            )
        if broken:
            raise AnsibleActionFail(f"{paths.short(place)}: broke their promise: {', '.join(broken)}")
        return {**result, "changed": False, "msg": f"{paths.short(place)}: every promise was kept"}
