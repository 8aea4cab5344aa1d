# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of an application's transactions, by the witness log and its checker."""

from __future__ import annotations

import itertools
import json

import pytest

from joulerig.analysis.powercut import durable, transactions, verdict, witness_log
from joulerig.analysis.powercut.survey import SurveyError
from joulerig.analysis.powercut.transactions import Found, State, TransactionFate


def log(*words):
    """A witness log of lines such as "begin 1", "commit 1", "rollback 1", "cut"."""
    lines = [{"event": "begin", "campaign": "00", "generation": 1}]
    for word in words:
        name, _, number = word.partition(" ")
        if name == "begin":
            more = {"operation": "transaction", "call": "transaction", "target": "", "offset": 0, "bytes": 0}
            lines.append({"event": "issued", "sequence": int(number), **more})
        elif name == "cut":
            lines.append({"event": "cut"})
        else:
            event = {"commit": "acknowledged", "rollback": "failed"}[name]
            lines.append({"event": event, "sequence": int(number)})
    clock = itertools.count(1)
    stamped = [
        {**line, "monotonic_ns": 10**6 * tick, "realtime_ns": 10**9 + 10**6 * tick}
        for line, tick in zip(lines, clock, strict=False)
    ]
    return witness_log.log_from_lines(stamped)


def found(**states):
    return Found({int(name[1:]): State(state) for name, state in states.items()})


def fates(words, states):
    return {
        number: str(fate) for number, fate in transactions.judge(transactions.from_log(log(*words)), states)
    }


ONE = ["begin 1", "commit 1"]


@pytest.mark.parametrize(
    ("words", "states", "expected"),
    [
        (ONE, found(t1="found"), {1: "kept"}),
        (ONE, found(), {1: "lost"}),
        (ONE, found(t1="torn"), {1: "torn"}),
        ([*ONE, "begin 2"], found(t1="found"), {1: "kept", 2: "absent"}),
        ([*ONE, "begin 2"], found(t1="found", t2="found"), {1: "kept", 2: "landed"}),
        ([*ONE, "begin 2"], found(t1="found", t2="torn"), {1: "kept", 2: "torn"}),
        (["begin 1", "rollback 1"], found(), {1: "absent"}),
        (["begin 1", "rollback 1"], found(t1="found"), {1: "resurrected"}),
        (["begin 1", "rollback 1"], found(t1="torn"), {1: "torn"}),
        (ONE, found(t1="found", t2="found"), {1: "kept", 2: "landed"}),  # its line was on its way
        (ONE, found(t1="found", t3="found"), {1: "kept", 3: "resurrected"}),
        ([], found(t1="found"), {1: "landed"}),
    ],
)
def test_a_transaction_s_fate(words, states, expected):
    assert fates(words, states) == expected


def test_what_is_broken_is_named_and_what_had_only_begun_breaks_nothing():
    cut = transactions.check(log(*ONE, "begin 2", "commit 2", "begin 3", "cut"), found(t2="found"), "app")
    assert [str(one) for one in cut.violations] == ["transaction 1 of app: lost"]
    assert (cut.promised, cut.in_flight) == ({"lost": 1, "kept": 1}, {"absent": 1})
    assert (cut.flushes, cut.phase, cut.checkable) == (2, "flush", True)


def test_a_torn_transaction_in_flight_breaks_the_promise_of_all_or_nothing():
    cut = transactions.check(log(*ONE, "begin 2", "cut"), found(t1="found", t2="torn"), "app")
    assert [(v.what, v.promised_by) for v in cut.violations] == [("torn", 0)]


def test_a_cut_before_anything_was_acknowledged_says_nothing():
    cut = transactions.check(log("begin 1", "cut"), found(), "app")
    assert not cut.checkable
    assert verdict.from_cuts("app", [cut]).cuts == 0


def test_a_store_that_cannot_be_read_has_lost_everything_and_says_why():
    text = '{"application": 1, "error": "file is not a database"}\n'
    cut = transactions.check(log(*ONE), transactions.parse(text), "app")
    assert [v.what for v in cut.violations] == ["lost"]
    assert cut.beyond == {"the store cannot be read: file is not a database": 1}


def test_a_file_system_that_is_lost_has_no_survey():
    assert transactions.parse("") == Found()


def test_a_survey_is_read():
    lines = [{"application": 0}, {"transaction": 3, "state": "found"}, {"transaction": 4, "state": "torn"}]
    read = transactions.parse("\n".join(map(json.dumps, lines)))
    assert read == found(t3="found", t4="torn")


@pytest.mark.parametrize("text", ["{", '{"transaction": 1, "state": "gone"}', '{"state": "found"}'])
def test_what_is_no_survey_is_refused(text):
    with pytest.raises(SurveyError, match="survey: "):
        transactions.parse(text)


def test_the_verdict_counts_what_was_broken_by_kind():
    lost = transactions.check(log(*ONE), found(), "app")
    torn = transactions.check(log(*ONE), found(t1="torn"), "app")
    seen = verdict.from_cuts("app", [lost, lost, torn])
    assert (seen.cuts, seen.broken_cuts, seen.broken_by_fate) == (3, 3, {"lost": 2, "torn": 1})


def test_transactions_after_the_first_are_what_the_energy_is_divided_by():
    done = durable.durable_writes(
        log(*ONE, "begin 2", "commit 2", "begin 3", "rollback 3", "begin 4", "commit 4")
    )
    assert (done.writes, done.bytes, done.unit) == (2, 0, "durable transaction")
    assert done.end_ns - done.start_ns == 6 * 10**6
    assert done.performance.unit == "durable transaction"


def test_a_rolled_back_transaction_is_not_in_flight():
    assert witness_log.phase(log(*ONE, "begin 2", "rollback 2")) == "idle"
    assert witness_log.phase(log(*ONE, "begin 2")) == "flush"


def test_every_fate_is_judged_broken_or_not():
    assert set(transactions.BROKEN) == {
        TransactionFate.LOST, TransactionFate.TORN, TransactionFate.RESURRECTED,
    }  # fmt: skip
