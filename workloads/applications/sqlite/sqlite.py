# SPDX-License-Identifier: GPL-3.0-or-later
"""SQLite by Python's own module, with its defaults or with another journal."""

import contextlib
import os
import sqlite3
import sys
from functools import partial

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(__file__), "..")]
import contract  # noqa: E402  (next to this file on a test host, one folder above in the project)

DATABASE = "store.db"
TABLE = "CREATE TABLE pair (number INTEGER, key INTEGER, value BLOB, PRIMARY KEY (number, key))"


def add_options(parser):
    parser.add_argument("--journal", choices=("delete", "truncate", "persist", "wal"), default="delete")
    parser.add_argument(
        "--synchronous", choices=("default", "off", "normal", "full", "extra"), default="default"
    )


def run(folder, transactions, options):
    # Transactions are begun and ended by this program, not by the module.
    database = sqlite3.connect(os.path.join(folder, DATABASE), isolation_level=None)
    database.execute(f"PRAGMA journal_mode = {options.journal}")
    if options.synchronous != "default":
        database.execute(f"PRAGMA synchronous = {options.synchronous}")
    database.execute(TABLE)
    for number in transactions:
        database.execute("BEGIN IMMEDIATE")
        for key in range(contract.keys(number)):
            database.execute("INSERT INTO pair VALUES (?, ?, ?)", (number, key, contract.value(number, key)))
        transactions.end(number, partial(database.execute, "COMMIT"), partial(database.execute, "ROLLBACK"))


def check(folder, options):
    """Yield what the database shows, after its own check. A store that was never made is empty."""
    path = os.path.join(folder, DATABASE)
    if not os.path.exists(path):
        return
    with contextlib.closing(sqlite3.connect(path)) as database:
        verdict = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if verdict != "ok":
            raise SystemExit(f"integrity_check: {verdict}")
        if not database.execute("SELECT name FROM sqlite_master WHERE name = 'pair'").fetchone():
            return
        yield from contract.states(database.execute("SELECT number, key, value FROM pair"))


contract.main(run, check, add_options)
