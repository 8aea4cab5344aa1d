# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig analyse`: the joules of runs worked out anew from what they kept, beside the journal's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from joulerig.analysis import results
from joulerig.analysis.runs import cluster, recompute
from joulerig.analysis.tables import runs_and_cells
from joulerig.rig.cli.options import out
from joulerig.rig.common.errors import UserError


def analyse(
    campaigns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CAMPAIGN]...", help="Campaign ids or results folders; the newest by default."
        ),
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="A Dask scheduler, tcp://HOST:PORT; else this machine alone.")
    ] = None,
) -> None:
    """Work out the joules of runs anew from their power points and waveforms, beside the journal's."""
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    folders = [journal.find(paths.results(), campaign) for campaign in campaigns or [None]]
    for path, frame in of_folders(folders, dask):
        for line in [*text(frame), paths.short(path)]:
            out.print(line, markup=False, soft_wrap=True)


def of_folders(folders: Sequence[Path], dask: str | None) -> list[tuple[Path, pl.DataFrame]]:
    """Of each results folder, the table and where it was written: report/anew.csv."""
    # resolved: a worker elsewhere has another working directory
    campaigns = [results.load(folder.resolve()) for folder in folders]
    pieces = sum(len(recompute.work_of(campaign)) for campaign in campaigns)
    try:
        with cluster.mapping(dask, pieces) as mapped:
            frames = [recompute.table(campaign, mapped) for campaign in campaigns]
    except cluster.ClusterError as error:
        raise UserError(str(error)) from None
    return [
        (runs_and_cells.write_table(campaign.folder / "report", "anew", frame), frame)
        for campaign, frame in zip(campaigns, frames, strict=True)
    ]


def text(frame: pl.DataFrame) -> list[str]:
    """What a campaign's table comes to, a line each; what differs is named."""
    measured = frame.filter(pl.col("joules").is_not_null())
    anew_ = measured.filter(pl.col("points_joules").is_not_null())
    same = (anew_["joules"] == anew_["points_joules"]).sum()
    lines = [
        f"{frame['run'].n_unique()} runs, {measured.height} workload phases of rails with joules;"
        f" {anew_.height} have power points, and from them {same} come out the same to the last bit"
    ]
    full = frame.filter(pl.col("waveform_joules").is_not_null())
    if full.height:
        lines.append(
            f"{full.height} have waveforms, of {full['waveform_samples'].sum()} samples"
            f" (expected {full['expected_samples'].sum()})"
        )
    if (less := full["waveform_less_percent"].drop_nulls()).len():
        lines.append(
            f"their sum is less than the counter's joules by {less.min():.4f} to {less.max():.4f} %,"
            f" mean {less.mean():.4f} %"
        )
    lines += [
        f"{row['run']} {row['drive']} {row['rail']}: {row['points_joules']!r} J from the points,"
        f" {row['joules']!r} J in the journal"
        for row in anew_.filter(pl.col("joules") != pl.col("points_joules")).iter_rows(named=True)
    ]
    return lines + frame["problem"].drop_nulls().unique(maintain_order=True).to_list()
