# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a campaign in a notebook or script (`joulerig.open`) without changing its files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path

import polars as pl

from joulerig.analysis import results
from joulerig.analysis.bundle import archive
from joulerig.analysis.compare import cells as comparison
from joulerig.analysis.compare.cells import Comparison
from joulerig.analysis.export import frames
from joulerig.analysis.results import Campaign, ResultsError
from joulerig.analysis.runs import idle, over_time
from joulerig.analysis.runs.idle import Idle
from joulerig.analysis.tables import comparisons, runs_and_cells
from joulerig.plural import counted

# What `ranking` takes over from the cells.
_FROM_CELLS = (
    "filesystem",
    "scheduler",
    "ai_ops_per_joule",
    "ai_ops_per_joule_interval_low",
    "ai_ops_per_joule_interval_high",
    "ops_per_second",
    "mean_watts",
    "pareto",
    "runs_counted",
    "virtual_lab",
)


class Results:
    """Hold a campaign's results as polars frames, with the numbers of the report and the export.

    A column's name ends in its unit (`ai_ops_per_joule`, `workload_seconds`, `mean_watts`,
    `time_ns`) or is the unit (`joules`, `watts`); counts have none. What is not known is null. The
    page "Exported tables" of the documentation has the meaning of every column. Frames are computed
    when first asked for.

    Attributes
    ----------
    campaign : joulerig.analysis.results.Campaign
        The record that the frames are made of, with the runs' own files in `folder`.
    folder : Path
        The results folder; of a bundle, the temporary folder it is unpacked into, removed with this
        object.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.folder = campaign.folder

    def __repr__(self) -> str:
        lab = "on a virtual lab" if self.virtual else "on a bench"
        runs, cells = counted(len(self.campaign.runs), "run"), counted(len(self.campaign.cells()), "cell")
        return f"<{self.id}: {self.question} {runs} of {cells} {lab}>"

    @property
    def id(self) -> str:
        """Return the campaign's id."""
        return self.campaign.id

    @property
    def question(self) -> str:
        """Return the question that the campaign asks."""
        return self.campaign.question

    @property
    def virtual(self) -> bool:
        """Return whether a virtual lab measured it: its joules are those of simulated drives."""
        return bool(self.campaign.virtual)

    @property
    def unreadable(self) -> list[str]:
        """List the files of power and progress that cannot be read, one line each.

        Their runs have no `peak_watts`.
        """
        return self._over_time[1]

    @cached_property
    def runs(self) -> pl.DataFrame:
        """Return one row a run, in order of execution: joules, AI, performance, losses.

        Columns: joulerig.analysis.tables.runs_and_cells.RUN_COLUMNS.
        """
        return runs_and_cells.runs(self.campaign, self._over_time[0], self._idles)

    def cells(self) -> pl.DataFrame:
        """Return one row a cell: work per joule with its intervals, performance and power.

        `ai_ops_per_joule` is all operations over all joules of the runs that count; from
        `ai_ops_per_joule_interval_low` to `_high` lies its 95 % interval, null with too few runs.
        Columns: joulerig.analysis.tables.runs_and_cells.CELL_COLUMNS.
        """
        return self._cells

    def ranking(self) -> pl.DataFrame:
        """Return one row a cell with a figure, best first in each drive, workload and factor.

        `place` counts from 1. `letters`: cells of a comparison that share one are not separated by
        the runs (family-wise at 5 %). `winner`: named the best of what these runs show, at
        5 % for the campaign.
        `quantity` is what ranks them: ops/J, or ops/s where no drive has a rail. The figures are
        those of `cells`.
        """
        rows = [
            {
                **one.columns,
                "place": place,
                "cell": cell,
                "letters": one.ranking.letters[cell] if one.ranking.method else None,
                "winner": one.ranking.winner == cell,
            }
            for one in self._compared
            for place, cell in enumerate(one.ranking.order, start=1)
        ]
        schema = {
            **dict.fromkeys(("drive", "workload", "further", "quantity"), pl.String),
            "place": pl.Int64,
            "cell": pl.String,
            "letters": pl.String,
            "winner": pl.Boolean,
        }
        order = pl.DataFrame(rows, schema=schema)
        return order.join(
            self._cells.select("cell", *_FROM_CELLS), on="cell", how="left", maintain_order="left"
        )

    def pairs(self) -> pl.DataFrame:
        """Return one row a pair of compared cells: the second's difference in % of the first.

        With its interval, and p adjusted for all pairs of the campaign. Columns:
        joulerig.analysis.tables.comparisons.PAIR_COLUMNS.
        """
        return comparisons.pairs(self.campaign, self._compared)

    def phases(self) -> pl.DataFrame:
        """Return one row a phase of a run: its ends in ns (UTC) and its seconds."""
        return frames.phases(self.campaign)

    def energy(self) -> pl.DataFrame:
        """Return one row a phase and rail of a run: joules, their interval, lost samples."""
        return frames.energy(self.campaign)

    def power(self, run: str | int) -> pl.DataFrame:
        """Return the power points of one run, by rail: time in ns (UTC), W, V, A; or no rows.

        Parameters
        ----------
        run : str or int
            The run's id, or its ordinal.

        Returns
        -------
        DataFrame
            Columns: joulerig.analysis.export.frames.POWER_COLUMNS. Sorted as the file is; it begins
            before the first phase and ends after the last one (`phases` has their ends).

        Raises
        ------
        ResultsError
            The campaign has no such run.
        PowerFileError
            The run's power.csv cannot be read.
        """
        found = [one for one in self.campaign.runs if run in (one.id, one.ordinal)]
        if not found:
            raise ResultsError(
                f"{self.id}: no run {run!r}; a run is named by its id, or its ordinal from 1 to"
                f" {len(self.campaign.runs)}"
            )
        return frames.power_points(replace(self.campaign, runs=(found[0],)))

    @cached_property
    def _over_time(self) -> tuple[dict[str, over_time.PowerOverTime], list[str]]:
        return over_time.power_by_run(self.campaign)

    @cached_property
    def _idles(self) -> Mapping[str, Idle]:
        return idle.by_run(self.campaign)

    @cached_property
    def _compared(self) -> Sequence[Comparison]:
        return comparison.compare_cells(self.campaign)

    @cached_property
    def _cells(self) -> pl.DataFrame:
        return runs_and_cells.cells(self.campaign, self._compared, self._over_time[0], self._idles)


def open_results(path: str | PathLike[str]) -> Results:
    """Open a results folder or a bundle. See `joulerig.open`."""
    place = Path(path).expanduser()
    if place.is_dir():
        return Results(results.load(place))
    if not place.is_file():
        raise ResultsError(f"{place}: no such folder or file; results/<campaign-id> or a bundle.zip is meant")
    folder = Path(tempfile.mkdtemp(prefix="joulerig-open-"))
    try:
        _, damaged = archive.extract(place, folder)
        if damaged:
            count = counted(len(damaged), "damaged file")
            raise archive.BundleError(f"{place}: {count} in it, first {damaged[0]}")
        opened = Results(results.load(folder))
    except ResultsError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ResultsError(str(error).replace(str(folder), str(place))) from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(opened, shutil.rmtree, folder, ignore_errors=True)
    return opened
