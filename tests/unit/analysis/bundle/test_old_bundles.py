# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles of journals before version 6: "excluded" was a reason, `setup` was `precondition`."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from joulerig.analysis import export, results
from joulerig.analysis.bundle import verify
from joulerig.analysis.bundle.check import FAILED
from joulerig.analysis.compare.more_joules import quiescent
from joulerig.analysis.drives import endurance
from joulerig.analysis.export.columns import DECLARED, LATER
from joulerig.analysis.power_states import table as power_states
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.tables import comparisons, runs_and_cells
from tests.support import verifiable_campaign

FORMER = {"setup": "precondition"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A results folder with its tables, as a program of version 5 left it."""
    folder = verifiable_campaign.build(
        tmp_path / "c", schedulers=("none", "bfq", "kyber"), outcome=verifiable_campaign.mixed
    )
    # Work per joule was of the joules as measured.
    verifiable_campaign.edit(
        folder,
        "UPDATE result SET ai_ops_per_joule = ai_ops_per_joule * corrected_joules / joules,"
        " ai_mb_per_joule = ai_mb_per_joule * corrected_joules / joules,"
        " mean_watts = mean_watts * joules / corrected_joules, corrected_joules = NULL",
    )
    export.write(results.load(folder), folder / "export")
    runs_and_cells.write(results.load(folder), folder / "report")
    for path in [*(folder / "export").glob("*.*"), *(folder / "report").glob("*.csv")]:
        if path.suffix == ".parquet":
            _with_former_names(pl.read_parquet(path)).write_parquet(path)
        elif path.suffix == ".csv":
            _with_former_names(pl.read_csv(path, infer_schema=False)).write_csv(path)
    for path in folder.glob("runs/*/result.json"):
        content = json.loads(path.read_text())
        for phase in content["phases"]:
            phase["phase"] = FORMER.get(phase["phase"], phase["phase"])
        path.write_text(json.dumps(content))
    with closing(sqlite3.connect(folder / "journal.sqlite")) as database, database:
        excluded = "(SELECT id FROM run WHERE status = 'excluded')"
        database.execute(f"DELETE FROM event WHERE event = 'status' AND run IN {excluded}")
        database.execute(
            "UPDATE run SET status = 'not-run', reason = 'excluded: ' || reason WHERE status = 'excluded'"
        )
        for table in ("phase", "energy"):
            database.execute(f"UPDATE {table} SET phase = 'precondition' WHERE phase = 'setup'")
        database.execute("PRAGMA user_version = 5")
    return folder


def _with_former_names(frame: pl.DataFrame) -> pl.DataFrame:
    changed = []
    if {"status", "reason"} <= set(frame.columns):
        prefixed = pl.concat_str(pl.lit("excluded: "), "reason")
        excluded = pl.col("status") == "excluded"
        changed.append(pl.when(excluded).then(prefixed).otherwise("reason").alias("reason"))
    if "status" in frame.columns:
        changed.append(pl.col("status").replace({"excluded": "not-run"}))
    if "phase" in frame.columns:
        changed.append(pl.col("phase").replace(FORMER))
    return frame.with_columns(changed)


def checks(folder: Path) -> dict[str, verify.Check]:
    return {one.name: one for one in verify.verify(folder, {})}


def test_every_check_of_an_old_results_folder_holds(old):
    assert "precondition" in pl.read_csv(old / "export" / "phases.csv")["phase"]
    assert "not-run" in pl.read_csv(old / "export" / "runs.csv")["status"]
    found = checks(old)
    assert {name: one.offenders for name, one in found.items() if one.state == FAILED} == {}


def without(path: Path, column: str) -> None:
    frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema=False)
    frame = frame.drop(column)
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)


def test_tables_made_before_a_computed_column_came_lack_it(old):
    for table, columns in LATER.items():
        for path in old.glob(f"*/{table}.*"):
            for column in columns:
                without(path, column)
    found = checks(old)
    assert {name: one.offenders for name, one in found.items() if one.state == FAILED} == {}


def test_a_column_that_was_always_there_is_missed(old):
    without(old / "export" / "runs.csv", "mean_watts")
    assert checks(old)["tables"].offenders == ("export/runs.csv: column 'mean_watts' is missing",)


def test_later_columns_are_columns_of_their_tables():
    tables = {"runs": runs_and_cells.RUN_COLUMNS, "cells": runs_and_cells.CELL_COLUMNS}
    tables |= {"pairs": comparisons.PAIR_COLUMNS, "best": comparisons.BEST_COLUMNS}
    tables |= {"endurance": endurance.COLUMNS}
    tables |= {"quiescence": quiescent.COLUMNS, "power_states": power_states.COLUMNS}
    assert {table: set(columns) - set(tables[table]) for table, columns in LATER.items()} == {
        table: set() for table in LATER
    }
    assert not set(LATER["runs"]) & {name for record in DECLARED["runs"] for name in declared_columns(record)}


def test_a_changed_name_in_an_old_table_is_still_found(old):
    path = old / "export" / "phases.csv"
    path.write_text(path.read_text().replace(",precondition,", ",prepare,", 1))
    assert checks(old)["tables"].state == FAILED
