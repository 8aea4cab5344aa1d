# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile text in what instruments report of themselves, and what `rig meters` makes of it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import typer
import yaml

from joulerig.rig.cli import main
from joulerig.rig.common import bounded, yaml_text
from joulerig.rig.lab.meters import source
from tests.support import hostile_text

ROOT_COMMAND = typer.main.get_command(main.app)
COMMANDS = (
    ("scan",),
    ("scan", "--json"),
    ("scan", "--driver", "hameg-hmo", "--connection", "tcp-raw/192.0.2.9/5025"),
    ("list",),
    ("show", "tap1"),
    ("check", "tap1"),
    ("watch", "tap1", "--count", "1"),
)


def stand_in(folder: Path, text: str, code: int) -> Path:
    """Return a program in place of srcap and capturers, which reports this text."""
    found = dict.fromkeys(("driver", "vendor", "model", "version", "serial", "connection"), text)
    reply = [{**found, "channels": [{"name": text, "type": "analog", "index": 0}]}]
    (folder / "reply").write_text(json.dumps(reply))
    (folder / "error").write_text(f"srcap: {text}")
    path = folder / "program"
    path.write_text(f"#!/bin/sh\ncat {folder}/reply\ncat {folder}/error >&2\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("code", [0, 1, source.NOT_FOUND])
@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_no_command_evaluates_what_an_instrument_reports(
    kind, code, tmp_path, lab_files, monkeypatch, capsys
):
    text = hostile_text.NAMES[kind]
    monkeypatch.setenv("JOULERIG_INVENTORY", str(lab_files.write()))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "app", ROOT_COMMAND)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    program = str(stand_in(tmp_path, text, code))
    monkeypatch.setattr(source, "_srcap", lambda: program)
    monkeypatch.setattr("sys.executable", program)
    shown = ""
    for words in COMMANDS:
        monkeypatch.setattr("sys.argv", ["rig", "meters", *words])
        with pytest.raises(SystemExit):
            main.main()
        output, errors = capsys.readouterr()
        assert bounded.printable(output + errors, keep="\n") == output + errors, words
        assert hostile_text.evaluated(output + errors) == [], words
        shown += output + errors
    assert bounded.printable(text.splitlines()[-1])[:6] in shown
    assert hostile_text.executed(tmp_path) == []


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_an_instrument_in_a_file_of_the_rig_is_data_to_it(kind, tmp_path):
    """A calibration and a check keep what the instrument reported."""
    text = hostile_text.NAMES[kind]
    (tmp_path / "x.yml").write_text(yaml.safe_dump({"instrument": {"serial": text, text: text}}))
    assert yaml_text.read(tmp_path / "x.yml") == {"instrument": {"serial": text, text: text}}
