# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters agree`: whether methods that measured the same energy agree."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from joulerig.rig.cli.options import CampaignArgument, JsonOption, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.analysis.agreement.methods import Compared

DIFFERS = 1  # exit code


def agree(
    campaign: CampaignArgument = None,
    readings: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.csv", help="Readings of another instrument on the same runs."),
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write Bland and Altman's pictures (SVG).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare what meters, virtual drives and other instruments read of a campaign's energies.

    Exit code 1: two of them differ by more than their uncertainties explain.
    """
    from joulerig.analysis import results
    from joulerig.analysis.agreement import methods
    from joulerig.analysis.agreement.bland_altman import Verdict
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    loaded = results.load(journal.find(paths.results(), campaign))
    known = methods.of_campaign(loaded)
    for file in readings or []:
        for name, found in methods.read(file, loaded).items():
            if name in known:
                raise UserError(f"{file}: method {name!r}: is there already; allowed: another name")
            known[name] = found
    compared = methods.compare(loaded, known)
    if not compared:
        names = ", ".join(known) or "none"
        raise UserError(f"{loaded.id}: no drive was read by two methods ({names}); --readings adds one")
    if pictures:
        _draw(compared, pictures, virtual=bool(loaded.virtual))
    if as_json:
        print(json.dumps([dataclasses.asdict(one) for one in compared], indent=1))
    else:
        _show(compared)
    if any(one.found.verdict is Verdict.DIFFER for one in compared):
        raise typer.Exit(DIFFERS)


def _show(compared: list[Compared]) -> None:
    table = Table(
        "drive", "methods", "pairs", "bias, %", "95 %", "limits of agreement, %", "|E_n| > 1", "verdict"
    )
    for one in compared:
        found = one.found
        bias = spread = limits = ""
        if found.bias and found.low_limit and found.high_limit:
            bias, spread = f"{100 * found.bias[0]:+.3f}", _range(found.bias[1:])
            limits = _range((found.low_limit[0], found.high_limit[0]))
        beyond = "" if found.beyond is None else f"{100 * found.beyond[0]:.3g} %"
        methods = f"{one.one} - {one.other}"
        table.add_row(one.drive, methods, str(found.pairs), bias, spread, limits, beyond, found.verdict)
    out.print(table)
    for one in compared:
        said = f"{one.drive}: {one.one} and {one.other}: {one.found.verdict}: {one.found.why}"
        out.print(said, soft_wrap=True)


def _range(ends: tuple[float, ...]) -> str:
    return f"{100 * ends[0]:+.3f} to {100 * ends[-1]:+.3f}"


def _draw(compared: list[Compared], folder: Path, *, virtual: bool) -> None:
    from joulerig import atomic
    from joulerig.analysis.agreement import picture

    try:
        atomic.make_folder(folder)
        for number, one in enumerate(compared, start=1):
            name = f"{number:02}-{one.drive}.svg"
            atomic.write(folder / name, picture.draw(one, virtual=virtual).text.encode())
    except OSError as error:
        raise UserError(f"--pictures: {error.filename or folder}: {error.strerror}") from None
