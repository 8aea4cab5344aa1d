# SPDX-License-Identifier: GPL-3.0-or-later
"""TPC-C-like transactions on a real PostgreSQL, at a small scale."""

from __future__ import annotations

import contextlib
import math

import pytest

from tests.support.program_script import SCRIPTS, Script, processes_of

ITEMS, CUSTOMERS = 200, 30
SCALE = {"items": ITEMS, "customers": CUSTOMERS, "warehouses": 2, "clients": 4}
DIGEST = "SELECT md5(string_agg(s::text, '' ORDER BY s_w_id, s_i_id)) FROM stock AS s"


@pytest.fixture(scope="module")
def scripts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        patch.syspath_prepend(str(SCRIPTS / "tpcc"))
        import tpcc

        yield tpcc


@pytest.fixture(scope="module")
def script(place):
    one = Script("tpcc", place / "load", **SCALE)
    one.lay_out()
    return one


@contextlib.contextmanager
def database(scripts, script):
    cluster = scripts.Cluster(script.folder / scripts.FOLDER)
    with cluster.serving(16) as server:
        yield cluster
        scripts.stop(server)


def test_the_first_content_is_as_specified(scripts, script):
    expected = {
        "warehouse": 2, "district": 20, "item": ITEMS, "stock": 2 * ITEMS, "customer": 20 * CUSTOMERS,
        "history": 20 * CUSTOMERS, "orders": 20 * CUSTOMERS, "new_order": 20 * CUSTOMERS * 3 // 10,
    }  # fmt: skip
    with database(scripts, script) as cluster:
        counted = {table: int(cluster.sql(f"SELECT count(*) FROM {table}")[0][0]) for table in expected}
        assert counted == expected
        ((lines, least, most),) = cluster.sql(
            "SELECT sum(o_ol_cnt), min(o_ol_cnt), max(o_ol_cnt) FROM orders"
        )
        assert cluster.sql("SELECT count(*) FROM order_line") == [[lines]]
        assert (int(least), int(most)) == (5, 15)
        assert cluster.sql("SELECT count(*) FROM orders WHERE (o_carrier_id IS NULL) <> (o_id > 21)") == [
            ["0"]
        ]


# What breaks a condition, and how many districts or warehouses then do.
BREAKS = [
    ("SELECT", {}),
    ("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1", {1: 1}),
    ("UPDATE district SET d_ytd = d_ytd - 1", {1: 2}),
    ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3", {2: 2}),
    ("DELETE FROM new_order WHERE no_o_id = 25", {3: 20}),
    ("DELETE FROM order_line WHERE ol_o_id = 2 AND ol_d_id = 1", {4: 2}),
]


def test_each_consistency_condition_is_found_broken_where_it_is(scripts, script):
    found = []
    with database(scripts, script) as cluster:
        for statement, _ in BREAKS:
            rows = cluster.sql(f"BEGIN; {statement}; SELECT condition, broken FROM consistency; ROLLBACK")
            found.append({int(row[0]): int(row[1]) for row in rows if row[0] and row[1] != "0"})
    assert found == [broken for _, broken in BREAKS]


def test_a_load_does_the_specified_mix_and_stays_consistent(scripts, script):
    with database(scripts, script) as cluster:
        payments_before, orders_before = counted(cluster)
    report = script.load(3)
    done = {name: reported["count"] for name, reported in report["details"]["transactions"].items()}
    ops = report["ops"]
    assert (report["ended"], report["unit"]) == ("completed", "transaction")
    assert sum(done.values()) == ops > 100
    for name, weight, _ in scripts.TRANSACTIONS:
        share = weight / 100
        assert abs(done[name] - share * ops) < 5 * math.sqrt(share * (1 - share) * ops), (name, done)
    assert report["details"]["consistency"] == {"1": True, "2": True, "3": True, "4": True}
    assert report["figure"]["name"] == "notpm"
    assert report["figure"]["value"] == pytest.approx(done["new_order"] * 60 / report["seconds"], rel=0.2)
    assert 0 < report["latency_p50_seconds"] < report["latency_p99_seconds"]
    assert 0 < report["syncs"] <= ops + 10
    assert processes_of(script.folder) == set()
    with database(scripts, script) as cluster:
        payments, orders = counted(cluster)
    assert payments - payments_before == done["payment"]
    # one New-Order in a hundred is rolled back
    rolled_back = done["new_order"] - (orders - orders_before)
    assert abs(rolled_back - done["new_order"] / 100) < 5 * math.sqrt(done["new_order"] / 100) + 1


def counted(cluster):
    return [int(cluster.sql(f"SELECT count(*) FROM {table}")[0][0]) for table in ("history", "orders")]


def test_a_broken_condition_fails_the_load(scripts, script):
    with database(scripts, script) as cluster:
        cluster.sql("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2")
    done = script.run("load", 1)
    assert done.returncode == 1
    assert done.stderr == "tpcc: consistency condition 1 is broken 1 times after the load\n"
    assert script.report()["ended"] == "failed"
    assert script.report()["ops"] > 0


def test_a_seed_gives_the_same_content_again_and_another_other_content(scripts, script):
    content = (SCRIPTS / "tpcc" / "tpcc_tables.sql").read_text()
    digests = []
    with database(scripts, script) as cluster:
        for number, seed in enumerate((0.5, 0.5, 0.6)):
            apart = f"CREATE SCHEMA apart{number}; SET search_path = apart{number};"
            scale = {"warehouses": 1, "items": 20, "customers": 3, "seed": seed}
            digests.append(cluster.sql(f"{apart} {content} {DIGEST};", **scale)[-1])
    assert digests[0] == digests[1] != digests[2]


def test_a_server_that_does_not_start_says_why(place):
    script = Script("tpcc", place / "load", **{**SCALE, "shared_buffers_mb": 1 << 30})
    done = script.run("load", 1)
    assert done.returncode == 1
    assert done.stderr.startswith("tpcc: postgres: does not serve: ")
    assert "shared_buffers" in done.stderr
    assert done.stderr.count("\n") == 1
