# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive that reports its own power is judged by its rails (analysis/audit)."""

import dataclasses

import pytest

from joulerig.analysis.audit.checks import Verdict
from joulerig.analysis.audit.findings import Finding
from tests.support.simulated_reports import TWINS, audit

HONEST = TWINS[0]


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_each_lie_is_found_and_no_truth_is_one(twin):
    found = audit(twin, seed=7)
    assert (found.verdict, found.finding) == (twin.verdict, twin.finding)


def test_a_drive_that_states_no_error_is_measured_and_not_accused():
    found = audit(dataclasses.replace(HONEST, error_percent=None, factor=1.1), seed=3)
    assert (found.verdict, found.finding) == (Verdict.NOT_STATED, Finding.NONE)
    assert all(check.ratio == pytest.approx(1.1, abs=0.03) for check in found.powers)


def test_a_drive_that_states_no_error_is_accused_of_what_no_error_explains():
    found = audit(dataclasses.replace(HONEST, error_percent=None, flaw="unit"), seed=3)
    assert (found.verdict, found.finding) == (Verdict.CONTRADICTED, Finding.UNIT)


def test_one_run_of_a_load_decides_nothing():
    found = audit(dataclasses.replace(HONEST, factor=1.05), seed=3, replicates=1)
    loads = [one for one in found.powers if one.condition != "idle"]
    assert {one.verdict for one in loads} == {Verdict.UNDECIDED}
    assert all(one.interval is None for one in loads)


def test_intervals_hold_the_factor_by_which_a_drive_is_off():
    inside = 0
    for seed in range(10):
        found = audit(dataclasses.replace(HONEST, factor=1.02), seed=seed, replicates=3)
        checks = [one for one in found.powers if one.quantity == "interval"]
        inside += sum(one.interval.low <= 1.02 <= one.interval.high for one in checks)
    assert inside >= 38  # of 40, at 95 %


def test_the_sentence_says_what_is_wrong_and_by_how_much():
    found = audit(TWINS[3], seed=7)
    assert found.sentence.startswith("contradicted: its report is off by one factor (-")
