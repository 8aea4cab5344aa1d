# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of campaigns for a person's terminal and, as JSON, for a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from joulerig.analysis.compare.campaigns import COMMON
from joulerig.analysis.gate import levels, series
from joulerig.analysis.gate.figures import Figure
from joulerig.analysis.gate.series import CellSeries, Change, Drift
from joulerig.analysis.results.campaign import Campaign
from joulerig.plural import counted
from joulerig.rig.cli import terminal


def as_json(campaigns: Sequence[Campaign], figure: Figure, followed: Sequence[CellSeries]) -> dict[str, Any]:
    """Return each cell's value in each campaign, and its changes."""
    return {
        "campaigns": [{"id": one.id, "virtual_lab": one.virtual} for one in campaigns],
        "figure": figure.name,
        "unit": figure.unit,
        "false_alarms": levels.ALPHA,
        "summary": series.summary(followed),
        "cells": [dataclasses.asdict(one) for one in followed],
    }


def text(
    campaigns: Sequence[Campaign], figure: Figure, followed: Sequence[CellSeries], width: int = 110
) -> str:
    """Return the changes as a table, after a line of summary."""
    from joulerig.text import number, percent, probability

    console = terminal.page(width)

    def say(line: str) -> None:
        console.print(line, soft_wrap=True)

    virtual = " (VIRTUAL LAB)" if any(one.virtual for one in campaigns) else ""
    say(
        f"{counted(len(campaigns), 'campaign')}{virtual}, {campaigns[0].id} to {campaigns[-1].id},"
        f" {figure.title}: {series.summary(followed)}"
    )
    table = Table()
    for name in ("cell", "since"):
        table.add_column(name, overflow="fold")
    for name in (f"first, {figure.unit}", f"last, {figure.unit}", "change, %", "95 %", "p"):
        table.add_column(name, justify="right")
    for one in followed:
        ends = [number(one.values[place].value) for place in (0, -1)]
        lines: list[tuple[str, Change | Drift]] = [(change.since, change) for change in one.changes]
        if one.drift:
            lines.append(("drifts", one.drift))
        for since, found in lines:
            bounds = f"{percent(found.low)} to {percent(found.high)}"
            table.add_row(one.cell, since, *ends, percent(found.ratio), bounds, probability(found.p))
    if table.row_count:
        console.print(table)
    for one in followed:
        if one.wanders:
            say(f"wanders: {one.cell}: changes more than by chance, neither in steps nor steadily")
        if one.why:
            say(f"not tested: {one.cell}: {one.why}")
    if any(one.cell == COMMON for one in followed):
        say(f"changes of cells are relative to what {COMMON} do, by a drive, a day or a meter")
    if not all(one.remembers for one in followed):
        say(
            f"nights are taken to be independent: from {levels.FEWEST_TO_REMEMBER} campaigns on it is allowed"
            " for that one depends on the last"
        )
    say("where nothing changes, at most one series in twenty shows a change")
    return console.export_text().rstrip()
