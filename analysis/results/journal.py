# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, upgrade and read a campaign's journal: results/<campaign-id>/journal.sqlite.

It is SQLite in WAL mode. Every reader comes through here: one that only looks at a journal of an
older version gets it as an upgrade would leave it, and the file stays as it is.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from joulerig import sqlite
from joulerig.analysis.results.schema import FORMER_PHASES, TABLES, EventKind, PhaseName, Status, Table
from joulerig.errors import JoulerigError
from joulerig.identifier import LONGEST_ID

FILE = "journal.sqlite"
# They find a host's next run, however many there are. They change no rows and no reader needs them,
# so they do not count as a new version: a journal without them gets them when its campaign is
# executed.
INDEXES = (
    "CREATE INDEX IF NOT EXISTS run_by_host ON run (host, status, ordinal)",
    "CREATE INDEX IF NOT EXISTS open_attempt ON attempt (run) WHERE ended_ns IS NULL",
)
STORED = {"TEXT": "text", "INTEGER": "integer", "REAL": "real"}  # SQLite's typeof, by declared type
SEQUENCE = "sqlite_sequence"  # SQLite's own table, of the events' numbers
_NO_ID = (
    "SELECT id FROM {table} WHERE typeof(id) != 'text' OR length(id) > " + str(LONGEST_ID) + " OR"
    " id GLOB '*[^A-Za-z0-9_.-]*' OR id NOT GLOB '[A-Za-z0-9]*' LIMIT 1"
)
# Names are drawn in figures: one of 4 kB takes a report minutes. The rig's own have 40 letters.
LONGEST_NAME, LONGEST_CELL = 100, 1000
LONGEST = {
    **dict.fromkeys(("host", "drive", "filesystem", "scheduler", "workload", "meter", "rail"), LONGEST_NAME),
    **dict.fromkeys(("unit", "figure_name", "figure_unit"), LONGEST_NAME),
    "cell": LONGEST_CELL,
}
EXCLUDED = "excluded: "  # how the reason of such a run began before version 6


def _version_6(database: sqlite3.Connection) -> None:
    """Make excluded a status and preconditioning a kind of event, and rename the setup phase."""
    database.execute(
        "UPDATE run SET status = ?, reason = substr(reason, ?) WHERE status = ? AND substr(reason, 1, ?) = ?",
        (Status.EXCLUDED, len(EXCLUDED) + 1, Status.NOT_RUN, len(EXCLUDED), EXCLUDED),
    )
    for table in ("phase", "energy"):
        for before, now in FORMER_PHASES.items():
            database.execute(f"UPDATE {table} SET phase = ? WHERE phase = ?", (now, before))
    database.execute(
        "UPDATE event SET event = ? WHERE event = ? AND run IS NOT NULL AND json_valid(detail)"
        " AND json_type(detail, '$.precondition') IS NOT NULL",
        (EventKind.PRECONDITIONING, EventKind.NOTE),
    )


def _version_8(database: sqlite3.Connection) -> None:
    """Make an attempt of each run that began; earlier ones were not kept."""
    database.execute(
        "INSERT INTO attempt (run, number, started_ns, ended_ns, status, reason)"
        " SELECT id, 1, started_ns, ended_ns, status, reason FROM run WHERE started_ns IS NOT NULL"
    )


def _version_14(database: sqlite3.Connection) -> None:
    """Correct the joules that AI is of by half of how much V x I of means can be too high."""
    half = (
        "(SELECT total(product_joules) / 2 FROM energy"
        f" WHERE energy.run = result.run AND phase = '{PhaseName.WORKLOAD}')"
    )
    kept = f"(1 - {half} / corrected_joules)"
    database.execute(
        f"UPDATE result SET corrected_joules = corrected_joules - {half}, mean_watts = mean_watts * {kept},"
        f" ai_ops_per_joule = ai_ops_per_joule / {kept}, ai_mb_per_joule = ai_mb_per_joule / {kept}"
        f" WHERE corrected_joules > {half}"
    )


# By version: what changes in rows that are there. New columns, keys and constraints need nothing
# here.
CHANGES: dict[int, Callable[[sqlite3.Connection], None]] = {6: _version_6, 8: _version_8, 14: _version_14}
# The version with which a closed list of names (a status, a cause, a kind of event) last got one: a
# journal's constraints refuse others.
NAMES_SINCE = 13
VERSION = max(
    *CHANGES, NAMES_SINCE, *(one.since for table in TABLES.values() for one in table.columns.values())
)


class JournalError(JoulerigError):
    """A journal that this program does not read; the message is a line without the file's name."""


