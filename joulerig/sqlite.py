# SPDX-License-Identifier: GPL-3.0-or-later
"""SQLite as Joulerig uses it: whole changes, and bounds on what a file by others can cost.

Every file is opened by `connect`. A journal may come from anywhere, in a bundle or a copied
folder, and what is in it may be made to make its reader run out of time or memory.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

# The longest value: a lab of 1,000 drives, which each journal describes, takes 2 MB.
MOST_VALUE_BYTES = 32 << 20
MOST_SECONDS = 60.0  # that one statement may compute
_CHECKED_EVERY = 1_000_000  # steps of SQLite's virtual machine
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MOST_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
MOUNTS = Path("/proc/self/mountinfo")
# File systems of several machines, whose processes can't share memory.
SHARED = ("9p", "afs", "ceph", "cifs", "lustre", "nfs", "nfs4", "smb3", "virtiofs")
_PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON")


class _Deadline:
    """The time by which the statement that a connection executes has to end."""

    at = float("inf")

    def is_over(self) -> bool:
        return time.monotonic() > self.at


class _Bounded(sqlite3.Connection):
    """A connection whose statements end after `MOST_SECONDS`."""

    deadline: _Deadline

    def execute(self, *given: Any) -> sqlite3.Cursor:
        self.deadline.at = time.monotonic() + MOST_SECONDS
        return super().execute(*given)


def connect(path: Path | str, *, timeout: float = 30.0) -> sqlite3.Connection:
    """Open a database to read and write it, in autocommit, within the bounds.

    Raises sqlite3.DatabaseError.
    """
    return _opened(str(path), timeout=timeout)


def read(path: Path, *, timeout: float = 10.0) -> sqlite3.Connection:
    """Open a database read-only, also in a folder that cannot be written, within the bounds.

    Raises sqlite3.DatabaseError.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    database = _opened(uri, uri=True, timeout=timeout)
    try:
        database.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # SQLite cannot make the shared memory of a write-ahead log in a folder that cannot be
        # written (an archive, another user's, a full disk). Without a log the file is complete.
        database.close()
        database = _with_log(path) if _has_log(path) else _opened(f"{uri}&immutable=1", uri=True)
    database.execute("PRAGMA query_only = ON")
    return database


def _has_log(path: Path) -> bool:
    log = Path(f"{path}-wal")
    return log.is_file() and log.stat().st_size > 0


def _with_log(path: Path) -> _Bounded:
    """Return a copy in memory of a database and its write-ahead log."""
    with tempfile.TemporaryDirectory(prefix="joulerig-log-") as name:
        place = Path(name) / path.name
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{place}{suffix}")
        with closing(_opened(str(place))) as database:
            copy = _opened(":memory:")
            database.backup(copy)
    return copy


def _opened(name: str, **options: Any) -> _Bounded:
    database: _Bounded = sqlite3.connect(
        name, isolation_level=None, check_same_thread=False, factory=_Bounded, **options
    )
    database.deadline = _Deadline()  # not the connection itself, which nothing would free
    database.set_progress_handler(database.deadline.is_over, _CHECKED_EVERY)
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    for pragma in _PRAGMAS:
        database.execute(f"PRAGMA {pragma}")
    return database


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction on an autocommit connection; roll back on error.

    It holds the write lock from its beginning, so that what it reads is still true when it writes.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def journal_mode(folder: Path) -> str:
    """Return the journal mode of a database in `folder`: WAL, except where machines share it.

    Processes of a database in WAL mode share memory (https://sqlite.org/wal.html), which those of
    two machines can't.
    """
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        name = kind.split(" ")[0]
        if mount.split(" ")[2] == number and (name in SHARED or name.startswith("fuse")):
            return "DELETE"
    return "WAL"
