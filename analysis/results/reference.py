# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the reference page of the run's record from its declaration."""

from __future__ import annotations

from joulerig.analysis.results.journal import VERSION
from joulerig.analysis.results.schema import (
    TABLES,
    EventKind,
    Name,
    PhaseName,
    PreconditioningPhase,
    Status,
    Table,
)

_TYPES = {"INTEGER": "integer", "REAL": "number", "TEXT": "text"}


def journal_page() -> str:
    """Return the journal's page as Markdown: tables, columns, statuses, phases, kinds of event."""
    parts = [
        "# The journal\n",
        f"`results/<campaign-id>/journal.sqlite`, version {VERSION}: SQLite in WAL mode. Times are UTC"
        " nanoseconds of the\ncontroller's clock. A journal of an earlier version is upgraded when a program"
        " opens it for writing; a program\nthat only reads it gets it as the upgrade would leave it.\n",
        *(_table(table) for table in TABLES.values()),
        "## Statuses of a run\n",
        _names(Status),
        "## Phases of a run\n",
        _names(PhaseName),
        "Before them, while the drive is preconditioned (in InfluxDB only):\n",
        _names(PreconditioningPhase),
        "## Kinds of event\n",
        _names(EventKind),
    ]
    return "\n".join(parts)


def _table(table: Table) -> str:
    rows = [
        (
            f"`{one.name}`",
            _TYPES[one.sql_type] + (", may be NULL" if one.nullable else ""),
            one.unit,
            one.meaning,
            str(one.since),
        )
        for one in table.columns.values()
    ]
    key = f" Key: {', '.join(f'`{name}`' for name in table.key)}." if table.key else ""
    return f"## Table `{table.name}`\n\n{table.about}{key}\n\n" + _grid(
        ("column", "type", "unit", "meaning", "since"), rows
    )


def _names(names: type[Name]) -> str:
    return _grid(("name", "meaning"), [(f"`{one}`", one.meaning) for one in names])


def _grid(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return (
        "\n".join("| " + " | ".join(part.replace("|", "\\|") for part in line) + " |" for line in lines)
        + "\n"
    )