def create_table(table: Table, name: str | None = None) -> str:
    """Return the CREATE TABLE statement of a table, with unit and meaning of each column."""
    columns = list(table.columns.values())
    lines = [one.sql for one in columns]
    if table.key:
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    comments = [
        " ".join(part for part in (one.unit and f"[{one.unit}]", one.meaning) if part) for one in columns
    ]
    body = [
        f"  {line}{',' if number < len(lines) else ''}" + (f" -- {comment}" if comment else "")
        for number, (line, comment) in enumerate(zip(lines, [*comments, ""], strict=False), start=1)
    ]
    return f"CREATE TABLE {name or table.name} ( -- {table.about}\n" + "\n".join(body) + "\n)"


def create_tables(database: sqlite3.Connection) -> None:
    """Make the tables of a new journal."""
    for table in TABLES.values():
        database.execute(create_table(table))
    create_indexes(database)
    database.execute(f"PRAGMA user_version = {VERSION}")


def create_indexes(database: sqlite3.Connection) -> None:
    """Make the indexes that a journal lacks."""
    for statement in INDEXES:
        database.execute(statement)


def read_version(database: sqlite3.Connection) -> int:
    """Return a journal's version.

    Raises JournalError where it is not a campaign's journal, a newer program wrote it, or an id
    could name something else than a folder below its own.
    """
    version: int = database.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise JournalError(
            f"journal version {version}, this program reads {VERSION}: a newer one wrote it;"
            " update this checkout"
        )
    present, other = _tables(database)
    missing = [
        name for name, table in TABLES.items() if table.since <= max(version, 1) and name not in present
    ]
    if missing or version < 1:
        lacks = f"no table {missing[0]!r}" if missing else f"user_version {version}"
        raise JournalError(f"not a journal of a campaign: {lacks}")
    if other:
        raise JournalError(f"not as the rig makes a journal: {other}")
    for table in ("campaign", "run"):
        if wrong := database.execute(_NO_ID.format(table=table)).fetchone():
            raise JournalError(
                f"{table} id {wrong[0]!r:.60}; allowed: at most {LONGEST_ID} letters, digits, '.', '_', '-'"
            )
    return version


def _tables(database: sqlite3.Connection) -> tuple[set[str], str]:
    """Return the names of a journal's tables, and what there is that the rig does not make.

    A view, a trigger, a virtual table, a generated column or another's index has SQLite compute
    what a stranger thought of when a journal is read.
    """
    indexes = {_plain(statement) for statement in INDEXES}
    found, other = set(), ""
    schema = "SELECT type, name, rootpage, sql FROM sqlite_master"
    for kind, name, page, sql in database.execute(schema).fetchall():
        if kind == "table" and page and name in (*TABLES, SEQUENCE):
            found.add(name)
        elif kind != "index" or (sql is not None and _plain(sql) not in indexes):
            other = other or f"{kind} {str(name)[:80]!r} in it"
    for name in sorted(found):
        for row in database.execute(f"PRAGMA table_xinfo({name})").fetchall():
            if row[-1]:
                other = other or f"{name}.{row[1][:80]} is a generated column"
    return found, other


def _plain(sql: str) -> str:
    """Return a statement that makes an index as SQLite keeps it."""
    return " ".join(sql.replace("IF NOT EXISTS", "").split())


def upgrade(database: sqlite3.Connection, version: int) -> None:
    """Bring a journal of an earlier version up to date.

    Call it within a transaction, without foreign keys. Every table is made as it is declared now,
    and keeps its rows (SQLite changes no key or constraint in place); then `CHANGES` are made to
    the rows.
    """
    for table in TABLES.values():
        had = {row[1] for row in database.execute(f"PRAGMA table_info({table.name})")}
        if not had:
            database.execute(create_table(table))
            continue
        kept = ", ".join(name for name in table.columns if name in had)
        database.execute(create_table(table, f"{table.name}_new"))
        database.execute(
            f"INSERT INTO {table.name}_new ({kept}) SELECT {kept} FROM {table.name} ORDER BY rowid"
        )
        database.execute(f"DROP TABLE {table.name}")
        database.execute(f"ALTER TABLE {table.name}_new RENAME TO {table.name}")
    for number, change in sorted(CHANGES.items()):
        if number > version:
            change(database)
    create_indexes(database)
    database.execute(f"PRAGMA user_version = {VERSION}")


# A file that was written this shortly before it was looked at may be written again with no sign.
SETTLED_NS = 1_000_000_000
Signature = tuple[tuple[int, int, int, int] | None, ...]


