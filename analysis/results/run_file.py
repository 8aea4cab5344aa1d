# SPDX-License-Identifier: GPL-3.0-or-later
"""Small tables of a run, kept as CSV files in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from joulerig import atomic
from joulerig.errors import JoulerigError


class RunFileError(JoulerigError):
    """A file of a run that cannot be read as what it is; the message is one line that names it."""


def write(frame: pl.DataFrame, path: Path, columns: Mapping[str, type[pl.DataType]]) -> Path:
    """Keep `columns` of `frame` (atomic). Floats are written so that they read back the same."""
    return atomic.write(path, frame.select(*columns).write_csv().encode())


def read(path: Path, columns: Mapping[str, type[pl.DataType]]) -> pl.DataFrame | None:
    """Read what `write` kept; None where there is no such file or it has no rows.

    Raises RunFileError.
    """
    if not path.is_file():
        return None
    try:
        frame = pl.read_csv(path, schema_overrides=columns)
        return frame.select(*columns) if frame.height else None
    except pl.exceptions.PolarsError as error:
        raise RunFileError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}") from None
