# SPDX-License-Identifier: GPL-3.0-or-later
"""The application on a real PostgreSQL: what it commits, and what its checker finds."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from joulerig.rig.lab import applications, programs
from tests.support.application_script import check_contract, found_in, transact

SOCKET_LOCK = ".s.PGSQL.5432.lock"
ALL = [name for name in applications.shipped() if name.startswith("postgresql")]


@pytest.fixture
def store(place):
    """A folder with a short path: a server's socket is in it."""
    folder = Path(tempfile.mkdtemp(dir=place))
    folder.chmod(0o755)
    return folder


@pytest.fixture
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(programs.SHIPPED))
        import postgresql_server

        yield postgresql_server


@pytest.mark.parametrize("name", ALL)
def test_it_keeps_the_contract_and_finds_what_it_committed(name, store):
    check_contract(name, store)


def test_a_transaction_that_lacks_a_row_is_torn(store, server):
    lines = transact("postgresql", store, 12)
    last = max(int(line.split()[1]) for line in lines if line.startswith("commit"))
    cluster = server.Cluster(store)
    with cluster.serving(16) as process:
        cluster.sql(f"UPDATE pair SET value = '' WHERE number = {last} AND key = 0")
        server.stop(process)
    assert f"torn {last}" in found_in("postgresql", store)[0]


def test_a_damaged_page_of_the_table_cannot_be_read(store, server):
    transact("postgresql", store, 12)
    cluster = server.Cluster(store)
    with cluster.serving(16):
        [[path]] = cluster.sql("SELECT pg_relation_filepath('pair')")
    with (store / "data" / path).open("r+b") as table:
        table.seek(4000)
        table.write(b"damaged")  # its checksum is another one
    assert found_in("postgresql", store) == ([], 1)


def test_a_server_that_the_cut_ended_is_not_taken_for_one_that_runs(store, server):
    lines = transact("postgresql", store, 12)
    found = [f"found {line.split()[1]}" for line in lines if line.startswith("commit")]
    cluster = server.Cluster(store)
    with cluster.serving(16):
        locks = {path: path.read_text() for path in (cluster.data / "postmaster.pid", store / SOCKET_LOCK)}
    with subprocess.Popen(["sleep", "60"], user=cluster.user) as another:
        for path, text in locks.items():
            number, rest = text.split("\n", 1)
            assert int(number) > 1
            path.write_text(f"{another.pid}\n{rest}")
        try:
            assert found_in("postgresql", store) == (found, 0)
        finally:
            another.kill()


def test_a_server_that_was_not_made_whole_is_an_empty_store(store):
    transact("postgresql", store, 1)
    (store / "made").unlink()
    assert found_in("postgresql", store) == ([], 0)
