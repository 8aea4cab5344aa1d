# SPDX-License-Identifier: GPL-3.0-or-later
"""TPC-C-like transactions on PostgreSQL: its own server in the folder, loaded by pgbench.

Tables, first content and the five transactions follow the specification (TPC-C 5.11). Its terminals
do not: clients neither key nor think, each begins its next transaction at once, so that the figure
is no tpmC. 45 % are New-Order, 43 % Payment, 4 % each Order-Status, Delivery and Stock-Level. One
op is a transaction; the figure is New-Order transactions a minute, those that are rolled back as
specified among them. After the load the consistency conditions 1 to 4 (clause 3.3.2) must hold.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import program
from postgresql_server import Cluster, stop

DEFAULTS = {
    "warehouses": 1,
    "clients": 10,
    "shared_buffers_mb": 128,
    "items": 100_000,
    "customers": 3000,  # of a district
}
# Name, weight, what it is called with; pgbench's log has their numbers.
TRANSACTIONS = (
    ("new_order", 45, ":w, :warehouses, :items, :customers, :seed"),
    ("payment", 43, ":w, :warehouses, :customers, :seed"),
    ("order_status", 4, ":w, :customers, :seed"),
    ("delivery", 4, ":w, :seed"),
    ("stock_level", 4, ":w, :seed"),
)
FOLDER = "joulerig-tpcc"
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Transaction:
    """A line of pgbench's log: a transaction that was done."""

    name: str
    seconds: float
    ended_ns: int


def layout(given: program.Given) -> None:
    """Make a database with the specification's first content, its server stopped."""
    cluster = Cluster(program.fresh(given.directory / FOLDER))
    cluster.create("--no-sync")
    scale = {name: given.settings[name] for name in ("warehouses", "items", "customers")}
    with cluster.serving(given.settings["shared_buffers_mb"]) as server:
        cluster.sql((HERE / "tpcc_tables.sql").read_text(), seed=given.seed % 1_000_003 / 1_000_003, **scale)
        cluster.sql((HERE / "tpcc_transactions.sql").read_text())
        cluster.sql("VACUUM (ANALYZE, FREEZE)")
        stop(server)
    os.sync()


def load(given: program.Given, record: program.Record) -> None:
    """Run pgbench for the given time, then check the consistency conditions."""
    cluster = Cluster(given.directory / FOLDER)
    if not (cluster.data / "PG_VERSION").is_file():
        raise program.Failed(f"{cluster.folder}: holds no database; allowed: a folder after `layout`")
    record.details["server"] = program.tool_version(str(cluster.programs / "postgres"))
    with (
        tempfile.TemporaryDirectory(prefix="joulerig-tpcc-") as name,
        cluster.serving(given.settings["shared_buffers_mb"]),
    ):
        notes = Path(name)
        cluster.own(notes)
        begun = _journal(cluster)
        began_ns = time.time_ns()
        try:
            with record.measured():
                cluster.run("pgbench", *_words(given, notes), timeout=given.seconds * 2 + 300)
        finally:
            _tell(record, list(_transactions(notes)), began_ns)
        ended = _journal(cluster)
        record.syncs = ended["syncs"] - begun["syncs"]
        record.details["journal_bytes"] = ended["bytes"] - begun["bytes"]
        _check(cluster, record)


def _words(given: program.Given, notes: Path) -> list[str]:
    """Return the words of pgbench's command line.

    Its scripts are written to `notes`, where its log goes, too.
    """
    scripts = []
    for name, weight, arguments in TRANSACTIONS:
        script = notes / f"{name}.sql"
        script.write_text(
            "\\set w :client_id % :warehouses + 1\n"
            "\\set seed random(0, 1000000000) / 1000000000.0\n"
            f"CALL {name}({arguments});\n"
        )
        scripts.append(f"--file={script}@{weight}")
    scale = [f"--define={name}={given.settings[name]}" for name in ("warehouses", "items", "customers")]
    clients = given.settings["clients"]
    return [
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={clients}",
        f"--jobs={min(clients, os.cpu_count() or 1)}",
        f"--time={max(1, math.ceil(given.seconds))}",
        f"--random-seed={given.seed}",
        "--log",
        f"--log-prefix={notes}/log",
        *scale,
        *scripts,
    ]


def _transactions(notes: Path) -> Iterator[Transaction]:
    """Yield the transactions that were done, from pgbench's logs.

    Of a pgbench that was ended, the last block is missing.
    """
    for log in notes.glob("log.*"):
        for line in log.read_text().splitlines(keepends=True):
            words = line.split()  # client, its number, us, script, seconds, us
            if line.endswith("\n") and words[2].isdigit():
                ended_ns = int(words[4]) * 1_000_000_000 + int(words[5]) * 1000
                yield Transaction(TRANSACTIONS[int(words[3])][0], int(words[2]) / 1e6, ended_ns)


def _tell(record: program.Record, done: list[Transaction], began_ns: int) -> None:
    """Fill in the record's figures; rates are of the time that the log is of."""
    seconds = [one.seconds for one in done]
    record.ops = len(done)
    record.latency_p50_seconds = program.quantile(seconds, 0.5)
    record.latency_p99_seconds = program.quantile(seconds, 0.99)
    by_name = {name: [one.seconds for one in done if one.name == name] for name, _, _ in TRANSACTIONS}
    record.details["transactions"] = {
        name: {
            "count": len(took),
            "p50_seconds": program.quantile(took, 0.5),
            "p99_seconds": program.quantile(took, 0.99),
        }
        for name, took in by_name.items()
    }
    if done:
        minutes = (max(one.ended_ns for one in done) - began_ns) / 60e9
        record.set_figure("notpm", "1/min", len(by_name["new_order"]) / minutes, "higher")


def _journal(cluster: Cluster) -> dict[str, int]:
    """Return what the server's write-ahead log has taken so far: {syncs, bytes}."""
    syncs, written = cluster.sql("SELECT wal_sync, wal_bytes FROM pg_stat_wal")[0]
    return {"syncs": int(syncs), "bytes": int(written)}


def _check(cluster: Cluster, record: program.Record) -> None:
    """Raise Failed where a consistency condition does not hold."""
    broken = {
        number: int(count) for number, count in cluster.sql("SELECT condition, broken FROM consistency")
    }
    record.details["consistency"] = {number: count == 0 for number, count in broken.items()}
    for number, count in broken.items():
        if count:
            raise program.Failed(f"consistency condition {number} is broken {count} times after the load")


if __name__ == "__main__":
    program.main("tpcc", DEFAULTS, "transaction", layout, load)
