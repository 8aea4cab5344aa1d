# SPDX-License-Identifier: GPL-3.0-or-later
"""The checker on power cuts of a file system: names, renames, sizes."""

from __future__ import annotations

import pytest

from joulerig.analysis.powercut.check import check
from joulerig.analysis.powercut.survey import SECTOR_BYTES, ZERO, Sector, Survey, Surveyed
from tests.support.powercut_story import Story, broken


@pytest.fixture
def story() -> Story:
    return Story()


def file_of(story: Story, sequence: int, sectors: int) -> Surveyed:
    """A file that is one write, whole."""
    return Surveyed(sectors * SECTOR_BYTES, "", [story.sector(sequence, n) for n in range(sectors)])


def version(story: Story, sectors: int = 2) -> int:
    """The next version, up to its flush."""
    story.create("next")
    write = story.write(0, sectors, "next")
    story.flush("next")
    return write


def replaced(story: Story, sectors: int = 2) -> int:
    """A version whose replacement was promised."""
    write = version(story, sectors)
    story.rename(write)
    story.flush_names()
    return write


def findings_after(story: Story, found: Survey, **options: bool):
    return check(story.log, found, {}, **options)


def test_a_flushed_append_must_be_there(story):
    story.create("append")
    story.flush_names()
    first = story.write(0, 1, "append")
    story.flush("append")
    story.write(1, 1, "append")
    findings = findings_after(story, {"append": file_of(story, first, 1)})
    assert broken(findings) == []
    assert findings.acknowledged == {"lost": 1}


def test_a_file_that_ends_before_a_flushed_append_has_lost_it(story):
    story.create("append")
    story.flush_names()
    write = story.write(0, 2, "append")
    story.flush("append")
    short = Surveyed(SECTOR_BYTES, "", [story.sector(write, 0)])
    assert broken(findings_after(story, {"append": short})) == [("torn", write)]


def test_zeros_in_the_place_of_flushed_data_are_a_loss(story):
    story.create("append")
    story.flush_names()
    write = story.write(0, 1, "append")
    story.flush("append")
    assert broken(findings_after(story, {"append": Surveyed(SECTOR_BYTES, "", [ZERO])})) == [("lost", write)]


def test_the_flush_of_one_file_promises_nothing_of_another(story):
    story.create("append")
    story.create("unflushed")
    story.flush_names()
    story.write(0, 1, "unflushed")
    story.flush("append")
    empty = {"append": Surveyed(0), "unflushed": Surveyed(0)}
    assert broken(findings_after(story, empty)) == []


def test_a_promised_name_must_be_there(story):
    create = story.create("overwrite")
    flush = story.flush_names()
    findings = findings_after(story, {})
    assert broken(findings) == [("missing", create)]
    assert findings.violations[0].promised_by == flush


def test_what_is_flushed_in_a_file_whose_name_is_not_promised_is_not_promised(story):
    story.create("overwrite")
    story.write(0, 1, "overwrite")
    story.flush("overwrite")
    findings = findings_after(story, {})
    assert broken(findings) == []
    assert findings.beyond == {"missing, not promised": 1}


def test_a_promised_file_that_cannot_be_read_breaks_the_promise(story):
    create = story.create("overwrite")
    story.flush_names()
    found = {"overwrite": Surveyed(0, "Structure needs cleaning")}
    assert ("unreadable", create) in broken(findings_after(story, found))


def test_the_promised_version_or_any_later_one_may_be_found(story):
    first = replaced(story)
    second = version(story)
    story.rename(second)
    for shown in (first, second):
        assert broken(findings_after(story, {"current": file_of(story, shown, 2)})) == []


def test_a_version_in_flight_may_be_found(story):
    replaced(story)
    second = version(story)
    story.issue("rename", "current", version=second, **{"from": "next"})
    assert broken(findings_after(story, {"current": file_of(story, second, 2)})) == []


def test_an_older_version_than_the_promised_one_is_a_lost_rename(story):
    first = replaced(story)
    replaced(story)
    rename = next(o.sequence for o in reversed(story.log.operations) if o.operation == "rename")
    assert broken(findings_after(story, {"current": file_of(story, first, 2)})) == [("rename lost", rename)]


def test_neither_version_is_a_broken_promise(story):
    replaced(story)
    version(story)
    assert [what for what, _ in broken(findings_after(story, {}))] == ["missing"]


def test_a_version_that_is_not_whole_is_a_broken_promise(story):
    write = replaced(story, 3)
    whole = file_of(story, write, 3)
    for cells in (
        whole.sectors[:2],
        [*whole.sectors[:2], ZERO],
        [whole.sectors[0], Sector("damaged"), whole.sectors[2]],
        [],
    ):
        found = {"current": Surveyed(len(cells) * SECTOR_BYTES, "", cells)}
        assert [what for what, _ in broken(findings_after(story, found))] == ["mixed"]


def test_two_names_for_one_version_is_a_rename_half_done(story):
    write = replaced(story)
    both = {"current": file_of(story, write, 2), "next": file_of(story, write, 2)}
    assert [what for what, _ in broken(findings_after(story, both))] == ["both names"]


def test_a_file_system_that_promises_no_whole_renames_may_leave_one_half_done(story):
    write = replaced(story)
    both = {"current": file_of(story, write, 2), "next": file_of(story, write, 2)}
    findings = findings_after(story, both, atomic_rename=False)
    assert broken(findings) == []
    assert findings.beyond == {"both names": 1}


def test_before_the_first_flush_of_the_folder_a_rename_may_be_gone_with_both_names(story):
    story.rename(version(story))
    findings = findings_after(story, {})
    assert broken(findings) == []
    assert findings.beyond == {"neither name": 1}


def test_a_file_system_whose_fsync_does_not_flush_the_drive_has_what_is_lost_there_counted(story):
    story.create("overwrite")
    story.flush_names()
    older = story.write(0, 1, "overwrite")
    story.flush("overwrite")
    story.write(0, 1, "overwrite")
    story.flush("overwrite")
    first = replaced(story)
    replaced(story)
    found = {"overwrite": file_of(story, older, 1), "current": file_of(story, first, 2)}
    assert len(findings_after(story, found).violations) == 2
    findings = findings_after(story, found, fsync_flushes=False)
    assert broken(findings) == []
    assert findings.beyond == {"fsynced, lost in the drive's cache": 2}


def test_what_such_a_file_system_damages_still_breaks_its_promise(story):
    story.create("overwrite")
    story.flush_names()
    write = story.write(0, 1, "overwrite")
    story.flush("overwrite")
    found = {"overwrite": Surveyed(SECTOR_BYTES, "", [Sector("damaged")])}
    assert broken(findings_after(story, found, fsync_flushes=False)) == [("corrupt", write)]
