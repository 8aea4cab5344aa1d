# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL: a server of this folder alone, and one client of it.

Its files have checksums, and a log of segments of 1 MiB, so that a small drive can hold it.
"""

import os
import sys
from functools import partial
from pathlib import Path

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(_HERE, ".."), os.path.join(_HERE, "..", "..", "programs")]
import contract  # noqa: E402
import program  # noqa: E402
from postgresql_server import Cluster, stop  # noqa: E402

BUFFERS_MB = 16
MADE = "made"  # a file that is there once the server's own files and the table are
TABLE = "CREATE TABLE pair (number integer, key integer, value bytea, PRIMARY KEY (number, key))"
ROWS = "SELECT number, key, encode(value, 'hex') FROM pair"
# Every row, once from the table and once by its index.
BY_TABLE = f"SET enable_indexscan = off; SET enable_bitmapscan = off; {ROWS}"
BY_INDEX = f"SET enable_seqscan = off; {ROWS} ORDER BY number, key"


def add_options(parser):
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a server's setting")


def run(folder, transactions, options):
    settings = dict(given.split("=", 1) for given in options.set)
    cluster = Cluster(Path(folder))
    cluster.create("--data-checksums", "--wal-segsize=1")
    with cluster.serving(BUFFERS_MB, settings) as server:
        try:
            with cluster.session() as session:
                session.run(f"{TABLE}; CHECKPOINT")
                _make_durable(Path(folder) / MADE)
                for number in transactions:
                    session.run("; ".join(["BEGIN", *_inserts(number)]))
                    transactions.end(number, partial(session.run, "COMMIT"), partial(session.run, "ROLLBACK"))
        except SystemExit:  # of who reads its lines
            stop(server)
            raise


def check(folder, options):
    """Yield what the server shows after its recovery. One that was never made is empty."""
    if not (Path(folder) / MADE).exists():
        return
    cluster = Cluster(Path(folder))
    # No server outlives a power cut, but a process of today may have the number of that one.
    for lock in (cluster.data / "postmaster.pid", *Path(folder).glob(".s.PGSQL.*.lock")):
        lock.unlink(missing_ok=True)
    with cluster.serving(BUFFERS_MB):
        rows, indexed = (cluster.sql(text) for text in (BY_TABLE, BY_INDEX))
    if sorted(rows) != sorted(indexed):
        raise SystemExit("postgresql: the table and its index differ")
    yield from contract.states((int(number), int(key), bytes.fromhex(value)) for number, key, value in rows)


def _inserts(number):
    for key in range(contract.keys(number)):
        yield rf"INSERT INTO pair VALUES ({number}, {key}, '\x{contract.value(number, key).hex()}')"


def _make_durable(file):
    file.touch()
    for path in (file, file.parent):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


try:
    contract.main(run, check, add_options)
except program.Failed as error:
    raise SystemExit(f"postgresql: {error}") from None
