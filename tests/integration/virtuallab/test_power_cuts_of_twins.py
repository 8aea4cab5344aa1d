# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts at the twins' interface: the checker's findings against the twins' truth.

JOULERIG_POWER_CUTS is the number of cuts of each profile (make test-powercut: 20, which makes 100,
and half as many of each lie).
"""

from __future__ import annotations

import os

import pytest

from joulerig.analysis.powercut import folder
from joulerig.analysis.powercut.witness_log import promises
from joulerig.rig.campaign import opening
from joulerig.rig.campaign.powercut.executor import PowerCutExecutor
from joulerig.rig.common import paths
from joulerig.virtuallab import profile
from joulerig.virtuallab.standalone_twin import StandaloneTwin
from tests.support.twin_host import TwinHost, power_cut_lab

CUTS = int(os.environ.get("JOULERIG_POWER_CUTS", "2"))
LYING_CUTS = max(1, CUTS // 2)
VOLATILE = [name for name in profile.names() if not profile.load(name).plp]
PROTECTED = [name for name in profile.names() if profile.load(name).plp]
LIAR = "sata-consumer"  # ready soon after a cut; an HDD has to spin up
DRIVE_BYTES = 64 << 20

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def cuts_of(state, lab_files, services_up):
    """cuts_of(PROFILE, CUTS, *OPTIONS): the verdict, the cuts, what the twin says that it lost."""
    journals = []

    def executed(name, cuts, *options):
        with StandaloneTwin(name, DRIVE_BYTES, list(options)) as twin:
            lab = power_cut_lab(lab_files, twin)
            mapping = {
                "kind": "power-cut",
                "name": name,
                "question": "Does it keep its word?",
                "subjects": [{"drive": "fast"}],
                "cuts": cuts,
                "seed": 7,
                "off_seconds": 0.01,
            }
            journals.append(opening.open_campaign(mapping, lab, "test"))
            host = TwinHost(twin)
            campaign = opening.OpenPowerCuts.load(journals[-1], lab)
            assert PowerCutExecutor(campaign, "bench1", host, switch=host.switch).execute() == cuts
        found = folder.load(journals[-1].folder)
        (subject,) = found.subjects
        assert found.failed == {subject.name: []}
        done = found.cuts[subject.name]
        assert len(done) == cuts
        return found.verdicts()[subject.name], done, host.lost

    yield executed
    for journal in journals:
        journal.close()


def harmed(counts):
    return sum(count for fate, count in counts.items() if fate not in ("kept", "superseded"))


def check_against_truth(cut, truth):
    """Check that the checker found what the twin says that it lost, as far as it can be seen."""
    findings = cut.findings
    if truth["lost_sectors"] == 0:
        assert harmed(findings.promised) + harmed(findings.acknowledged) == 0
    elif not findings.in_flight:
        assert harmed(findings.promised) + harmed(findings.acknowledged) > 0


@pytest.mark.parametrize("name", PROTECTED)
def test_a_drive_with_power_loss_protection_loses_nothing(cuts_of, name):
    verdict, cuts, truths = cuts_of(name, CUTS)
    assert verdict.broken_cuts == 0
    for cut, truth in zip(cuts, truths, strict=True):
        assert harmed(cut.findings.acknowledged) == 0
        assert truth["held_up"]
        check_against_truth(cut, truth)


@pytest.mark.long
@pytest.mark.parametrize("name", VOLATILE)
def test_a_drive_without_loses_nothing_but_what_was_not_flushed(cuts_of, name):
    verdict, cuts, truths = cuts_of(name, CUTS)
    assert verdict.broken_cuts == 0
    assert verdict.promised_writes > 0
    for cut, truth in zip(cuts, truths, strict=True):
        assert not truth["held_up"]
        check_against_truth(cut, truth)


@pytest.mark.parametrize("mode", ["all", "random", "torn", "reordered"])
def test_a_drive_that_lies_about_flushes_is_caught_at_every_cut(cuts_of, mode):
    verdict, cuts, truths = cuts_of(LIAR, LYING_CUTS, "lie=flush", f"cut_mode={mode}")
    assert verdict.broken_cuts == LYING_CUTS
    for cut, truth in zip(cuts, truths, strict=True):
        assert truth["lost_sectors"] > 0
        promised = promises(cut.log)
        for violation in cut.findings.violations:
            assert promised[violation.sequence].sequence == violation.promised_by


def test_a_lying_drive_that_loses_everything_has_every_visible_promise_named(cuts_of):
    # A cache that never gets full nor empties itself: nothing is durable but by the flushes it
    # ignores.
    options = ("lie=flush", "cut_mode=all", "destage=0", f"write_cache={1 << 30}")
    _, cuts, _ = cuts_of(LIAR, LYING_CUTS, *options)
    for cut in cuts:
        kept = [v.sequence for v in cut.findings.violations]
        superseded = cut.findings.promised.get("superseded", 0)
        assert len(kept) + superseded == len(promises(cut.log))


def test_the_state_of_the_checkout_is_left_clean(cuts_of):
    cuts_of(LIAR, 1)
    assert list(paths.run().iterdir()) == []