def signature(path: Path) -> Signature:
    """Return what differs once a journal, or its write-ahead log, has been written or replaced.

    It is no other's where a file was written just now.
    """
    found: list[tuple[int, int, int, int] | None] = []
    for file in (path, Path(f"{path}-wal")):
        try:
            state = file.stat()
        except FileNotFoundError:
            found.append(None)
            continue
        now = time.time_ns()
        recent = now if now - state.st_mtime_ns < SETTLED_NS else 0
        found.append((state.st_ino, state.st_mtime_ns, state.st_size, recent))
    return tuple(found)


def connect(path: Path) -> sqlite3.Connection:
    """Open a journal read-only. Raises sqlite3.DatabaseError."""
    return sqlite.read(path)


@contextmanager
def snapshot(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Give a journal as of one instant, in the current version.

    One transaction: a campaign that runs goes on writing, and tables of two instants would
    contradict each other. Raises JournalError, sqlite3.DatabaseError.
    """
    database.execute("BEGIN")
    try:
        if read_version(database) == VERSION:
            check_values(database, TABLES["campaign"])  # what lists of campaigns read
            yield database
            return
        with closing(_copied(database)) as copy:
            check_values(copy, TABLES["campaign"])
            copy.row_factory = database.row_factory
            yield copy
    finally:
        database.execute("COMMIT")


def _copied(database: sqlite3.Connection) -> sqlite3.Connection:
    """Return a copy in memory, in the current version. Raises JournalError."""
    copy = sqlite.connect(":memory:")
    database.backup(copy)  # in one step, which is one transaction
    version = read_version(copy)  # of the same instant: an executor may upgrade the file meanwhile
    if version < VERSION:
        upgrade(copy, version)
    copy.execute("PRAGMA query_only = ON")
    return copy


def check_values(database: sqlite3.Connection, table: Table) -> None:
    """Refuse values that are not of their column's type, or too long. Raises JournalError.

    SQLite keeps any value in any column, and has no finite number for one beyond a float's.
    """
    for one in table.columns.values():
        allowed = {STORED[one.sql_type], *(["null"] if one.nullable else [])}
        wrong = f"typeof({one.name}) NOT IN ({', '.join(map(repr, sorted(allowed)))})"
        if one.sql_type == "REAL":
            wrong += f" OR abs({one.name}) = 9e999"
        if one.name in LONGEST:
            wrong += f" OR length({one.name}) > {LONGEST[one.name]}"
        if one.values:
            wrong += f" OR {one.name} NOT IN ({', '.join(repr(str(name)) for name in one.values)})"
        query = f"SELECT quote({one.name}) FROM {table.name} WHERE {wrong} LIMIT 1"
        for (value,) in database.execute(query):
            raise JournalError(
                f"{table.name}.{one.name}: {value[:40]}; allowed: {one.kind}"
                f"{f' of at most {LONGEST[one.name]} letters' if one.name in LONGEST else ''}"
                f"{' or NULL' if one.nullable else ''}"
            )


class Rows(NamedTuple):
    """A table's rows, each the values of the columns `names`.

    Plain tuples: a journal of 10,000 runs has two million values.
    """

    names: tuple[str, ...]
    values: list[tuple[Any, ...]]

    def by_name(self) -> list[dict[str, Any]]:
        """Return the rows as mappings of column to value."""
        return [dict(zip(self.names, row, strict=True)) for row in self.values]


class JournalCopy:
    """A journal as of one instant, in the current version: a copy of its pages in memory.

    A table's rows are read when they are asked for, as few readers need them all. As in `snapshot`,
    they are all of the same instant; a copy keeps no lock on the file, and takes a twentieth of the
    time of reading all rows.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._checked: set[str] = set()

    def rows(self, name: str, columns: Sequence[str] = (), phase: str | None = None) -> Rows:
        """Return the rows of a table in its order: all columns, or these; of all phases, or of one.

        Raises JournalError, sqlite3.DatabaseError.
        """
        table = TABLES[name]
        if name not in self._checked:
            check_values(self._database, table)
            self._checked.add(name)
        where, values = ("", ()) if phase is None else (" WHERE phase = ?", (phase,))
        columns = tuple(columns or table.columns)
        query = f"SELECT {', '.join(columns)} FROM {table.name}{where} ORDER BY {table.order}"
        return Rows(columns, self._database.execute(query, values).fetchall())


def copy(path: Path) -> JournalCopy:
    """Return a journal as of this instant. Raises JournalError, sqlite3.DatabaseError."""
    with closing(connect(path)) as database:
        return JournalCopy(_copied(database))
