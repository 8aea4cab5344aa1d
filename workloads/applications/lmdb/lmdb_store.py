# SPDX-License-Identifier: GPL-3.0-or-later
"""LMDB by its Python module, with its defaults or with fewer syncs."""

import os
import sys

import lmdb

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(__file__), "..")]
import contract  # noqa: E402  (next to this file on a test host, one folder above in the project)

DATA = "data.mdb"
MAP_BYTES = 1 << 30  # of addresses, not of the drive
# What is synced at a commit: http://www.lmdb.tech/doc/group__mdb__env.html
SYNCS = {
    "all": {},
    "data": {"metasync": False},
    "none": {"sync": False},
}


def add_options(parser):
    parser.add_argument("--sync", choices=SYNCS, default="all")


def run(folder, transactions, options):
    store = lmdb.open(folder, map_size=MAP_BYTES, **SYNCS[options.sync])
    for number in transactions:
        transaction = store.begin(write=True)
        for key in range(contract.keys(number)):
            transaction.put(b"%08d %d" % (number, key), contract.value(number, key))
        transactions.end(number, transaction.commit, transaction.abort)


def check(folder, options):
    """Yield what the store shows. One that was never made is empty."""
    if not os.path.exists(os.path.join(folder, DATA)):
        return
    try:
        with lmdb.open(folder, map_size=MAP_BYTES) as store, store.begin() as transaction:
            rows = [(*map(int, name.split()), value) for name, value in transaction.cursor()]
    except (lmdb.Error, ValueError) as error:
        raise SystemExit(f"lmdb: {error}") from None
    yield from contract.states(rows)


contract.main(run, check, add_options)
