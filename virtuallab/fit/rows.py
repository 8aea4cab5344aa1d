# SPDX-License-Identifier: GPL-3.0-or-later
"""What was measured of a drive: a row for each load, from a table (CSV) or from a campaign."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.common.numbers import PositiveFloat, PositiveInt

Operation = Literal["idle", "read", "write"]
LEAST_ROWS = 3


class _Cells(Strict):
    """A row of a table but for its watts, which have a column a rail."""

    operation: Operation
    request_bytes: PositiveInt | None = None
    queue_depth: PositiveInt | None = None
    amplification: float = Field(default=1.0, ge=1, le=1000)
    bytes_per_second: PositiveFloat | None = None

    @model_validator(mode="after")
    def _a_load_has_size_and_rate(self) -> _Cells:
        for name in ("request_bytes", "bytes_per_second"):
            if (getattr(self, name) is None) != (self.operation == "idle"):
                needed = "none" if self.operation == "idle" else "one"
                raise ValueError(f"{name}: a row of {self.operation} has {needed}")
        return self


@dataclass(frozen=True)
class Row:
    """A load that went on steadily, and what the drive did and drew under it.

    `queue_depth`: requests under way at once; None: not known, and the row says nothing of times.
    `amplification`: bytes that the flash programmed for each byte that the host wrote; 1 also where
    a burst went to the cache. `watts` by rail, idle power included. Of `idle`: 0 bytes.
    """

    operation: Operation
    request_bytes: int
    queue_depth: int | None
    amplification: float
    bytes_per_second: float
    watts: Mapping[str, float]

    @property
    def per_second(self) -> float:
        """Return requests a second."""
        return self.bytes_per_second / self.request_bytes if self.request_bytes else 0.0

    @property
    def total_watts(self) -> float:
        return sum(self.watts.values())


def read_table(path: Path, rails: Iterable[str]) -> list[Row]:
    """Return the rows of a CSV file.

    Its columns: operation (idle, read, write), request_bytes, bytes_per_second, `watts` for a drive
    of one rail or `watts_RAIL` for each of `rails`, and optional queue_depth, amplification. Lines
    that begin with `#` and empty lines are left out. Raises UserError.
    """
    rails = list(rails)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as a table: {error}") from None
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line and line[0] != "#"]
    if not numbered:
        raise UserError(f"{path}: no row in it; the first line is to name columns")
    columns = [name.strip() for name in numbered[0][1].split(",")]
    watts = _watts_columns(path, columns, rails)
    rows = []
    for number, line in numbered[1:]:
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if len(cells) != len(columns):
            raise UserError(
                f"{path}: line {number}: cells: {len(cells)}; columns of the table: {len(columns)}"
            )
        given = {name: cell for name, cell in zip(columns, cells, strict=True) if cell}
        drawn = {rail: _watts(given.pop(column, ""), path, number, column) for rail, column in watts.items()}
        rows.append(row_of(given, drawn, f"{path}: line {number}"))
    return rows


def row_of(cells: Mapping[str, object], watts: Mapping[str, float], source: str) -> Row:
    """Return a row from a table's cells by column, and watts by rail. Raises UserError."""
    one = validate(_Cells, dict(cells), source)
    if sum(watts.values()) <= 0:
        raise UserError(f"{source}: watts: 0; allowed: more than that, of all rails together")
    return Row(
        one.operation,
        one.request_bytes or 0,
        one.queue_depth,
        one.amplification,
        one.bytes_per_second or 0.0,
        dict(watts),
    )


def _watts_columns(path: Path, columns: list[str], rails: list[str]) -> dict[str, str]:
    wanted = {rail: f"watts_{rail}" for rail in rails}
    if len(rails) == 1 and "watts" in columns:
        wanted = {rails[0]: "watts"}
    for column in ["operation", "request_bytes", "bytes_per_second", *wanted.values()]:
        if column not in columns:
            one = " (or watts)" if column.startswith("watts") and len(rails) == 1 else ""
            raise UserError(f"{path}: no column {column}{one}; it has {', '.join(columns)}")
    return wanted


def _watts(cell: str, path: Path, number: int, column: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UserError(f"{path}: line {number}: {column}: {cell!r}; allowed: a number of watts, at least 0")
    return value
