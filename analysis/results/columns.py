# SPDX-License-Identifier: GPL-3.0-or-later
"""Table columns declared in the data class of their rows: type, unit, meaning, journal version."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import polars as pl

_SQL = {"str": "TEXT", "int": "INTEGER", "float": "REAL", "bool": "INTEGER", "dict[str, Any]": "TEXT"}
_FRAME = {
    "str": "String",
    "int": "Int64",
    "float": "Float64",
    "bool": "Boolean",
    "dict[str, Any]": "String",
}
_COMPUTED = ("str", "int", "float", "bool")


@dataclass(frozen=True)
class Column:
    """A column as its field declares it.

    `kind`: the field's type without None, as it is written. `unit`: empty where there is none.
    `since`: the first version of the journal that has it. `values`: the only ones allowed.
    `constraint`: SQL. `source`: how the value follows from a run's `RunFacts`
    (joulerig.analysis.results.facts); None where the code that makes the row gives it.
    """

    name: str
    kind: str
    nullable: bool
    unit: str
    meaning: str
    since: int = 1
    default: Any = None
    values: type[StrEnum] | None = None
    constraint: str = ""
    source: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.source is not None and not (self.nullable and self.kind in _COMPUTED):
            raise ValueError(
                f"column {self.name}: declares a source, so its type is one of"
                f" {', '.join(f'{kind} | None' for kind in _COMPUTED)}"
            )

    @property
    def sql_type(self) -> str:
        return _SQL[self.kind]

    @property
    def frame_type(self) -> type[pl.DataType]:
        import polars as pl  # takes as long to import as a small journal to read

        found: type[pl.DataType] = getattr(pl, _FRAME[self.kind])
        return found

    @property
    def sql(self) -> str:
        """Return the column's definition in CREATE TABLE."""
        parts = [self.name, self.sql_type, self.constraint]
        if not self.nullable and "PRIMARY KEY" not in self.constraint:
            parts.append("NOT NULL")
        if self.default is not None:
            parts.append(f"DEFAULT '{self.default}'")
        if self.values:
            allowed = ", ".join(f"'{value}'" for value in self.values)
            parts.append(f"CHECK ({self.name} IN ({allowed}))")
        return " ".join(part for part in parts if part)


def column(
    unit: str,
    meaning: str,
    *,
    since: int = 1,
    default: Any = None,
    values: type[StrEnum] | None = None,
    constraint: str = "",
    source: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field of a data class as a column.

    A row of a journal from before `since` has `default`, which is None where none is given. With a
    `source` nothing else is needed to record the value: it is a function of the run's
    joulerig.analysis.results.facts.RunFacts.
    """
    metadata = {
        "unit": unit,
        "meaning": meaning,
        "since": since,
        "default": default,
        "values": values,
        "constraint": constraint,
        "source": source,
    }
    given = default if since > 1 or default is not None else MISSING
    return field(default=given, metadata=metadata)


def declared_columns(record: type[Any]) -> Mapping[str, Column]:
    """Return the columns that a data class declares, by name, in their order."""
    return _declared(cast(Hashable, record))


@cache
def _declared(record: Any) -> Mapping[str, Column]:
    found = {}
    for one in fields(record):
        if "meaning" in one.metadata:
            kind = str(one.type)
            nullable = kind.endswith(" | None")
            found[one.name] = Column(one.name, kind.removesuffix(" | None"), nullable, **one.metadata)
    return MappingProxyType(found)


def frame_schema(record: type[Any]) -> dict[str, Any]:
    """Return a frame's schema with a column for each that a data class declares."""
    return {name: one.frame_type for name, one in declared_columns(record).items()}
