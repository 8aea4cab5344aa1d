# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig compare`, `rig merge`: what changed between campaigns; one campaign of several."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from joulerig import atomic, notebook
from joulerig.analysis import results
from joulerig.analysis.compare import campaigns
from joulerig.analysis.compare.campaigns import Change, Comparison, Movement
from joulerig.analysis.gate import history as past
from joulerig.analysis.gate import junit as as_junit
from joulerig.analysis.gate import series as followed
from joulerig.analysis.gate import verdicts
from joulerig.analysis.gate.figures import DEFAULT, FIGURES
from joulerig.analysis.gate.verdicts import Outcome, Verdict
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.statistics.movements import Deviation
from joulerig.plural import counted
from joulerig.rig.cli import terminal
from joulerig.rig.cli.compare import series as series_view
from joulerig.rig.cli.options import JsonOption, finite, out
from joulerig.rig.common.errors import UserError


def compare(
    before: Annotated[str, typer.Argument(help="Campaign id, or bundle (.zip).")],
    after: Annotated[str, typer.Argument(help="Campaign id, or bundle (.zip).")],
    later: Annotated[
        list[str] | None, typer.Argument(metavar="[LATER]...", help="Further ones of a series.")
    ] = None,
    series: Annotated[
        bool, typer.Option("--series", help="Show since which campaign a cell's level is another one.")
    ] = False,
    figure: Annotated[
        str | None, typer.Option(metavar="FIGURE", help=f"Of a series: {', '.join(FIGURES)}.")
    ] = None,
    print_json: JsonOption = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="End with 1 where AI fell further than allowed, or is missing.")
    ] = False,
    allowed: Annotated[
        float | None,
        typer.Option(
            "--allow",
            metavar="PERCENT",
            min=0,
            max=100,
            callback=finite,
            help="Fall of a cell's AI that passes the gate: 5.",
        ),
    ] = None,
    decided: Annotated[
        bool, typer.Option("--decided", help="A cell whose runs decide nothing does not pass the gate.")
    ] = False,
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CAMPAIGN", help="An earlier one, to show how much campaigns differ; repeat it."
        ),
    ] = None,
    between: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=100,
            callback=finite,
            help="Standard deviation by which campaigns are known to differ, in place of a history.",
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE.xml", help="Write the gate's verdicts as JUnit XML.")
    ] = None,
) -> None:
    """Show what changed from one campaign to another, and whether it is more than chance."""
    if series:
        if gate or allowed is not None or decided or junit or history or between is not None:
            raise UserError("--series: has no gate; allowed with it: --figure, --json")
        _follow([before, after, *(later or [])], figure or DEFAULT, print_json)
        return
    if later or figure:
        given = f"{later[0]}: a third campaign" if later else "--figure"
        raise UserError(f"{given}: is of a series; add --series")
    if not gate and (allowed is not None or decided or junit):
        given = "--allow" if allowed is not None else "--decided" if decided else "--junit"
        raise UserError(f"{given}: is of a gate; add --gate")
    if allowed is not None and not 0 <= allowed < 100:
        raise UserError(f"--allow: {allowed:g}: allowed: 0 to below 100, in %")
    with contextlib.ExitStack() as kept:
        old, new = (_opened(name, kept) for name in (before, after))
        known = _deviation(old, history or [], between, kept)
        if gate and (refused := verdicts.refusal(old, new)):
            raise UserError(refused)
        share = verdicts.ALLOWED_FALL if allowed is None else allowed / 100
        judged = verdicts.judge(old, new, share, known) if gate else []
        passed = not gate or verdicts.passes(judged, decided=decided)
        if junit:
            _write(junit, as_junit.document(old, new, judged, decided=decided))
        if print_json:
            judgement = {"gate": _gate_as_json(judged, passed, share, decided)} if gate else {}
            print(json.dumps({**as_json(old, new, known), **judgement}, indent=1))
        else:
            out.print(text(old, new, out.width, known), soft_wrap=True)
            if gate:
                _show_gate(judged, passed, decided)
    if not passed:
        raise typer.Exit(1)


def _deviation(
    before: Campaign, history: list[str], between: float | None, kept: contextlib.ExitStack
) -> Deviation | None:
    """Return how much campaigns differ: stated, or by earlier ones and the baseline."""
    if between is not None:
        if history:
            raise UserError("--between: is in place of --history; give one of them")
        return Deviation(math.log1p(between / 100))
    if not history:
        return None
    earlier = [_opened(name, kept) for name in history]
    campaigns = {one.id: one for one in (*earlier, before)}
    try:
        return past.deviation(list(campaigns.values()))
    except ValueError as error:
        raise UserError(f"--history: with the baseline {error}") from None


def _follow(names: list[str], figure: str, print_json: bool) -> None:
    """Show the changes of level over campaigns in the given order. Raises UserError."""
    if figure not in FIGURES:
        raise UserError(f"--figure: {figure}: allowed: {', '.join(FIGURES)}")
    with contextlib.ExitStack() as kept:
        campaigns = [_opened(name, kept) for name in names]
        ids = [one.id for one in campaigns]
        for name in ids:
            if ids.count(name) > 1:
                raise UserError(f"{name}: is given twice; a series has each campaign once")
        found = followed.follow(campaigns, FIGURES[figure])
        if print_json:
            print(json.dumps(series_view.as_json(campaigns, FIGURES[figure], found), indent=1))
        else:
            out.print(series_view.text(campaigns, FIGURES[figure], found, out.width), soft_wrap=True)


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
    out.print(f"{paths.short(merged.folder)}: {merging.describe(merged)}", soft_wrap=True)


