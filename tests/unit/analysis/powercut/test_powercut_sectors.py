# SPDX-License-Identifier: GPL-3.0-or-later
"""The checker on power cuts of a bare drive, case by case."""

from __future__ import annotations

import pytest

from joulerig.analysis.powercut.survey import SECTOR_BYTES, ZERO, Sector, Surveyed
from tests.support.powercut_story import GENERATION, Story, broken


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_flushed_write_that_is_present_is_kept(story):
    write = story.write(0, 2)
    story.flush()
    findings = story.findings_after(story.drive(4, s0=write, s1=write))
    assert broken(findings) == []
    assert findings.promised == {"kept": 1}
    assert findings.phase == "idle"


def test_a_flushed_write_that_is_not_there_is_a_broken_promise_by_name(story):
    write = story.write(1)
    flush = story.flush()
    findings = story.findings_after(story.drive(4))
    assert broken(findings) == [("lost", write)]
    assert findings.violations[0].promised_by == flush
    assert findings.violations[0].offset == SECTOR_BYTES


def test_an_unflushed_write_may_be_lost(story):
    kept = story.write(0)
    story.flush()
    story.write(1)
    findings = story.findings_after(story.drive(4, s0=kept))
    assert broken(findings) == []
    assert findings.acknowledged == {"lost": 1}
    assert findings.phase == "between"


def test_a_flush_covers_only_what_was_acknowledged_before_it_was_issued(story):
    write = story.issue("write", "", 0, 1)
    flush = story.issue("flush")
    story.acknowledge(write)
    story.acknowledge(flush)
    assert broken(story.findings_after(story.drive(2))) == []


def test_a_flush_that_was_not_acknowledged_promises_nothing(story):
    story.write(0)
    story.issue("flush")
    findings = story.findings_after(story.drive(2))
    assert broken(findings) == []
    assert findings.phase == "flush"
    assert not findings.checkable


def test_a_durable_write_is_promised_by_its_own_acknowledgement(story):
    write = story.durable_write(0)
    findings = story.findings_after(story.drive(2))
    assert broken(findings) == [("lost", write)]
    assert findings.violations[0].promised_by == write


def test_a_durable_write_does_not_cover_others(story):
    story.write(0)
    durable = story.durable_write(1)
    assert broken(story.findings_after(story.drive(2, s1=durable))) == []


def test_a_promised_write_with_some_sectors_missing_is_torn(story):
    write = story.write(0, 3)
    story.flush()
    findings = story.findings_after(story.drive(4, s0=write, s2=write))
    assert broken(findings) == [("torn", write)]
    assert findings.violations[0].harmed_sectors == 1


def test_an_unflushed_torn_write_is_counted_and_allowed(story):
    story.write(0, 2)
    story.flush()
    torn = story.write(4, 2)
    findings = story.findings_after(story.drive(8, s0=1, s1=1, s5=torn))
    assert broken(findings) == []
    assert findings.acknowledged == {"torn": 1}


def test_a_later_write_over_a_promised_one_is_not_a_loss(story):
    story.write(0)
    story.flush()
    later = story.write(0)
    findings = story.findings_after(story.drive(2, s0=later))
    assert broken(findings) == []
    assert findings.acknowledged == {"kept": 1}


def test_a_write_in_flight_may_be_in_the_place_of_a_promised_one(story):
    promised = story.write(0, 2)
    story.flush()
    flying = story.issue("write", "", 0, 2)
    findings = story.findings_after(story.drive(2, s0=flying, s1=promised))
    assert broken(findings) == []
    assert findings.in_flight == {"torn": 1}
    assert findings.phase == "write"


def test_an_unflushed_write_lost_falls_back_to_the_promised_one(story):
    promised = story.write(0)
    story.flush()
    story.write(0)
    findings = story.findings_after(story.drive(2, s0=promised))
    assert broken(findings) == []
    assert findings.promised == {"kept": 1}
    assert findings.acknowledged == {"lost": 1}


