# SPDX-License-Identifier: GPL-3.0-or-later
"""The document that goes with exported tables: each table, column, type, unit and meaning."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from joulerig.analysis.export import columns

_TYPES = {pl.String: "string", pl.Int64: "integer", pl.Float64: "number", pl.Boolean: "boolean"}
_UNDESCRIBED = ("", "")


def describe_tables(frames: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """Return the schema of these tables, in their order."""
    return {
        "version": 1,
        "about": "Blank in CSV and null in Parquet: not known, or not so. A quoted empty string is empty."
        " Floats in CSV read back to the same bits. Text that a spreadsheet would compute (=, +, -, @)"
        " or that begins with an apostrophe has one before it in CSV. MB are 10^6 bytes;"
        " times are UTC nanoseconds.",
        "tables": [
            {
                "table": name,
                "about": columns.ABOUT.get(name, ""),
                "columns": [_column(name, column, kind) for column, kind in frame.schema.items()],
            }
            for name, frame in frames.items()
        ],
    }


def document(frames: Mapping[str, pl.DataFrame]) -> bytes:
    """Return the description of the tables as JSON."""
    return (json.dumps(describe_tables(frames), indent=1, ensure_ascii=False) + "\n").encode()


def _column(table: str, column: str, kind: pl.DataType) -> dict[str, str]:
    try:
        unit, meaning = columns.described(table, column)
    except KeyError:
        unit, meaning = _UNDESCRIBED
    return {"column": column, "type": _TYPES[kind.base_type()], "unit": unit, "meaning": meaning}
