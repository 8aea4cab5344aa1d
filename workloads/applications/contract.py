# SPDX-License-Identifier: GPL-3.0-or-later
"""Share the lines of the contract and the content of transactions among applications.

docs/reference/protocols/application.md is the contract. A script has two functions, and ends with
`contract.main(run, check)`. Python 3.8 or newer, standard library alone.
"""

import argparse
import hashlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator

ROLLED_BACK = 5  # each transaction of so many is rolled back, at random
MOST_KEYS = 6  # that a transaction sets
VALUE_BYTES = (20, 4000)

State = tuple[int, bool]  # a transaction's number, and whether it is there whole


class Transactions:
    """The transactions to run, without end: what each sets follows from its number and the seed.

    Each line is answered before the program continues: what it does next is then known to have
    been said.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __iter__(self) -> Iterator[int]:
        number = 0
        while True:
            number += 1
            self._say("begin", number)
            yield number

    def end(self, number: int, commit: Callable[[], object], roll_back: Callable[[], object]) -> None:
        """Commit a transaction, or roll it back, and say so."""
        if random.Random(f"{self._seed} rollback {number}").randrange(ROLLED_BACK) == 0:
            roll_back()
            self._say("rollback", number)
        else:
            commit()
            self._say("commit", number)

    def _say(self, word: str, number: int) -> None:
        sys.stdout.write(f"{word} {number}\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            sys.exit(0)


def keys(number: int) -> int:
    """Return how many keys a transaction sets."""
    return 1 + random.Random(f"keys {number}").randrange(MOST_KEYS)


def value(number: int, key: int) -> bytes:
    """Return what a transaction sets a key to: long enough for several blocks in some of them."""
    length = random.Random(f"length {number} {key}").randint(*VALUE_BYTES)
    digest = hashlib.sha256(b"%d %d" % (number, key)).digest()
    return (digest * (length // len(digest) + 1))[:length]


def states(rows: Iterable[tuple[int, int, bytes]]) -> Iterator[State]:
    """Yield the state of each transaction, from a store's rows: transaction, key, value."""
    found: dict[int, dict[int, bytes]] = {}
    for number, key, what in rows:
        found.setdefault(number, {})[key] = what
    for number, pairs in sorted(found.items()):
        yield number, pairs == {key: value(number, key) for key in range(keys(number))}


def main(
    run: Callable[[str, Transactions, argparse.Namespace], None],
    check: Callable[[str, argparse.Namespace], Iterator[State]],
    add_options: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> None:
    """Run or check the store in a folder, as the command line says.

    `run(folder, transactions, options)` commits transactions until it is ended; `check(folder,
    options)` yields those that it finds, and raises where the store cannot be read.
    """
    parser = argparse.ArgumentParser()
    add_options(parser)
    parser.add_argument("action", choices=("run", "check"))
    parser.add_argument("folder")
    parser.add_argument("seed", type=int, nargs="?", default=1)
    options = parser.parse_args()
    if options.action == "run":
        run(options.folder, Transactions(options.seed), options)
        return
    for number, whole in check(options.folder, options):
        print("found" if whole else "torn", number)
