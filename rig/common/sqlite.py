# SPDX-License-Identifier: GPL-3.0-or-later
"""SQLite as Joulerig's own records use it: a change is made whole, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """One transaction of a connection in autocommit mode (`isolation_level=None`); an error takes it back.

    It has the write lock from its beginning, so that what it reads is still so when it writes.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