def test_falling_back_behind_the_promised_write_is_a_loss_of_it_alone(story):
    first = story.write(0)
    second = story.write(0)
    story.flush()
    findings = story.findings_after(story.drive(2, s0=first))
    assert broken(findings) == [("lost", second)]
    assert findings.promised == {"superseded": 1, "lost": 1}


def test_falling_back_behind_several_promises_is_stale(story):
    story.write(0)
    story.flush()
    second = story.write(0)
    story.flush()
    assert broken(story.findings_after(story.drive(2))) == [("stale", second)]


def test_a_lost_write_with_a_later_survivor_is_reordered(story):
    story.write(0)
    story.flush()
    story.write(1)
    later = story.write(2)
    findings = story.findings_after(story.drive(4, s0=1, s2=later))
    assert broken(findings) == []
    assert findings.reordered == 1


def test_writes_that_were_in_flight_together_have_no_order(story):
    one, other = story.issue("write", "", 0, 1), story.issue("write", "", 1, 1)
    story.acknowledge(one)
    story.acknowledge(other)
    assert story.findings_after(story.drive(4, s1=other)).reordered == 0


@pytest.mark.parametrize("state", ["damaged", "foreign", "misplaced"])
def test_what_was_never_written_there_is_corrupt(story, state):
    write = story.write(0)
    story.flush()
    found = Surveyed(SECTOR_BYTES, "", [Sector(state, crc32c=1)])
    assert broken(story.findings_after(found)) == [("corrupt", write)]


def test_a_corrupt_sector_under_a_write_in_flight_still_breaks_the_promise_that_it_had(story):
    write = story.write(0)
    story.flush()
    story.issue("write", "", 0, 1)
    found = Surveyed(SECTOR_BYTES, "", [Sector("damaged", crc32c=1)])
    assert broken(story.findings_after(found)) == [("corrupt", write)]


def test_a_corrupt_sector_that_was_never_promised_is_counted(story):
    story.write(0)
    findings = story.findings_after(Surveyed(SECTOR_BYTES, "", [Sector("damaged", crc32c=1)]))
    assert broken(findings) == []
    assert findings.acknowledged == {"corrupt": 1}


def test_content_of_an_earlier_cut_that_was_there_before_is_what_was_before(story):
    older = Sector("record", GENERATION - 1, 7, 0, 1)
    story.write(0)
    findings = story.findings_after(Surveyed(SECTOR_BYTES, "", [older]), Surveyed(SECTOR_BYTES, "", [older]))
    assert findings.acknowledged == {"lost": 1}


def test_content_of_an_earlier_cut_that_was_not_there_before_is_corrupt(story):
    write = story.write(0)
    story.flush()
    older = Sector("record", GENERATION - 1, 7, 0, 1)
    assert broken(story.findings_after(Surveyed(SECTOR_BYTES, "", [older]))) == [("corrupt", write)]


def test_data_at_rest_must_stay_as_they_were(story):
    write = story.write(0)
    story.flush()
    cells = [story.sector(write, 0), ZERO, Sector("foreign", crc32c=2)]
    findings = story.findings_after(Surveyed(3 * SECTOR_BYTES, "", cells))
    assert broken(findings) == [("changed at rest", 0)]
    assert findings.violations[0].offset == 2 * SECTOR_BYTES


@pytest.mark.parametrize("sequence", [2, 99])
def test_a_write_whose_issue_was_never_reported_is_not_damage(story, sequence):
    """Writes issued together may be reported in another order than that of their numbers."""
    story.write(0)
    story.skip()
    story.flush()
    unreported = Sector("record", GENERATION, sequence, 0, 1)
    findings = story.findings_after(Surveyed(SECTOR_BYTES, "", [unreported]))
    assert broken(findings) == []
    assert findings.unreported_sectors == 1


def test_a_write_of_this_cut_in_a_place_that_it_was_not_for_is_corrupt(story):
    write = story.write(0)
    other = story.write(1)
    story.flush()
    cells = [Sector("record", GENERATION, other, 0, 1), story.sector(other, 1)]
    assert broken(story.findings_after(Surveyed(2 * SECTOR_BYTES, "", cells))) == [("corrupt", write)]
