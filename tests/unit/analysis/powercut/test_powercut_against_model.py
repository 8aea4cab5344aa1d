# SPDX-License-Identifier: GPL-3.0-or-later
"""The checker against a drive model that knows what it lost, over many seeds."""

from __future__ import annotations

import pytest

from tests.support.powercut_drive import KINDS, ModelDrive

SEEDS = range(400)


@pytest.mark.parametrize("kind", KINDS)
def test_every_broken_promise_is_named_and_no_other(kind):
    for seed in SEEDS:
        drive = ModelDrive(seed, kind)
        found = drive.run()
        findings = drive.story.findings_after(found)
        assert {v.sequence for v in findings.violations} == drive.lost_promises, f"seed {seed}"


def test_an_honest_drive_loses_something_unflushed_and_a_lying_one_something_promised():
    """That the test above compares sets that are not always empty."""
    lost = dict.fromkeys(KINDS, 0)
    unflushed = dict.fromkeys(KINDS, 0)
    for kind in KINDS:
        for seed in SEEDS:
            drive = ModelDrive(seed, kind)
            findings = drive.story.findings_after(drive.run())
            lost[kind] += bool(findings.violations)
            unflushed[kind] += any(fate not in ("kept", "superseded") for fate in findings.acknowledged)
    assert lost["honest"] == lost["plp"] == unflushed["plp"] == 0
    assert lost["lying"] > len(SEEDS) / 2
    assert unflushed["honest"] > len(SEEDS) / 4


def test_reordering_is_seen_only_where_a_cache_does_not_keep_the_order():
    reordered = 0
    for seed in SEEDS:
        drive = ModelDrive(seed, "honest")
        reordered += drive.story.findings_after(drive.run()).reordered
        drive = ModelDrive(seed, "plp")
        assert drive.story.findings_after(drive.run()).reordered == 0, f"seed {seed}"
    assert reordered > 0
