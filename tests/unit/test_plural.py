# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts agree with their nouns, and no source writes a plural after a count by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.plural import counted
from tests.support import ROOT, python_sources

FOLDERS = ("analysis", "ansible/action_plugins", "rig", "virtuallab", "tools")
FILES = python_sources(*FOLDERS)
# "1 others" and "1 members": counts that are two or more where the text is shown.
NEVER_ONE = {
    "analysis/report/answer.py": "others",
    "analysis/bundle/archive.py": "files folders",
    "analysis/powercut/survey.py": "sectors",
    "analysis/energy/interval.py": "points",
    "rig/common/yaml_text.py": "digits",
    "tools/imports.py": "modules arrows",
}


@pytest.mark.parametrize(
    ("count", "nouns", "text"),
    [
        (1, ("run",), "1 run"),
        (0, ("run",), "0 runs"),
        (2, ("power point",), "2 power points"),
        (1.0, ("hour",), "1 hour"),
        (0.5, ("hour",), "0.5 hours"),
        (3, ("process",), "3 processes"),
        (3, ("flush",), "3 flushes"),
        (3, ("query",), "3 queries"),
        (3, ("array",), "3 arrays"),
        (1, ("phase and rail", "phases and rails"), "1 phase and rail"),
        (2, ("phase and rail", "phases and rails"), "2 phases and rails"),
        (1234567890123456789, ("byte",), "1234567890123456789 bytes"),
    ],
)
def test_a_noun_has_the_number_of_its_count(count: float, nouns: tuple[str, ...], text: str) -> None:
    assert counted(count, *nouns) == text


def plurals_by_hand(path: Path) -> Iterator[str]:
    """Yield where a text has a plural right after the length of something."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            counts = isinstance(value.value, ast.Call) and getattr(value.value.func, "id", "") == "len"
            if counts and (noun := re.match(r" (?!is|was|has)([a-z]+s)\b", str(after.value))):
                yield f"{path}:{node.lineno}: {noun[1]}"


def test_no_plural_is_written_after_a_length() -> None:
    found = [
        line
        for path in FILES
        for line in plurals_by_hand(path)
        if line.rpartition(" ")[2] not in NEVER_ONE.get(path.relative_to(ROOT).as_posix(), "").split()
    ]
    assert found == []


def test_the_search_finds_such_a_plural(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("text = f'{len(runs)} runs'")
    assert list(plurals_by_hand(tmp_path / "one.py"))
