# SPDX-License-Identifier: GPL-3.0-or-later
"""The checker on power cuts of a bare drive, case by case."""

from __future__ import annotations

import pytest

from joulerig.analysis.powercut import witness_log
from joulerig.analysis.powercut.check import check
from joulerig.analysis.powercut.durable import durable_writes
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


def test_a_sector_of_a_write_at_another_place_of_it_is_corrupt(story):
    write = story.write(0, 2)
    story.flush()
    exchanged = [story.sector(write, 1), story.sector(write, 0)]
    findings = story.findings_after(Surveyed(2 * SECTOR_BYTES, "", exchanged))
    assert broken(findings) == [("corrupt", write)]
    assert findings.violations[0].harmed_sectors == 2


def test_zeros_on_a_drive_that_held_something_are_no_content_of_before(story):
    before = Sector("foreign", crc32c=1)
    write = story.write(0)
    story.flush()
    after = Surveyed(SECTOR_BYTES, "", [ZERO])
    assert broken(story.findings_after(after, Surveyed(SECTOR_BYTES, "", [before]))) == [("corrupt", write)]


def test_sectors_that_are_missing_at_the_end_are_changed_at_rest(story):
    write = story.write(0)
    story.flush()
    before = Surveyed(3 * SECTOR_BYTES, "", [ZERO, ZERO, Sector("foreign", crc32c=2)])
    findings = story.findings_after(Surveyed(SECTOR_BYTES, "", [story.sector(write, 0)]), before)
    assert broken(findings) == [("changed at rest", 0)]
    assert (findings.violations[0].offset, findings.violations[0].harmed_sectors) == (SECTOR_BYTES, 2)


def test_content_of_an_earlier_cut_with_an_unknown_number_is_corrupt_and_not_unreported(story):
    write = story.write(0)
    story.flush()
    older = Sector("record", GENERATION - 1, 99, 0, 1)
    findings = story.findings_after(Surveyed(SECTOR_BYTES, "", [older]))
    assert broken(findings) == [("corrupt", write)]
    assert findings.unreported_sectors == 0


def test_falling_back_to_the_promise_before_the_last_one_is_a_loss_and_not_stale(story):
    first = story.write(0)
    story.flush()
    second = story.write(0)
    story.flush()
    assert broken(story.findings_after(story.drive(2, s0=first))) == [("lost", second)]


def test_a_promised_write_that_is_lost_is_not_counted_as_reordered(story):
    story.write(0)
    story.flush()
    later = story.write(1)
    findings = story.findings_after(story.drive(2, s1=later))
    assert findings.reordered == 0
    assert findings.violations[0].reordered


def test_a_flush_of_one_file_promises_no_other_one(story):
    for name in ("a", "b"):
        story.create(name)
    story.flush_names()
    one, _ = story.write(0, 1, "a"), story.write(0, 1, "b")
    story.flush("a")
    assert set(witness_log.promises(story.log)) == {one}


def test_a_write_to_a_file_is_promised_by_the_later_of_its_flush_and_its_names(story):
    story.create("a")
    write = story.write(0, 1, "a")
    story.flush("a")
    assert witness_log.promises(story.log) == {}
    names = story.flush_names()
    assert witness_log.promises(story.log)[write].sequence == names
    later = story.write(1, 1, "a")
    flush = story.flush("a")
    assert witness_log.promises(story.log)[later].sequence == flush


@pytest.mark.parametrize("fsync_flushes", [True, False])
def test_without_a_flush_of_the_cache_a_loss_is_no_broken_promise_but_damage_is(story, fsync_flushes):
    lost, damaged = story.write(0), story.write(1)
    story.flush()
    cells = [ZERO, Sector("damaged", crc32c=1)]
    found, before = {"": Surveyed(2 * SECTOR_BYTES, "", cells)}, {"": story.drive(2)}
    findings = check(story.log, found, before, fsync_flushes=fsync_flushes)
    expected = [("corrupt", damaged)] if not fsync_flushes else [("lost", lost), ("corrupt", damaged)]
    assert broken(findings) == expected
    assert findings.beyond == ({} if fsync_flushes else {"fsynced, lost in the drive's cache": 1})


def test_flushes_of_data_and_names_and_durable_writes_are_at_risk(story):
    story.create("a")
    story.write(0, 1, "a")
    story.flush("a")
    story.flush_names()
    story.durable_write(1, 1, "a")
    story.issue("flush", "a")
    assert check(story.log, {}, {}).flushes == 3


def test_durable_writes_are_those_after_the_first_promise_and_their_bytes():
    story = Story()
    story.write(0, 4)
    story.flush()
    story.write(4, 2)
    story.write(6, 1)
    story.flush()
    story.write(7, 1)
    done = durable_writes(story.log)
    assert (done.writes, done.bytes) == (2, 3 * SECTOR_BYTES)
    first, last = (o.acknowledged_utc_ns for o in story.log.acknowledged("flush"))
    assert (done.start_ns, done.end_ns) == (first, last)
    assert done.joules_per_write(6.0) == 3.0
    seconds = (last - first) / 1e9
    assert done.performance.mb_per_second == pytest.approx(3 * SECTOR_BYTES / 1e6 / seconds)
    assert done.performance.ops_per_second == pytest.approx(2 / seconds)


def test_one_promise_spans_no_time(story):
    story.durable_write(0)
    assert durable_writes(story.log).writes == 0
