# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (tables of cases read by the row)
"""Bundles as a stranger may send them: each entry makes one of a good unpacked bundle."""

from __future__ import annotations

import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

JOURNAL = "journal.sqlite"
Make = Callable[[Path, Path], None]  # of (a good bundle's folder, which may be changed; the zip to write)


def pack(folder: Path, target: Path) -> None:
    """Pack a folder without any change."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder).as_posix())


def member(name: str, content: bytes = b"x", mode: int = 0o644, kind: int = 0o100000, more: str = "") -> Make:
    """Add a member of that name, and another one named `more`."""

    def make(folder: Path, target: Path) -> None:
        pack(folder, target)
        with zipfile.ZipFile(target, "a") as archive:
            for one in (name, *([more] if more else [])):
                info = zipfile.ZipInfo("x" * len(one.encode()))
                info.external_attr = (kind | mode) << 16
                info.filename = info.orig_filename = one
                archive.writestr(info, content)

    return make


def patched(name: str, *fields: tuple[int, bytes]) -> Make:
    """Overwrite fields of a member's entry of the central directory, by offset."""

    def make(folder: Path, target: Path) -> None:
        pack(folder, target)
        content = bytearray(target.read_bytes())
        at = content.rindex(b"PK\x01\x02", 0, content.rindex(name.encode()))
        for offset, value in fields:
            content[at + offset : at + offset + len(value)] = value
        target.write_bytes(bytes(content))

    return make


def whole(change: Callable[[bytes], bytes]) -> Make:
    """Change the bytes of the whole zip."""

    def make(folder: Path, target: Path) -> None:
        pack(folder, target)
        target.write_bytes(change(target.read_bytes()))

    return make


def file(name: str, content: bytes) -> Make:
    """Replace a file's content."""

    def make(folder: Path, target: Path) -> None:
        for path in folder.rglob(name):
            path.write_bytes(content)
        pack(folder, target)

    return make


def without(name: str) -> Make:
    """Leave a file out."""

    def make(folder: Path, target: Path) -> None:
        for path in folder.rglob(name):
            path.unlink()
        pack(folder, target)

    return make


def folder_for(name: str) -> Make:
    """Put a folder where a file is expected."""

    def make(folder: Path, target: Path) -> None:
        for path in list(folder.rglob(name)):
            path.unlink()
            path.mkdir()
            (path / "x").write_bytes(b"x")
        pack(folder, target)

    return make


def sql(*statements: str, writable: bool = False) -> Make:
    """Change the journal by SQL."""

    def make(folder: Path, target: Path) -> None:
        with closing(sqlite3.connect(folder / JOURNAL, isolation_level=None)) as database:
            if writable:
                database.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                database.execute(statement)
        pack(folder, target)

    return make


def replaced_table(table: str, statement: str) -> Make:
    """Drop a table, and make something else of its name."""
    return sql("PRAGMA foreign_keys = OFF", f"ALTER TABLE {table} RENAME TO was_{table}", statement)


