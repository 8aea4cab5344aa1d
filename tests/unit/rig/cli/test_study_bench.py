# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make studies` asks of the rig: words that `rig run` takes."""

from pathlib import Path

import pytest
import typer.main

from joulerig.rig.cli.main import app
from tests.bench import studies


@pytest.mark.parametrize("begun", [None, "f2fs-supercap-short-20261126-182356"])
def test_rig_run_takes_its_words(begun):
    name, *rest = studies.words(Path("playbooks/f2fs_supercap.yml"), begun)
    command = typer.main.get_command(app).commands[name]
    values = command.make_context(name, rest).params
    assert values == {"playbook": Path("playbooks/f2fs_supercap.yml"), "resume": begun, "short": True}
