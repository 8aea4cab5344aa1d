# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig drives obey`: judge what drives declare of their power states by a campaign's rails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from joulerig import text
from joulerig.analysis.power_states import table
from joulerig.analysis.power_states.campaign import DriveStates, Setting, states
from joulerig.analysis.power_states.checks import UNITS, Verdict
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.runs.idle import RESTING, WORKING
from joulerig.rig.cli.drives import judged
from joulerig.rig.cli.drives.judged import Names
from joulerig.rig.cli.options import JsonOption, out

WAY_OUT = "no campaign varies how such drives rest or work; 'rig run obey' does"


def show(names: Names = None, print_json: JsonOption = False) -> None:
    """Judge what drives declare of their power states; end with 1 where one does otherwise."""
    judged.show(names, states, WAY_OUT, judged.in_json(as_json) if print_json else _show)


def as_json(campaign: Campaign, found: Sequence[DriveStates]) -> dict[str, Any]:
    """Return the verdict on each drive with its checks, rows of the table `power_states`."""
    rows = table.table(campaign, found).drop("campaign").to_dicts()
    return {
        "campaign": campaign.id,
        "virtual_lab": campaign.virtual,
        "drives": [
            {
                "host": one.host,
                "drive": one.drive,
                "verdict": one.verdict.value,
                "findings": one.findings,
                "problems": one.problems,
                "checks": judged.own_rows(rows, one),
            }
            for one in found
        ],
    }


def _show(campaign: Campaign, found: Sequence[DriveStates]) -> None:
    of_lab = " (virtual lab)" if campaign.virtual else ""
    if not found:
        known = ", ".join((*RESTING, *WORKING))
        out.print(f"{campaign.id}{of_lab}: no factor of it is about power states ({known})")
    for one in found:
        out.print(Text.assemble((f"{one.host}/{one.drive}", "bold"), f"{of_lab}: {one.verdict}"))
        for setting in one.settings:
            out.print(_table(setting))
        for line in (*one.findings, *one.problems):
            out.print(f"  {line}", soft_wrap=True)


def _table(setting: Setting) -> Table:
    shown = Table("", "state", "runs", "measured", "95 %", "declared", "", title_justify="left")
    shown.title = f"{setting.name} ({setting.condition})"
    for one in setting.checks:
        unit = UNITS[one.quantity]
        state = text.DASH if one.state is None else str(one.state)
        interval = text.DASH
        if one.interval is not None:
            interval = f"{text.measure(one.interval.low, unit)} to {text.measure(one.interval.high, unit)}"
        declared = text.DASH if one.declared is None else text.measure(one.declared, unit)
        measured = text.measure(one.value, unit)
        verdict = "" if one.verdict == Verdict.NOTHING_DECLARED else one.verdict.value
        if one.why:
            verdict = f"{verdict} ({one.why})".strip()
        shown.add_row(one.quantity.value, state, str(one.runs), measured, interval, declared, verdict)
    return shown
