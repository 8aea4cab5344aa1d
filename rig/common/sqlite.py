# SPDX-License-Identifier: GPL-3.0-or-later
"""SQLite as Joulerig's own records use it: a change is made whole, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction on an autocommit connection (`isolation_level=None`); roll back on error.

    It holds the write lock from its beginning, so that what it reads is still true when it writes.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
