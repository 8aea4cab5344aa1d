# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig compare`, `rig merge`: what changed between campaigns; one campaign of several."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from joulerig.analysis import results
from joulerig.analysis.compare import campaigns
from joulerig.analysis.compare.campaigns import Change
from joulerig.analysis.results.campaign import Campaign
from joulerig.plural import counted
from joulerig.rig.cli.options import JsonOption, out
from joulerig.rig.common.errors import UserError


def compare(
    before: Annotated[str, typer.Argument(help="Campaign id.")],
    after: Annotated[str, typer.Argument(help="Campaign id.")],
    print_json: JsonOption = False,
) -> None:
    """Show what changed from one campaign to another, and whether it is more than chance."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    folders = [journal.find(paths.results(), campaign) for campaign in (before, after)]
    if print_json:
        print(json.dumps(as_json(*folders), indent=1))
        return
    out.print(text(*folders, out.width), markup=False, soft_wrap=True)


def merge(
    folders: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Results folders, or campaign ids.")
    ],
    into: Annotated[str, typer.Option(metavar="NAME", help="Id of the merged campaign, a new folder.")],
) -> None:
    """Make one campaign of what several controllers executed of it; the folders stay unchanged."""
    from joulerig.analysis import merge as merging
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", into):
        raise UserError(f"--into: {into!r} is no name; allowed: lower case, digits, '-', '_', '.'")
    sources = [journal.find(paths.results(), folder) for folder in folders]
    try:
        merged = merging.merge(sources, paths.results() / into)
    except OSError as error:
        raise UserError(f"{error.filename or into}: cannot be merged: {error.strerror}") from None
    out.print(f"{paths.short(merged.folder)}: {merging.describe(merged)}", markup=False, soft_wrap=True)


def as_json(before: Path, after: Path) -> dict[str, Any]:
    """Return each cell's AI before and after, with interval and p; unpaired cells.

    Settings that differ.
    """
    old, new = results.load(before), results.load(after)
    return {
        "before": old.id,
        "after": new.id,
        "virtual_lab": [old.virtual, new.virtual],
        "cells": [
            vars(change) | {"significant": change.significant} for change in campaigns.changes(old, new)
        ],
        "only_before": campaigns.only_in(old, new),
        "only_after": campaigns.only_in(new, old),
        "settings": [dict(zip(("name", "before", "after"), row, strict=True)) for row in _settings(old, new)],
    }


def text(before: Path, after: Path, width: int = 110) -> str:
    """Return the same as a table, after a line of summary."""
    old, new = results.load(before), results.load(after)
    changes = campaigns.changes(old, new)
    console = Console(width=width, record=True, file=io.StringIO())

    def say(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True)

    say(f"{_named(old)} to {_named(new)}: {_summary(changes)}")
    if changes:
        console.print(_table(changes))
        say("95 % intervals and p hold for all cells together; *: significant")
        say("they are of the spread between runs, and of what the two campaigns' meters do not share")
    for one, other in ((old, new), (new, old)):
        if cells := campaigns.only_in(one, other):
            say(f"with an AI only in {one.id}: {', '.join(cells)}")
    for name, was, now in _settings(old, new):
        say(f"differs: {name}: {was or 'absent'}, then {now or 'absent'}")
    return console.export_text().rstrip()


def _named(campaign: Campaign) -> str:
    return campaign.id + (" (VIRTUAL LAB)" if campaign.virtual else "")


def _summary(changes: list[Change]) -> str:
    if not changes:
        return "no cell has an AI in both"
    more = sum(change.significant and change.ratio > 0 for change in changes)
    less = sum(change.significant and change.ratio < 0 for change in changes)
    untested = sum(change.p is None for change in changes)
    parts = [f"{counted(more, 'cell')} more work per joule", f"{less} less"]
    parts.append(f"{len(changes) - more - less - untested} without a significant change")
    if untested:
        parts.append(f"{untested} not testable")
    return ", ".join(parts)


def _table(changes: list[Change]) -> Table:
    from joulerig.analysis.report.text import number, percent, probability

    table = Table()
    table.add_column("cell", overflow="fold")
    for name in ("before, ops/J", "after, ops/J", "change, %", "95 %", "p"):
        table.add_column(name, justify="right")
    for change in changes:
        mark = " *" if change.significant else "  "
        figures = (
            [
                percent(change.ratio),
                f"{percent(change.low)} to {percent(change.high)}",
                probability(change.p) + mark,
            ]
            if change.p is not None
            else ["", change.why, ""]
        )
        table.add_row(change.cell, number(change.before), number(change.after), *figures)
    return table


def _settings(old: Campaign, new: Campaign) -> list[tuple[str, str, str]]:
    """Return what differs in the definitions and in the versions of controller and tools."""
    from joulerig.analysis.report.text import flat

    return [
        (f"{kind} {name}", was, now)
        for kind in ("definition", "provenance")
        for name, was, now in campaigns.settings(flat(getattr(old, kind)), flat(getattr(new, kind)))
    ]
