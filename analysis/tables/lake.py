# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of many campaigns as a lake of Parquet files, and SQL over all of them by DuckDB.

`TABLE/campaign=ID/part.parquet`, of power series `series/campaign=ID/run=RUN/part.parquet`: what the names of
the folders say is in no file, and every reader of Hive partitions finds it. All of it comes from results
folders and can be made from them again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from joulerig.analysis.export import frames
from joulerig.analysis.results import power_points
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.results.columns import frame_schema
from joulerig.analysis.results.schema import Phase, RailEnergy
from joulerig.analysis.runs import over_time
from joulerig.analysis.tables import runs_and_cells
from joulerig.errors import JoulerigError

PART = "part.parquet"
_CAMPAIGN = {
    "name": pl.String,
    "question": pl.String,
    "created_utc_ns": pl.Int64,
    "finished_utc_ns": pl.Int64,
    "virtual_lab": pl.Boolean,
    "git_revision": pl.String,
}

# By table: its columns but for those that its folders name.
TABLES: dict[str, dict[str, Any]] = {
    "campaigns": _CAMPAIGN,
    "runs": {name: kind for name, kind in runs_and_cells.RUN_COLUMNS.items() if name != "campaign"},
    "cells": {name: kind for name, kind in runs_and_cells.CELL_COLUMNS.items() if name != "campaign"},
    "phases": {"run": pl.String, **frame_schema(Phase)},
    "energy": {"run": pl.String, **frame_schema(RailEnergy)},
    "series": power_points.COLUMNS,
}
_PARTITIONS = {"series": ("campaign", "run")}
_SQL_TYPES = {pl.String: "VARCHAR", pl.Int64: "BIGINT", pl.Float64: "DOUBLE", pl.Boolean: "BOOLEAN"}


class LakeError(JoulerigError):
    """A lake that cannot be written or asked; the message is one line."""


@dataclass(frozen=True)
class Answer:
    """Of a query: names of its columns, and its rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def add(campaign: Campaign, lake: Path) -> dict[str, int]:
    """Put a campaign into the lake in `lake` (made), in place of what it has of it. Returns rows by table.

    The same campaign gives the same files. All files are written before the first one takes its place, and
    each takes it in one step: where this fails, the lake has what it had.

    Raises
    ------
    joulerig.analysis.results.campaign.ResultsError, joulerig.analysis.results.power_points.PowerFileError
        A file of the campaign is damaged.
    LakeError
        The lake cannot be written.
    """
    try:
        lake.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=lake, prefix=".adding-") as made:
            rows = _write(campaign, Path(made))
            _replace(Path(made), lake, campaign.id)
    except OSError as error:
        raise LakeError(f"{lake}: cannot be written: {error.strerror or error}") from None
    return rows


def query(lake: Path, sql: str) -> Answer:
    """What `sql` gives, with each of `TABLES` as a view of the whole lake; `campaign` is a column of each.

    Raises LakeError: no lake there, or DuckDB does not take the query.
    """
    if not lake.is_dir():
        raise LakeError(f"{lake}: no lake there; 'rig lake add' makes one")
    with contextlib.closing(duckdb.connect(config={"autoinstall_known_extensions": "false"})) as database:
        try:
            for table in TABLES:
                database.execute(f"CREATE VIEW {table} AS {_view(lake, table)}")
            done = database.execute(sql)
            columns = tuple(column[0] for column in done.description or ())
            return Answer(columns, done.fetchall() if columns else [])
        except duckdb.Error as error:
            raise LakeError(f"DuckDB: {' '.join(str(error).split())[:300]}") from None


def _write(campaign: Campaign, folder: Path) -> dict[str, int]:
    rows = dict.fromkeys(TABLES, 0)
    for table, place, frame in _frames(campaign):
        path = folder / table / f"campaign={campaign.id}" / place / PART
        path.parent.mkdir(parents=True)
        frame.select(list(TABLES[table])).write_parquet(path, compression="zstd", statistics=True)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        rows[table] += frame.height
    return rows


def _frames(campaign: Campaign) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """(table, folder within the campaign's, frame), one after the other: series of many runs are large."""
    head = {
        "name": campaign.name,
        "question": campaign.question,
        "created_utc_ns": campaign.created_ns,
        "finished_utc_ns": campaign.finished_ns,
        "virtual_lab": campaign.virtual,
        "git_revision": campaign.revision,
    }
    yield "campaigns", "", pl.DataFrame([head], schema=_CAMPAIGN)
    over, _ = over_time.of_campaign(campaign)
    yield "runs", "", runs_and_cells.runs(campaign, over)
    yield "cells", "", runs_and_cells.cells(campaign, over=over)
    yield "phases", "", frames.phases(campaign)
    yield "energy", "", frames.energy(campaign)
    for run in campaign.runs:
        if (points := power_points.read(run.folder / "power.csv")) is not None:
            yield "series", f"run={run.id}", points


def _replace(made: Path, lake: Path, campaign: str) -> None:
    new = {path.relative_to(made) for path in made.rglob(PART)}
    for part in sorted(new):
        (lake / part).parent.mkdir(parents=True, exist_ok=True)
        os.replace(made / part, lake / part)
    for table in TABLES:  # runs that the campaign no longer has, or that no longer have a series
        for old in list((lake / table / f"campaign={campaign}").rglob(PART)):
            if old.relative_to(lake) not in new:
                shutil.rmtree(old.parent)


def _view(lake: Path, table: str) -> str:
    """SQL of all the lake has of a table; without rows, but with its columns, where that is nothing."""
    partitions = _PARTITIONS.get(table, ("campaign",))
    columns = {**dict.fromkeys(partitions, pl.String), **TABLES[table]}
    if next((lake / table).rglob(PART), None) is None:
        empty = ", ".join(f'NULL::{_SQL_TYPES[kind]} AS "{name}"' for name, kind in columns.items())
        return f"SELECT {empty} WHERE false"
    places = lake / table / "/".join("*" for _ in partitions) / PART
    types = ", ".join(f"'{name}': VARCHAR" for name in partitions)
    return (
        f"SELECT {', '.join(partitions)}, * EXCLUDE ({', '.join(partitions)})"
        f" FROM read_parquet('{_quoted(places)}', hive_types = {{{types}}}, union_by_name = true)"
    )


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
