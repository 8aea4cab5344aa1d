# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of writes, and the states that a power cut may leave a drive in by it."""

from __future__ import annotations

import itertools
import random
import struct

import pytest

from joulerig.analysis.powercut import crash_states, write_log
from joulerig.analysis.powercut.crash_states import choose, epochs, subsets
from joulerig.analysis.powercut.write_log import Entry, Write, WriteLogError

SECTOR = 512


def mark(text):
    return Entry(False, None, False, text)


def write(offset, data, durable=False, flush=False):
    return Entry(flush, Write(offset, data), durable, "")


FLUSH = Entry(True, None, False, "")


def packed(first, sectors, flags, text=b"", data=b""):
    return (struct.pack("<QQQQ", first, sectors, flags, len(text)) + text).ljust(SECTOR, b"\0") + data


def file_of(path, *entries, count=None):
    head = struct.pack("<QQQI", 0x6A736677736872, 1, len(entries) if count is None else count, SECTOR)
    path.write_bytes(head.ljust(SECTOR, b"\0") + b"".join(entries))
    return path


def test_a_log_is_read(tmp_path):
    data = bytes(range(256)) * 4
    log = file_of(
        tmp_path / "log", packed(5, 2, 0, data=data), packed(0, 0, 1), packed(0, 0, 8, b"commit 7"),
        packed(1, 1, 2, data=data[:SECTOR]), packed(3, 2, 4),
    )  # fmt: skip
    assert list(write_log.read(log)) == [
        write(5 * SECTOR, data),
        FLUSH,
        mark("commit 7"),
        write(SECTOR, data[:SECTOR], durable=True),
        write(3 * SECTOR, bytes(2 * SECTOR)),
    ]


@pytest.mark.parametrize("text", [b"", b"x" * 600])
def test_another_file_is_refused(tmp_path, text):
    (tmp_path / "log").write_bytes(text)
    with pytest.raises(WriteLogError, match="not a log of dm-log-writes"):
        list(write_log.read(tmp_path / "log"))


def test_a_log_that_is_cut_short_is_refused(tmp_path):
    log = file_of(tmp_path / "log", packed(0, 0, 1), packed(5, 2, 0, data=b"x" * SECTOR))
    with pytest.raises(WriteLogError, match="entry 2: the file ends in it"):
        list(write_log.read(log))


def test_writes_are_volatile_until_the_next_flush():
    a, b, c = Write(0, b"a"), Write(1, b"b"), Write(2, b"c")
    found = list(epochs([write(0, b"a"), write(1, b"b"), FLUSH, write(2, b"c")]))
    assert [(one.durable, one.volatile) for one in found] == [((), (a, b)), ((a, b), (c,))]


def test_a_write_with_a_flush_before_it_is_in_the_next_epoch():
    first, second = epochs([write(0, b"a"), write(1, b"b", flush=True)])
    assert first.volatile == (Write(0, b"a"),)
    assert (second.durable, second.volatile) == ((Write(0, b"a"),), (Write(1, b"b"),))


def test_a_durable_write_is_durable_alone_and_covers_what_lay_there():
    found = list(epochs([write(0, b"aaaa"), write(8, b"b"), write(1, b"XX", durable=True)]))
    assert found[0].volatile == (Write(0, b"aaaa"), Write(8, b"b"))
    assert found[1].durable == (Write(1, b"XX"),)
    assert found[1].volatile == (Write(0, b"a"), Write(3, b"a"), Write(8, b"b"))


def test_what_is_known_is_what_stands_before_the_flush():
    entries = [mark("begin 1"), write(0, b"a"), FLUSH, mark("commit 1"), mark("begin 2"), mark("rollback 2"),
               mark("begin 3"), write(1, b"b"), FLUSH]  # fmt: skip
    first, second, last = epochs(entries)
    assert (first.known.acknowledged, first.known.in_flight) == (frozenset(), {1})
    assert second.known.acknowledged == {1}
    assert (second.known.rolled_back, second.known.in_flight) == ({2}, {3})
    assert last.known == second.known


def test_what_follows_the_end_is_not_the_application_s():
    assert len(list(epochs([FLUSH, mark("end"), write(0, b"a"), FLUSH]))) == 2


def test_all_subsets_are_tried_where_the_budget_has_room():
    found = subsets(3, 8, random.Random(1))
    assert sorted(found) == sorted(
        combination for length in range(4) for combination in itertools.combinations(range(3), length)
    )


def test_a_budget_is_kept_and_begins_with_nothing_and_everything():
    for most in (1, 2, 3, 50):
        found = subsets(10, most, random.Random(1))
        assert len(found) == len(set(found)) == most
        assert found[0] == ()
    assert found[1] == tuple(range(10))


def test_prefixes_single_losses_and_single_writes_come_before_random_ones():
    found = set(subsets(6, 40, random.Random(2)))
    everything = tuple(range(6))
    for n in everything:
        assert {everything[:n], everything[:n] + everything[n + 1 :], (n,)} <= found


def test_every_order_of_landing_leaves_one_of_the_subsets():
    """Two overlapping writes: the drive may stop after any number, in any order."""
    writes = [Write(0, b"aa"), Write(1, b"bb"), Write(0, b"c")]

    def image(order):
        """Later writes lie on top of earlier ones that land, whichever comes first."""
        content = bytearray(4)
        for number in sorted(order):
            content[writes[number].offset : writes[number].end] = writes[number].data
        return bytes(content)

    reached = {image(order[:stop]) for order in itertools.permutations(range(3)) for stop in range(4)}
    assert reached == {image(one) for one in subsets(3, 8, random.Random(1))}


def made(*volatile):
    """The epochs of so many volatile writes each, the first transaction begun."""
    entries = [mark("begin 1")]
    for number in volatile:
        entries += [*(write(n, b"x") for n in range(number)), FLUSH]
    return list(epochs(entries))


def test_a_budget_is_spread_and_what_is_left_over_is_used():
    chosen = choose(made(1, 6, 0), 40, seed=1)
    assert [(one.number, len(one.landed)) for one in chosen] == [(0, 2), (1, 36), (2, 1), (3, 1)]


def test_with_fewer_states_than_flushes_the_seed_draws_which():
    epochs_ = made(*[1] * 20)
    first, again, other = (choose(epochs_, 5, seed) for seed in (1, 1, 2))
    assert [one.number for one in first] == [one.number for one in again]
    assert [one.number for one in first] != [one.number for one in other]
    assert [len(one.landed) for one in first] == [1] * 5


def test_nothing_is_tried_before_the_first_transaction():
    assert choose(list(epochs([write(0, b"mkfs"), FLUSH, FLUSH])), 10, seed=1) == []
    entries = [write(0, b"mkfs"), FLUSH, mark("begin 1"), write(1, b"a"), FLUSH]
    assert [one.number for one in choose(list(epochs(entries)), 10, seed=1)] == [1, 2]


def test_the_words_of_marks_are_the_applications():
    assert (crash_states.BEGIN, crash_states.COMMIT, crash_states.ROLLBACK) == ("begin", "commit", "rollback")
