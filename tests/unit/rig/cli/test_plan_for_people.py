# SPDX-License-Identifier: GPL-3.0-or-later
"""What `rig plan` prints for people."""

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