def _opened(name: str, kept: contextlib.ExitStack) -> Campaign:
    """Return a campaign by its id, folder or bundle; its files stay until `kept` is closed."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    if not name.endswith(".zip"):
        return results.load(journal.find(paths.results(), name))
    opened = notebook.open_results(name)
    kept.callback(lambda: opened)  # its folder goes with it
    return opened.campaign


def _write(path: Path, content: bytes) -> None:
    try:
        atomic.write(path, content)
    except OSError as error:
        raise UserError(f"--junit: {path}: {error.strerror}") from None


def _show_gate(judged: list[Verdict], passed: bool, decided: bool) -> None:
    for one in judged:
        if one.outcome is not Outcome.HELD:
            mark = "FAILED" if verdicts.fails(one, decided=decided) else "open"
            out.print(f"{mark:7} {one.cell}: {one.outcome}: {one.why}", soft_wrap=True)
    out.print(f"gate: {'passed' if passed else 'FAILED'}: {verdicts.summary(judged)}")


def _gate_as_json(judged: list[Verdict], passed: bool, allowed: float, decided: bool) -> dict[str, Any]:
    return {
        "passed": passed,
        "allowed_fall": allowed,
        "decided": decided,
        "summary": verdicts.summary(judged),
        "cells": [{"cell": one.cell, "outcome": one.outcome, "why": one.why} for one in judged],
    }


def as_json(old: Campaign, new: Campaign, known: Deviation | None = None) -> dict[str, Any]:
    """Return each cell's AI before and after, with interval and p, and what all cells did together.

    Unpaired cells. Settings that differ.
    """
    compared = campaigns.compare(old, new, known)
    return {
        "before": old.id,
        "after": new.id,
        "virtual_lab": [old.virtual, new.virtual],
        "common": compared.common and vars(compared.common),
        "cells": [vars(change) | {"significant": change.significant} for change in compared.changes],
        "only_before": campaigns.only_in(old, new),
        "only_after": campaigns.only_in(new, old),
        "settings": [dict(zip(("name", "before", "after"), row, strict=True)) for row in _settings(old, new)],
    }


def text(old: Campaign, new: Campaign, width: int = 110, known: Deviation | None = None) -> str:
    """Return the same as a table, after a line of summary."""
    compared = campaigns.compare(old, new, known)
    console = terminal.page(width)

    def say(line: str) -> None:
        console.print(line, soft_wrap=True)

    say(f"{_named(old)} to {_named(new)}: {_summary(compared.changes)}")
    if compared.common is not None:
        say(_together(compared.common))
    if compared.changes:
        console.print(_table(compared))
        if compared.common is not None:
            say("change apart: relative to what all cells did together")
        say("95 % intervals and p hold for all cells together; *: significant")
        say("they are of the spread between runs, of what cells do apart from one campaign to another,")
        say("and of what the two campaigns' meters do not share")
    for one, other in ((old, new), (new, old)):
        if cells := campaigns.only_in(one, other):
            say(f"with an AI only in {one.id}: {', '.join(cells)}")
    for name, was, now in _settings(old, new):
        say(f"differs: {name}: {was or 'absent'}, then {now or 'absent'}")
    return console.export_text().rstrip()


def _together(common: Movement) -> str:
    from joulerig.text import percent, probability

    found = (
        f"all cells together: {percent(common.ratio)} % ({percent(common.low)} to {percent(common.high)} %),"
        " by a drive, a day or a meter"
    )
    if common.p is None:
        return f"{found}; by the runs alone: how much campaigns differ is not known (--history, --between)"
    return f"{found}; p {probability(common.p)}"


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


def _table(compared: Comparison) -> Table:
    from joulerig.text import number, percent, probability

    table = Table()
    table.add_column("cell", overflow="fold")
    apart = "change apart, %" if compared.common is not None else "change, %"
    for name in ("before, ops/J", "after, ops/J", apart, "95 %", "p"):
        table.add_column(name, justify="right")
    for change in compared.changes:
        if change.ratio is None:
            figures = ["", change.why, ""]
        else:
            mark = " *" if change.significant else "  "
            figures = [
                percent(change.ratio),
                f"{percent(change.low)} to {percent(change.high)}",
                "" if change.p is None else probability(change.p) + mark,
            ]
        table.add_row(change.cell, number(change.before), number(change.after), *figures)
    return table


def _settings(old: Campaign, new: Campaign) -> list[tuple[str, str, str]]:
    """Return what differs in the definitions and in the versions of controller and tools."""
    from joulerig.text import flat

    return [
        (f"{kind} {name}", was, now)
        for kind in ("definition", "provenance")
        for name, was, now in campaigns.settings(flat(getattr(old, kind)), flat(getattr(new, kind)))
    ]
