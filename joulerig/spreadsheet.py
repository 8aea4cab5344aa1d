# SPDX-License-Identifier: GPL-3.0-or-later
"""CSV for people: no text in it is a formula to a spreadsheet, and what was written reads back.

A spreadsheet computes a cell that begins with `=`, `+`, `-`, `@` or a control character, though a
stranger may have named the drive that is in it. Such text gets an apostrophe before it, which
spreadsheets take for "text"; so does text that begins with one. Numbers stay as they are.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

MARK = "'"
_COMPUTED = r"^[=+\-@\t\r\n'＝＋－＠]"
_NUMBER = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"


def csv(frame: pl.DataFrame) -> bytes:
    """Return a table as CSV, its text marked where a spreadsheet would compute it."""
    if pl.String not in frame.dtypes:
        return frame.write_csv().encode()
    text = pl.col(pl.String)
    marked = text.str.contains(_COMPUTED) & ~text.str.contains(_NUMBER)
    found = pl.when(marked).then(pl.lit(MARK) + text).otherwise(text).name.keep()
    return frame.with_columns(found).write_csv().encode()


def read(path: Path) -> pl.DataFrame:
    """Return the table of such a file, all as text without marks; without rows where it is empty.

    Raises OSError, polars.exceptions.PolarsError.
    """
    found = pl.read_csv(path, infer_schema=False, raise_if_empty=False)
    return found.with_columns(pl.col(pl.String).str.replace(f"^{MARK}", ""))
