# SPDX-License-Identifier: GPL-3.0-or-later
"""What `rig plan` prints for people."""

import re
from pathlib import Path

import pytest

from joulerig.rig.cli import run


@pytest.mark.parametrize(("playbook", "noted"), [("demo.yml", False), ("journal_placement.yml", True)])
def test_the_table_has_a_column_of_notes_only_where_runs_are_excluded(playbook, noted, capsys, monkeypatch):
    monkeypatch.delenv("JOULERIG_INVENTORY", raising=False)
    run.plan(Path(playbook))
    [head] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("┃ #")]
    columns = [column.strip() for column in head.strip("┃").split("┃")]
    assert all(columns)
    assert ("note" in columns) == noted


def test_what_it_takes_is_in_units_that_people_read(capsys, monkeypatch):
    monkeypatch.delenv("JOULERIG_INVENTORY", raising=False)
    run.plan(Path("demo.yml"))
    text = capsys.readouterr().out
    assert re.search(r"^time: about \d+ min \d+ s \(", text, re.MULTILINE)
    assert re.search(
        r"^written: at most [\d.]+ [GT]B; energy of the drives: at most [\d.]+ Wh$", text, re.MULTILINE
    )
