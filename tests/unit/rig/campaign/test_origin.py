# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller knows the campaigns that it opened by its own record, whatever a folder says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.rig.campaign import origin
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths
from tests.support.planned_runs import CAMPAIGN, row


@pytest.fixture
def journal(state: Path) -> Iterator[Journal]:
    statuses = ["ok", "failed", "lost", "planned", "running", "excluded"]
    rows = [
        {**row(number, status=status), "drive": f"drive-{number}"}
        for number, status in enumerate(statuses, 1)
    ]
    found = Journal.create(state / "results" / "study-1", CAMPAIGN, rows)
    yield found
    found.close()


def test_a_campaign_is_known_by_its_folder_and_playbook(journal, state, monkeypatch):
    monkeypatch.chdir(state)
    opened = Journal(Path("results/study-1"))
    origin.record(opened, Path("study.yml"))
    found = origin.find(journal, paths.var())
    assert (found.folder, found.playbook) == (state / "results/study-1", state / "study.yml")
    assert origin.folders() == [state / "results/study-1"]
    opened.close()


def test_a_copy_of_a_campaign_was_not_opened_here(journal, state):
    origin.record(journal, state / "study.yml")
    shutil.copytree(journal.folder, state / "copies" / "study-1")
    copy = Journal(state / "copies" / "study-1")
    assert origin.find(copy, paths.var()) is None
    assert origin.find(journal, paths.var()) is not None
    copy.close()


def test_another_campaign_of_the_same_id_was_not_opened_here(journal, state):
    origin.record(journal, state / "study.yml")
    journal._db.execute("UPDATE campaign SET created_ns = created_ns + 1")
    assert origin.find(journal, paths.var()) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "study-1"}'])
def test_a_record_that_cannot_be_read_is_none_and_hides_no_other(journal, state, text):
    origin.record(journal, state / "study.yml")
    folder = paths.var() / origin.FOLDER
    (folder / "a-damaged-one.json").write_text(text)
    assert origin.folders() == [journal.folder]
    (folder / "study-1.json").write_text(text)
    assert origin.find(journal, paths.var()) is None


def test_a_resumption_executes_what_is_planned_interrupted_or_lost(journal):
    text = origin.summary(journal)
    assert text.startswith("3 runs on h1: drives drive-3, drive-4, drive-5 wiped, file systems ext4")


def test_many_names_are_shown_in_part(state):
    rows = [{**row(number), "drive": f"d{number:02}"} for number in range(1, 14)]
    for count, shown in ((12, "d12 wiped"), (13, "d12 ... wiped")):
        journal = Journal.create(state / f"study-{count}", CAMPAIGN, rows[:count])
        assert shown in origin.summary(journal)
        journal.close()


def test_without_a_state_nothing_was_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "nowhere"))
    assert (origin.folders(), os.path.exists(tmp_path / "nowhere")) == ([], False)