DEEP = "[" * 100_000
ZIPS: dict[str, Make] = {
    "no name": member(""),
    "2000 folders deep": member("a/" * 2000 + "b"),
    "a name of 5000 letters": member("a" * 5000),
    "absolute": member("/etc/joulerig-absolute"),
    "a drive letter": member("C:/x"),
    "leads out": member("../../joulerig-out"),
    "leads out later": member("runs/../../joulerig-out"),
    "backslashes": member("..\\..\\joulerig-out"),
    "a dot": member("./x"),
    "only a dot": member("."),
    "there twice": member(JOURNAL),
    "differs in case": member("Journal.sqlite"),
    "differs in the form of its letters": member("runs/e\u0301", more="runs/\u00e9"),
    "a link": member("runs/link", b"/etc/passwd", kind=0o120000),
    "a device": member("runs/device", kind=0o060000),
    "a pipe": member("runs/pipe", kind=0o010000),
    "NUL in its name": member("runs/a\0b"),
    "a line feed in its name": member("runs/a\nb"),
    "an escape in its name": member("runs/a\x1b[2Jb"),
    "no character in its name": patched(JOURNAL, (8, b"\x00\x08"), (46, b"\xff\xfe")),
    "a folder that is a file": member(f"{JOURNAL}/x"),
    "a file that is a folder": member("runs"),
    "a folder at the journal": member(f"{JOURNAL}/"),
    "encrypted": patched(JOURNAL, (8, b"\x01\x00")),
    "bzip2": patched(JOURNAL, (10, struct.pack("<H", 12))),
    "LZMA": patched(JOURNAL, (10, struct.pack("<H", 14))),
    "a packing of 99": patched(JOURNAL, (10, struct.pack("<H", 99))),
    "needs version 99": patched(JOURNAL, (6, struct.pack("<H", 99))),
    "4 GB": patched(JOURNAL, (24, struct.pack("<I", 0xFFFFFFFE))),
    "larger than declared": patched(JOURNAL, (24, struct.pack("<I", 10))),
    "begins elsewhere": patched(JOURNAL, (42, struct.pack("<I", 0x7FFFFFFF))),
    "begins in another": patched(JOURNAL, (42, struct.pack("<I", 0))),
    "a month of 15": patched(JOURNAL, (14, b"\xff\xff")),
    "an extra field cut short": patched(JOURNAL, (30, struct.pack("<H", 3))),
    "no zip": whole(lambda _: b"no zip" * 100),
    "empty": whole(lambda _: b""),
    "half": whole(lambda content: content[: len(content) // 2]),
    "its end alone": whole(lambda content: content[-22:]),
    "all but its beginning": whole(lambda content: content[1000:]),
    "a byte before it": whole(lambda content: b"x" + content),
    "many members": whole(lambda content: content[:-12] + b"\xff\xff\xff\xff" + content[-8:]),
}
JOURNALS: dict[str, Make] = {
    "no journal": without(JOURNAL),
    "a folder for the journal": folder_for(JOURNAL),
    "an empty journal": file(JOURNAL, b""),
    "no SQLite": file(JOURNAL, b"no SQLite" * 1000),
    "a generated column": sql(
        "ALTER TABLE campaign ADD COLUMN big BLOB AS (zeroblob(200000000)) VIRTUAL",
    ),
    "a generated column for a declared one": sql(
        "ALTER TABLE campaign RENAME COLUMN question TO was",
        "ALTER TABLE campaign ADD COLUMN question TEXT AS (hex(zeroblob(100000000))) VIRTUAL",
    ),
    "a view for a table": replaced_table("run", "CREATE VIEW run AS SELECT * FROM was_run"),
    "a view without end": replaced_table(
        "event",
        "CREATE VIEW event AS WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n)"
        " SELECT seq, 1 time_ns, NULL run, 'note' event, '{}' detail FROM n",
    ),
    "a trigger": sql("CREATE TRIGGER t AFTER UPDATE ON run BEGIN DELETE FROM run; END"),
    "a virtual table": sql("CREATE VIRTUAL TABLE more USING fts5(x)"),
    "a virtual table for a table": replaced_table("event", "CREATE VIRTUAL TABLE event USING fts5(run)"),
    "an index on an expression": sql("CREATE INDEX i ON run (hex(zeroblob(10000000)))"),
    "an index by the rig's name": sql(
        "DROP INDEX IF EXISTS run_by_host", "CREATE INDEX run_by_host ON run (hex(zeroblob(10000000)))"
    ),
    "statistics": sql("ANALYZE"),
    "another table": sql("CREATE TABLE more (x)"),
    "a schema that is no SQL": sql("UPDATE sqlite_master SET sql = 'CREATE TABLE run (' WHERE name = 'run'", writable=True),
    "a page of itself": sql("UPDATE sqlite_master SET rootpage = 1 WHERE name = 'event'", writable=True),
    "a page that is not there": sql("UPDATE sqlite_master SET rootpage = 99999 WHERE name = 'event'", writable=True),
    "an older version": sql("PRAGMA user_version = 3"),
    "a newer version": sql("PRAGMA user_version = 99"),
    "a negative version": sql("PRAGMA user_version = -5"),
    "no campaign": sql("PRAGMA foreign_keys = OFF", "DELETE FROM campaign"),
    "no runs": sql("PRAGMA foreign_keys = OFF", *(f"DELETE FROM {t}" for t in ("event", "attempt", "phase", "energy", "io", "result", "performance", "run"))),
    "a long value": sql("UPDATE campaign SET question = hex(zeroblob(60000000))"),
    **{
        f"{column} is {what}": sql("PRAGMA ignore_check_constraints = ON", f"UPDATE OR IGNORE {table} SET {column} = {value}")
        for table, column in (
            ("campaign", "id"), ("campaign", "created_ns"), ("campaign", "definition"), ("campaign", "lab"),
            ("campaign", "provenance"), ("run", "factors"), ("run", "ordinal"), ("run", "started_ns"),
            ("phase", "start_ns"), ("energy", "joules"), ("performance", "ops"), ("result", "joules"),
            ("event", "detail"),
        )
        for what, value in (("a blob", "x'ff00'"), ("text", "'x'"), ("infinite", "9e999"), ("a list", "'[1]'"), ("an object", "'{}'"))
    },
    **{
        f"{column} is deep": sql(f"UPDATE {table} SET {column} = '{DEEP}'")
        for table, column in (("campaign", "definition"), ("campaign", "lab"), ("run", "factors"), ("event", "detail"))
    },
    **{
        f"a run's id is {name!r}": sql(
            "PRAGMA foreign_keys = OFF", f"UPDATE run SET id = '{name}' WHERE ordinal = 1",
        )
        for name in ("", "..", "../../x", "/etc", "a/b")
    },
    "a name of 4 kB": sql("UPDATE run SET drive = replace(hex(zeroblob(2048)), '0', 'A')"),
    "a number for a name": sql("UPDATE run SET drive = 7, host = 8"),
    "a status that is none": sql("PRAGMA ignore_check_constraints = ON", "UPDATE run SET status = 'x'"),
    "a time of 300 years": sql("UPDATE campaign SET created_ns = 9223372036854775807"),
    "a time before all": sql("UPDATE campaign SET created_ns = -9223372036854775808"),
}  # fmt: skip
OF_RUNS = ("load.json", "result.json", "settings.json", "truth.json")
FILES = (
    *OF_RUNS,
    "power.csv",
    "runs.csv",
    "cells.parquet",
    "ro-crate-metadata.json",
    "environment.json",
    "manifest-sha256.txt",
)
CONTENTS = {
    "empty": b"", "no text": b"\xff\xfe\xfd\x00", "deep": DEEP.encode(), "a list": b"[1, 2]", "null": b"null",
    "a long number": b'{"ops": ' + b"9" * 5000 + b"}", "infinite": b'{"ops": 1e999, "phases": [NaN]}',
    "lists": b'{"phases": [[]], "clock": [[]], "jobs": [[]], "rails": [[]], "seeks": [], "drives": []}',
}  # fmt: skip
OF_FILES: dict[str, Make] = {
    **{f"{name} is {what}": file(name, content) for name in OF_RUNS for what, content in CONTENTS.items()},
    **{f"{name} is {what}": file(name, CONTENTS[what]) for name in FILES[4:] for what in ("no text", "deep")},
    **{f"a folder for {name}": folder_for(name) for name in FILES},
}
TABLE = {**ZIPS, **JOURNALS, **OF_FILES}


def each(good: Path, place: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name, zip) of each entry, one at a time."""
    for name, make in TABLE.items():
        work = place / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(good, work)
        target = place / "hostile.zip"
        target.unlink(missing_ok=True)
        make(work, target)
        yield name, target
