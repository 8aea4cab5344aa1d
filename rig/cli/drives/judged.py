# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the drives of a campaign, of a bundle, or of the newest campaign that has them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

from joulerig import notebook
from joulerig.analysis import results
from joulerig.analysis.results.campaign import Campaign
from joulerig.rig.common.errors import UserError

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CAMPAIGN|DRIVE...]",
        help="A campaign's id or bundle (.zip), or drives: of the newest campaign that asked them.",
    ),
]


class Judged(Protocol):
    """What is said of a drive."""

    @property
    def host(self) -> str: ...

    @property
    def drive(self) -> str: ...

    @property
    def verdict(self) -> str: ...


One = TypeVar("One", bound=Judged)


def show(
    names: list[str] | None,
    judge: Callable[[Campaign], list[One]],
    way_out: str,
    present: Callable[[Campaign, list[One]], Any],
) -> None:
    """Judge what `names` mean, `present` it, and end with 1 where a drive is contradicted."""
    with _of_names(names or [], judge, way_out) as (campaign, found):
        present(campaign, found)
    if any(one.verdict == "contradicted" for one in found):
        raise typer.Exit(1)


def in_json(content: Callable[[Campaign, list[One]], Any]) -> Callable[[Campaign, list[One]], None]:
    """Return what presents drives by printing `content` as JSON."""
    return lambda campaign, found: print(json.dumps(content(campaign, found), indent=1))


def own_rows(rows: list[dict[str, Any]], one: Judged) -> list[dict[str, Any]]:
    """Return the rows of a table that are about a drive, without saying again which it is."""
    return [
        {key: value for key, value in row.items() if key not in ("host", "drive")}
        for row in rows
        if (row["host"], row["drive"]) == (one.host, one.drive)
    ]


@contextlib.contextmanager
def _of_names(
    names: list[str], judge: Callable[[Campaign], list[One]], way_out: str
) -> Iterator[tuple[Campaign, list[One]]]:
    """Give a campaign and what `judge` says of its drives, or of those named (DRIVE or HOST/DRIVE).

    Without names the newest campaign. Raises UserError, which ends with `way_out`, where no
    campaign has the named drives.
    """
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    if len(names) == 1 and names[0].endswith(".zip"):
        opened = notebook.open_results(names[0])  # its folder goes with it
        yield opened.campaign, judge(opened.campaign)
    elif not names or (len(names) == 1 and _is_campaign(paths.results(), names[0])):
        campaign = results.load(journal.find(paths.results(), names[0] if names else None))
        yield campaign, judge(campaign)
    else:
        yield _newest_of(paths.results(), names, judge, way_out)


def _is_campaign(folder: Path, name: str) -> bool:
    return any((place / "journal.sqlite").is_file() for place in (folder / name, Path(name)))


def _newest_of(
    folder: Path, drives: list[str], judge: Callable[[Campaign], list[One]], way_out: str
) -> tuple[Campaign, list[One]]:
    """Return the newest campaign that has something to judge of all of `drives`."""
    campaigns = sorted(folder.glob("*/journal.sqlite"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in campaigns:
        campaign = results.load(path.parent)
        found = [one for one in judge(campaign) if {one.drive, f"{one.host}/{one.drive}"} & set(drives)]
        asked = {one.drive for one in found} | {f"{one.host}/{one.drive}" for one in found}
        if asked.issuperset(drives):
            return campaign, found
    raise UserError(f"{', '.join(drives)}: no campaign, and {way_out}")
