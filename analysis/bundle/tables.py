# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables in files, compared cell by cell with the same tables recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import polars as pl

from joulerig import spreadsheet
from joulerig.analysis.bundle.check import TOLERANCE, ZERO, Check, Tally, judged, shown, uncheckable
from joulerig.analysis.export.columns import DECLARED, LATER
from joulerig.analysis.results import journal
from joulerig.analysis.results.columns import declared_columns
from joulerig.analysis.results.schema import FORMER_PHASES, Status
from joulerig.plural import counted

FOLDERS = ("export", "report")
# By what a row is named, in the first of these of which it has the first.
_NAMING = (
    ("run", "phase", "rail", "source", "time_ns", "round", "meter"),
    ("coefficient", "drive", "cell"),
    ("cell", "source", "anchor"),
    ("first", "second"),
    ("drive", "workload", "source"),
)


def check(folder: Path, again: Mapping[str, pl.DataFrame]) -> Check:
    """Compare all CSV and Parquet tables below `folder` with the tables in `again`, by name.

    Names that version 6 of the journal changed are taken for today's where the folder's is older.
    """
    name, offenders, values, files = "tables", [], 0, 0
    version = journal.VERSION
    if (folder / journal.FILE).is_file():
        with closing(journal.connect(folder / journal.FILE)) as database:
            version = journal.read_version(database)
    for path in _paths(folder):
        where = path.relative_to(folder).as_posix()
        files += 1
        if path.stem not in again:
            offenders.append(f"{where}: no table of this program")
            continue
        count, wrong = compare(path, again[path.stem], version)
        values += count
        offenders += [f"{where}: {one}" for one in wrong]
    if not files:
        return uncheckable(name, "there are none in export/ or report/")
    return judged(name, f"{counted(values, 'value')} in {counted(files, 'file')}", offenders)


def present(folder: Path) -> set[str]:
    """Return the names of the tables that `folder` has files of."""
    return {path.stem for path in _paths(folder)}


def _paths(folder: Path) -> list[Path]:
    return sorted(
        path
        for place in FOLDERS
        for path in (folder / place).glob("*.*")
        if path.suffix in (".csv", ".parquet")
    )


def compare(path: Path, again: pl.DataFrame, version: int = journal.VERSION) -> tuple[int, list[str]]:
    """Compare a file with `again`; return the number of values, and a line for each difference.

    `version`: of the journal that the file was made from.
    """
    try:
        # A file of nothing is a table without rows, as of cuts that all failed.
        found = spreadsheet.read(path) if path.suffix == ".csv" else pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        return 0, [f"cannot be read: {' '.join(str(error).split())[:160]}"]
    offenders = [
        f"column {column!r} is missing"
        for column in again.columns
        if column not in found.columns
        and column not in LATER.get(path.stem, ())
        and not _is_newer(path.stem, again[column])
    ]
    offenders += [
        f"column {column!r} is no column of it" for column in found.columns if column not in again.columns
    ]
    if found.height != again.height:
        return 0, [*offenders, f"{counted(found.height, 'row')} stored, {again.height} recomputed"]
    if "statement" in found.columns:
        found = _with_singulars(found)
    if version < 6:
        found = _with_names_of_version_6(found, again)
    common = [column for column in again.columns if column in found.columns]
    alike = pl.select(_alike(found[column], again[column]) for column in common)
    for column in alike.iter_columns():
        if column.all():
            continue
        for index in (~column).arg_true():
            stored, right = shown(found[column.name][index]), shown(again[column.name][index])
            offenders.append(f"{_row(again, index)}: {column.name}: {stored} is stored, {right} comes out")
    return found.height * len(common), offenders


def _is_newer(table: str, values: pl.Series) -> bool:
    """Return whether a column came into the journal later, and these rows are of before."""
    declared = [declared_columns(record).get(values.name) for record in DECLARED.get(table, ())]
    one = next((column for column in declared if column is not None), None)
    if one is None or one.since == 1:
        return False
    return bool(values.eq_missing(pl.Series([one.default], dtype=values.dtype)).all())


def _with_names_of_version_6(found: pl.DataFrame, again: pl.DataFrame) -> pl.DataFrame:
    """Return an older journal's table with today's phase names, and "excluded" as a status."""
    changed = []
    if "phase" in found.columns:
        changed.append(pl.col("phase").replace(FORMER_PHASES))
    if "status" in found.columns and "status" in again.columns:
        excluded = (found["status"] == Status.NOT_RUN) & (again["status"] == Status.EXCLUDED)
        changed.append(
            pl.when(excluded).then(pl.lit(Status.EXCLUDED.value)).otherwise("status").alias("status")
        )
    if "reason" in found.columns:
        changed.append(pl.col("reason").str.strip_prefix(journal.EXCLUDED))
    return found.with_columns(changed)


def _with_singulars(found: pl.DataFrame) -> pl.DataFrame:
    """Return subjects with statements as today's: before, one of them read "1 power cuts"."""
    plural = r"\b1 (power cut|acknowledged flush|promised write)e?s\b"
    return found.with_columns(pl.col("statement").str.replace_all(plural, "1 $1"))


def compare_frames(stored: pl.DataFrame, again: pl.DataFrame, columns: Sequence[str], tally: Tally) -> None:
    """Compare columns of two frames of the same rows."""
    for index, (before, after) in enumerate(
        zip(stored.select(columns).iter_rows(), again.select(columns).iter_rows(), strict=True)
    ):
        for column, one, other in zip(columns, before, after, strict=True):
            tally.same(f"{_row(again, index)}: {column}", one, other)


def _alike(found: pl.Series, again: pl.Series) -> pl.Expr:
    """Return whether each value is alike, as a column of that name; a CSV file has texts."""
    one, other = pl.lit(found), pl.lit(again)
    if again.dtype == pl.Float64 and found.dtype in (pl.String, pl.Float64):
        number = one.cast(pl.Float64, strict=False)
        size = pl.max_horizontal(number.abs(), other.abs())
        close = number.eq_missing(other) | (
            (number - other).abs() <= pl.max_horizontal(TOLERANCE * size, ZERO)
        ).fill_null(False)
        no_number = one.is_not_null() & number.is_null()
        alike = close & ~no_number
    elif found.dtype == pl.String:
        alike = one.eq_missing(other.cast(pl.String))
    elif found.dtype == again.dtype:
        alike = one.eq_missing(other)
    else:
        alike = pl.lit(pl.repeat(False, len(again), eager=True))
    return alike.alias(again.name)


def _row(frame: pl.DataFrame, index: int) -> str:
    """Return the name of a row: its run, cell or pair, and what there are several of."""
    row = frame.row(index, named=True)
    names = next((names for names in _NAMING if names[0] in row), ())
    return " ".join(str(row[name]) for name in names if row.get(name) not in (None, "")) or f"row {index + 1}"
