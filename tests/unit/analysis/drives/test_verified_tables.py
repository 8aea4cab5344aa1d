# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig verify` recomputes the tables of drives: a figure that was changed is found."""

import polars as pl
import pytest

from joulerig.analysis import export, results
from joulerig.analysis.bundle import tables
from joulerig.analysis.bundle.check import FAILED
from joulerig.analysis.export import frames
from tests.support import modelled_campaign


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = modelled_campaign.build(tmp_path_factory.mktemp("c") / "c", traces=True, replicates=2)
    again = frames.small(results.load(folder))
    export.put(again, folder / "export", ["csv"])
    return folder, again


def test_tables_as_written_are_those_recomputed(exported):
    folder, again = exported
    assert tables.check(folder, again).state != FAILED


@pytest.mark.parametrize(
    ("table", "column"),
    [("coefficients", "value"), ("windows", "watts"), ("endurance", "joules_per_op")],
)
def test_a_changed_figure_is_found(exported, table, column):
    folder, again = exported
    path = folder / "export" / f"{table}.csv"
    kept = path.read_bytes()
    frame = pl.read_csv(path, schema_overrides=dict(again[table].schema))
    place = int(frame[column].is_not_null().arg_max() or 0)
    changed = frame[column].to_list()
    changed[place] *= 1.001
    frame.with_columns(pl.Series(column, changed)).write_csv(path)
    found = tables.check(folder, again)
    path.write_bytes(kept)
    assert found.state == FAILED
    assert any(column in one for one in found.offenders)
