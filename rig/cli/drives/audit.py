# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig drives audit`: judge what drives report of their power by the rails of a campaign."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from joulerig import notebook
from joulerig.analysis import results
from joulerig.analysis.audit import campaign as audits_of
from joulerig.analysis.audit import table
from joulerig.analysis.audit.checks import PowerCheck, Verdict
from joulerig.analysis.audit.verdict import DriveAudit
from joulerig.analysis.report import text
from joulerig.analysis.results.campaign import Campaign
from joulerig.rig.cli.options import JsonOption, out
from joulerig.rig.common.errors import UserError


def show(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAMPAIGN|DRIVE...]",
            help="A campaign's id or bundle (.zip), or drives: of the newest campaign that asked them.",
        ),
    ] = None,
    print_json: JsonOption = False,
) -> None:
    """Judge what drives report of their power by their rails; end with 1 where one is wrong."""
    with contextlib.ExitStack() as kept:
        campaign, found = _audits(names or [], kept)
    if print_json:
        print(json.dumps(as_json(campaign, found), indent=1))
    else:
        _show(campaign, found)
    if any(one.verdict == Verdict.CONTRADICTED for one in found):
        raise typer.Exit(1)


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
                "comparisons": [
                    {key: value for key, value in row.items() if key not in ("host", "drive")}
                    for row in rows
                    if (row["host"], row["drive"]) == (one.host, one.drive) and row["quantity"] != table.DRIVE
                ],
            }
            for one in found
        ],
    }


def _audits(names: list[str], kept: contextlib.ExitStack) -> tuple[Campaign, list[DriveAudit]]:
    """Return a campaign and the audits of its drives, or of those named. Raises UserError."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    if len(names) == 1 and names[0].endswith(".zip"):
        opened = notebook.open_results(names[0])
        kept.callback(lambda: opened)  # its folder goes with it
        return opened.campaign, audits_of.audits(opened.campaign)
    if len(names) == 1 and _is_campaign(paths.results(), names[0]):
        campaign = results.load(journal.find(paths.results(), names[0]))
        return campaign, audits_of.audits(campaign)
    if not names:
        campaign = results.load(journal.find(paths.results(), None))
        return campaign, audits_of.audits(campaign)
    return _newest_of(paths.results(), names)


def _is_campaign(folder: Path, name: str) -> bool:
    return any((place / "journal.sqlite").is_file() for place in (folder / name, Path(name)))


def _newest_of(folder: Path, drives: list[str]) -> tuple[Campaign, list[DriveAudit]]:
    """Return the newest campaign that asked all of `drives` (DRIVE or HOST/DRIVE)."""
    campaigns = sorted(folder.glob("*/journal.sqlite"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in campaigns:
        campaign = results.load(path.parent)
        found = [
            one
            for one in audits_of.audits(campaign)
            if one.drive in drives or f"{one.host}/{one.drive}" in drives
        ]
        asked = {one.drive for one in found} | {f"{one.host}/{one.drive}" for one in found}
        if asked.issuperset(drives):
            return campaign, found
    raise UserError(
        f"{', '.join(drives)}: no campaign, and no campaign has what such drives report of their power;"
        " 'rig run audit' measures it on NVMe drives"
    )


def _show(campaign: Campaign, found: Sequence[DriveAudit]) -> None:
    of_lab = " (virtual lab)" if campaign.virtual else ""
    if not found:
        out.print(
            f"{campaign.id}{of_lab}: no drive of it was asked for its own power: only NVMe drives are",
            markup=False,
        )
    for one in found:
        out.print(f"[bold]{escape(f'{one.host}/{one.drive}')}[/]{of_lab}: {escape(one.sentence)}")
        if one.powers:
            shown = Table(
                "reported", "while", "runs", "rails, W", "drive, W", "off, %", "95 %", "stated, %", ""
            )
            for check in one.powers:
                shown.add_row(*_texts(check))
            out.print(shown)
        if one.histogram.readings:
            why = next(iter(one.histogram.contradictions), "agrees with the mean and the count of its log")
            out.print(f"  histogram: {why}", markup=False)
        if one.lifetime is not None:
            out.print(f"  lifetime energy: {one.lifetime.sentence}: {one.lifetime.verdict}", markup=False)
        for problem in one.problems:
            out.print(f"  {problem}", markup=False, soft_wrap=True)


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
