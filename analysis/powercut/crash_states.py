# SPDX-License-Identifier: GPL-3.0-or-later
"""The states that a drive may be in after a power cut, by the log of what was written to it.

A write is volatile until a flush that is asked for after it, or its own FUA. At a cut any of the
volatile writes may have landed and the others not: the drive may write them in any order. Of two
that overlap the later one lies on top if both landed; a drive that writes them the other way round
is in the state in which the later one is missing. So every legal order of landing leaves a subset
of the volatile writes, and the prefixes of the log are among these.

Between two flushes the last moment is the worst for what was acknowledged, so states are those just
before each flush. Writes land whole here; torn ones are left to the cuts of the twin.

Marks in the log say what an application had acknowledged: `begin N`, `commit N`, `rollback N`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from joulerig.analysis.powercut.transactions import Transactions
from joulerig.analysis.powercut.write_log import Entry, Write

END = "end"  # a mark: what follows is not the application's
BEGIN, COMMIT, ROLLBACK = "begin", "commit", "rollback"


@dataclass(frozen=True)
class Epoch:
    """The time before a flush, or a durable write: `durable` became so since the epoch before."""

    durable: tuple[Write, ...]
    volatile: tuple[Write, ...]
    known: Transactions
    has_begun: bool


class _Marks:
    def __init__(self) -> None:
        self.begun: set[int] = set()
        self.committed: set[int] = set()
        self.rolled_back: set[int] = set()

    def add(self, mark: str) -> None:
        word, _, number = mark.partition(" ")
        of_word = {BEGIN: self.begun, COMMIT: self.committed, ROLLBACK: self.rolled_back}
        if word in of_word and number.isdecimal():
            of_word[word].add(int(number))

    def known(self) -> Transactions:
        done, undone = frozenset(self.committed), frozenset(self.rolled_back)
        return Transactions(done, undone, frozenset(self.begun) - done - undone)


def epochs(entries: Iterable[Entry]) -> Iterator[Epoch]:
    """Yield the epochs of a log, up to its mark `end` or its end."""
    marks = _Marks()
    durable: list[Write] = []
    volatile: list[Write] = []

    def epoch() -> Epoch:
        return Epoch(tuple(durable), tuple(volatile), marks.known(), bool(marks.begun))

    for entry in entries:
        if entry.mark == END:
            break
        if entry.mark:
            marks.add(entry.mark)
        if entry.flush or entry.durable:
            yield epoch()
            durable.clear()
        if entry.flush:
            durable += volatile
            volatile.clear()
        if entry.write and entry.durable:
            volatile = [piece for one in volatile for piece in _without(one, entry.write)]
            durable.append(entry.write)
        elif entry.write:
            volatile.append(entry.write)
    yield epoch()


def _without(write: Write, cover: Write) -> Iterator[Write]:
    """Yield what is left of a write that another one lies over."""
    if cover.end <= write.offset or write.end <= cover.offset:
        yield write
        return
    if write.offset < cover.offset:
        yield Write(write.offset, write.data[: cover.offset - write.offset])
    if cover.end < write.end:
        yield Write(cover.end, write.data[cover.end - write.offset :])


def subsets(writes: int, most: int, random_: random.Random) -> list[tuple[int, ...]]:
    """Return which of so many volatile writes landed, in at most `most` (1 or more) ways.

    All ways where there are no more; else none and all, then in turn prefixes, one missing, one
    alone, and random halves.
    """
    if writes < 24 and 2**writes <= most:
        return [tuple(n for n in range(writes) if mask >> n & 1) for mask in range(2**writes)]
    everything = tuple(range(writes))
    found = dict.fromkeys([(), everything])
    lists: list[list[tuple[int, ...]]] = [
        [everything[:n] for n in everything],
        [everything[:n] + everything[n + 1 :] for n in everything],
        [(n,) for n in everything],
    ]
    for one in lists:
        random_.shuffle(one)
    while len(found) < most:
        for one in lists:
            if one:
                found[one.pop()] = None
        found[tuple(n for n in everything if random_.random() < 0.5)] = None
    return list(found)[:most]


@dataclass(frozen=True)
class Chosen:
    """An epoch, by its number from 0, and the ways that are tried in it."""

    number: int
    epoch: Epoch
    landed: list[tuple[int, ...]]


def choose(found: Sequence[Epoch], budget: int, seed: int) -> list[Chosen]:
    """Spread a budget of states over the epochs since the first transaction began.

    Where there are more epochs than states, those tried are drawn by the seed. What an epoch does
    not use goes to the later ones.
    """
    random_ = random.Random(seed)
    numbers = [number for number, epoch in enumerate(found) if epoch.has_begun]
    if len(numbers) > budget:
        numbers = sorted(random_.sample(numbers, budget))
    # Small epochs first: what they leave goes to those with more ways than can be tried.
    ordered = sorted(numbers, key=lambda number: len(found[number].volatile))
    chosen: list[Chosen] = []
    left = budget
    for place, number in enumerate(ordered):
        share = left // (len(ordered) - place)
        landed = subsets(len(found[number].volatile), share, random_)
        left -= len(landed)
        chosen.append(Chosen(number, found[number], landed))
    return sorted(chosen, key=lambda one: one.number)
