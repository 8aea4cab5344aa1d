# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts from before these had a journal: everything follows from logs and surveys."""

from __future__ import annotations

import json

import polars as pl
import pytest

from joulerig.analysis.powercut import folder, tables
from joulerig.analysis.results.campaign import ResultsError
from tests.support.powercut_story import Story

SECTORS = 8


def survey_of(found):
    lines = [{"target": "", "bytes": found.bytes}]
    for number, cell in enumerate(found.sectors):
        lines.append({"target": "", "offset": number * 512, "sectors": 1, **cell._asdict()})
    return "".join(json.dumps(line) + "\n" for line in lines)


class CutFolder:
    """A campaign's folder with one bare drive."""

    def __init__(self, place):
        self.place = place
        place.mkdir()
        subject = {"name": "drive", "host": "", "drive": "sata", "filesystem": "", "plp": False}
        manifest = {"version": 1, "id": "c", "campaign": "00" * 16, "virtual": True, "subjects": [subject]}
        (place / "powercut.json").write_text(json.dumps(manifest))
        self.cut(0, None, Story().drive(SECTORS))

    def cut(self, number, story, found, **record):
        one = self.place / "cuts" / "drive" / f"{number:04d}"
        one.mkdir(parents=True)
        if found is not None:
            (one / "after.jsonl").write_text(survey_of(found))
        if story is not None:
            (one / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in story.lines))
            (one / "cut.json").write_text(json.dumps({"aimed": "idle", **record}))


def kept():
    """A cut after which nothing is lost: two promises, one write under the second."""
    story = Story()
    first = story.write(0)
    story.flush()
    second = story.write(1, 2)
    story.flush()
    return story, story.drive(SECTORS, s0=first, s1=second, s2=second)


@pytest.fixture
def campaign(tmp_path):
    return CutFolder(tmp_path / "c")


def test_a_cut_is_held_against_what_the_cut_before_left(campaign):
    story, found = kept()
    campaign.cut(1, story, found)
    again = Story()
    again.write(7)
    again.flush()
    forgotten = again.drive(SECTORS, s7=1)
    campaign.cut(2, again, forgotten)
    loaded = folder.load(campaign.place)
    first, second = loaded.cuts["drive"]
    assert first.findings.violations == []
    assert [v.what for v in second.findings.violations] == ["changed at rest"]
    assert loaded.verdicts()["drive"].broken_cuts == 1


def test_energy_is_over_the_writes_promised_after_the_first_promise(campaign):
    story, found = kept()
    campaign.cut(1, story, found, joules=0.25)
    cut = folder.load(campaign.place).cuts["drive"][0]
    assert (cut.durable.writes, cut.durable.bytes) == (1, 1024)
    flushes = [o for o in cut.log.operations if o.operation == "flush"]
    assert (cut.durable.start_ns, cut.durable.end_ns) == tuple(f.acknowledged_utc_ns for f in flushes)
    assert tables.joules_per_durable_write([cut]) == 0.25


def test_true_joules_stand_in_only_where_nothing_was_measured(campaign):
    story, found = kept()
    campaign.cut(1, story, found, joules=None, true_joules=0.5)
    loaded = folder.load(campaign.place)
    assert tables.joules_per_durable_write(loaded.cuts["drive"]) == 0.5
    campaign.cut(2, *kept(), joules=0.25, true_joules=0.5)
    assert tables.joules_per_durable_write(folder.load(campaign.place).cuts["drive"]) == 0.25


def test_a_cut_that_could_not_be_checked_is_reported_and_counts_for_nothing(campaign):
    story, found = kept()
    campaign.cut(1, story, None, failed="the host did not come back")
    campaign.cut(2, story, found)
    loaded = folder.load(campaign.place)
    assert loaded.failed["drive"] == ["cut 1: the host did not come back"]
    assert loaded.verdicts()["drive"].cuts == 1


def test_the_tables_say_what_the_verdict_says(campaign):
    story = Story()
    lost = story.write(3)
    story.flush()
    campaign.cut(1, story, story.drive(SECTORS))
    loaded = folder.load(campaign.place)
    files = tables.write(loaded, campaign.place / "report")
    subjects, cuts, violations = (pl.read_csv(file) for file in files)
    assert subjects["broken_promises"].to_list() == [1]
    assert cuts["broken_promises"].to_list() == [1]
    assert (violations["sequence"].to_list(), violations["what"].to_list()) == ([lost], ["lost"])


@pytest.mark.parametrize(
    "spoil", ["powercut.json", "cuts/drive/0001/ledger.jsonl", "cuts/drive/0001/after.jsonl"]
)
def test_a_folder_that_is_spoilt_is_refused_by_the_name_of_the_file(campaign, spoil):
    campaign.cut(1, *kept())
    (campaign.place / spoil).write_text("{]\n")
    with pytest.raises(folder.PowerCutError, match=r"0001|powercut\.json"):
        folder.load(campaign.place)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(ResultsError, match="not the results folder of a campaign"):
        folder.load(tmp_path)
