# SPDX-License-Identifier: GPL-3.0-or-later
"""Each command gets hostile text in each of its parameters that takes text.

The table is the command line's own: a new command, or a new parameter, is in it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from joulerig.rig.cli import main
from joulerig.rig.common import bounded, paths
from tests.support import hostile_text

# They start or end processes of the lab, or serve until they are ended; none takes free text.
STARTERS = {"up", "down", "lab", "watch"}
ROOT_COMMAND = typer.main.get_command(main.app)


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, one in sorted(command.commands.items()):
            if name not in STARTERS:
                yield from commands(one, (*words, name))
    else:
        yield words, command


def is_text(one: Any) -> bool:
    return not getattr(one, "is_flag", False)


def arguments(command: Any, hostile: Any, text: str) -> list[str]:
    """The words after a command's name: `text` for one parameter, a plain one where required."""
    options, operands = [], []
    for one in command.params:
        value = text if one is hostile else ("x" if is_text(one) else "1")
        if one.param_type_name == "argument":
            if one is hostile or one.required:
                operands.append(value)
        elif one is hostile or one.required:
            options += [f"{one.opts[-1]}={value}"]
    return [*options, "--", *operands]


CASES = [
    pytest.param(words, command, one, id=f"{' '.join(words)} {one.name}")
    for words, command in commands(ROOT_COMMAND)
    for one in command.params
    if is_text(one) and one.name != "help"
]


def test_there_are_commands_and_parameters():
    assert len(CASES) > 40


@pytest.mark.parametrize(("words", "command", "parameter"), CASES)
def test_text_of_a_command_line_is_a_line_or_a_value_and_nothing_is_executed(
    words, command, parameter, tmp_path: Path, lab_files, monkeypatch, capsys
):
    monkeypatch.setenv("JOULERIG_INVENTORY", str(lab_files.write()))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "app", ROOT_COMMAND)  # which typer would build for each text
    for kind, text in hostile_text.texts(tmp_path).items():
        monkeypatch.setattr("sys.argv", ["rig", *words, *arguments(command, parameter, text)])
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with pytest.raises(SystemExit):
            main.main()
        output, errors = capsys.readouterr()
        if errors.startswith("rig: "):
            assert len(errors.splitlines()) == 1, (kind, errors)
        assert bounded.printable(output + errors, keep="\n") == output + errors, kind
        assert hostile_text.executed(tmp_path) == [], kind


# The folders and files that variables of the environment name.
VARIABLES = sorted(set(re.findall(r'environ.get\("(JOULERIG_\w+)"', Path(paths.__file__).read_text())))


def test_there_are_variables():
    assert {"JOULERIG_INVENTORY", "JOULERIG_RESULTS", "JOULERIG_VAR"} <= set(VARIABLES)


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_text_of_the_environment_is_a_path_or_a_line(
    variable, kind, tmp_path, lab_files, monkeypatch, capsys
):
    monkeypatch.setenv("JOULERIG_INVENTORY", str(lab_files.write()))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv(variable, hostile_text.NAMES[kind])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main, "app", ROOT_COMMAND)
    for words in (["status"], ["results"], ["meters", "list"], ["drives", "state"]):
        monkeypatch.setattr("sys.argv", ["rig", *words])
        with pytest.raises(SystemExit):
            main.main()
        output, errors = capsys.readouterr()
        assert bounded.printable(output + errors, keep="\n") == output + errors
        assert hostile_text.evaluated(output + errors) == []
    assert [name for name in hostile_text.executed(tmp_path) if name != "executed-path"] == []
