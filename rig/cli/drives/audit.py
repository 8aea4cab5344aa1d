# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig drives audit`: judge what drives report of their power by the rails of a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from joulerig import text
from joulerig.analysis.audit import campaign as audits_of
from joulerig.analysis.audit import table
from joulerig.analysis.audit.checks import PowerCheck
from joulerig.analysis.audit.verdict import DriveAudit
from joulerig.analysis.results.campaign import Campaign
from joulerig.rig.cli.drives import judged
from joulerig.rig.cli.drives.judged import Names
from joulerig.rig.cli.options import JsonOption, out

WAY_OUT = "no campaign has what such drives report of their power; 'rig run audit' measures it on NVMe drives"


def show(names: Names = None, print_json: JsonOption = False) -> None:
    """Judge what drives report of their power by their rails; end with 1 where one is wrong."""
    judged.show(names, audits_of.audits, WAY_OUT, judged.in_json(as_json) if print_json else _show)


def as_json(campaign: Campaign, found: Sequence[DriveAudit]) -> dict[str, Any]:
    """Return the verdict on each drive with its comparisons, rows of the table `audit`."""
    rows = table.table(campaign, found).drop("campaign").to_dicts()
    return {
        "campaign": campaign.id,
        "virtual_lab": campaign.virtual,
        "drives": [
            {
                "host": one.host,
                "drive": one.drive,
                "verdict": one.verdict.value,
                "finding": one.finding.name.lower() if one.finding else None,
                "detail": one.detail or None,
                "problems": list(one.problems),
                "comparisons": [row for row in judged.own_rows(rows, one) if row["quantity"] != table.DRIVE],
            }
            for one in found
        ],
    }


def _show(campaign: Campaign, found: Sequence[DriveAudit]) -> None:
    of_lab = " (virtual lab)" if campaign.virtual else ""
    if not found:
        out.print(
            f"{campaign.id}{of_lab}: no drive of it was asked for its own power: only NVMe drives are",
        )
    for one in found:
        out.print(Text.assemble((f"{one.host}/{one.drive}", "bold"), f"{of_lab}: {one.sentence}"))
        if one.powers:
            shown = Table(
                "reported", "while", "runs", "rails, W", "drive, W", "off, %", "95 %", "stated, %", ""
            )
            for check in one.powers:
                shown.add_row(*_texts(check))
            out.print(shown)
        if one.histogram.readings:
            why = next(iter(one.histogram.contradictions), "agrees with the mean and the count of its log")
            out.print(f"  histogram: {why}")
        if one.lifetime is not None:
            out.print(f"  lifetime energy: {one.lifetime.sentence}: {one.lifetime.verdict}")
        for problem in one.problems:
            out.print(f"  {problem}", soft_wrap=True)


def _texts(check: PowerCheck) -> tuple[str, ...]:
    interval = text.DASH
    if check.interval is not None:
        low, high = (text.signed(100 * (end - 1), 2) for end in check.interval)
        interval = f"{low} to {high}"
    return (
        check.quantity, check.condition, str(check.runs), text.number(check.watts),
        text.number(check.reported_watts), text.signed(100 * (check.ratio - 1), 2), interval,
        text.number(check.error_percent), check.verdict.value,
    )  # fmt: skip
