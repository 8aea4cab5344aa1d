# SPDX-License-Identifier: GPL-3.0-or-later
"""A test waits for conditions. Where a time itself must pass, it has a name or a comment."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT

# "time.Sleep(20 * time.Millisecond)" and nothing after it
GO_SLEEP = re.compile(r"\btime\.Sleep\(([\d\s*]*time\.\w+|\d+)\)\s*$")


def bare_sleeps_of_python(text: str) -> Iterator[int]:
    """Yield the lines of `time.sleep` of a number, without a comment."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("time.sleep", "sleep")
            and node.args
            and not any(isinstance(part, ast.Name) for part in ast.walk(node.args[0]))
            and "#" not in lines[node.lineno - 1]
        ):
            yield node.lineno


def bare_sleeps_of_go(text: str) -> Iterator[int]:
    for number, line in enumerate(text.splitlines(), 1):
        if GO_SLEEP.search(line):
            yield number


@pytest.mark.parametrize("sleep", ["time.sleep(0.5)", "sleep(2 * 60)", "x = [time.sleep(-1)]"])
def test_a_sleep_of_a_bare_number_is_found(sleep: str) -> None:
    assert list(bare_sleeps_of_python(f"import time\n{sleep}\n")) == [2]


@pytest.mark.parametrize("sleep", ["time.sleep(GAP_SECONDS)", "time.sleep(2 * gap)", "time.sleep(1)  # idle"])
def test_a_sleep_with_a_name_or_a_comment_is_not_found(sleep: str) -> None:
    assert list(bare_sleeps_of_python(f"import time\n{sleep}\n")) == []


def test_sleeps_of_go_are_found_alike() -> None:
    bare = "\ttime.Sleep(20 * time.Millisecond)\n\t\ttime.Sleep(time.Second)\n"
    reasoned = "time.Sleep(gap)\ntime.Sleep(2 * promptTime)\ntime.Sleep(time.Second) // the idle phase\n"
    assert list(bare_sleeps_of_go(bare)) == [1, 2]
    assert list(bare_sleeps_of_go(reasoned)) == []


def test_no_test_sleeps_without_a_reason() -> None:
    """Wait instead by `wait_for` of tests/support/programs.py, or package tests/support/wait."""
    bench = ROOT / "tests" / "bench"
    python = [path for path in (ROOT / "tests").rglob("*.py") if bench not in path.parents]
    go = [path for part in ("collectors", "workloads") for path in (ROOT / part).rglob("*_test.go")]
    assert python
    assert go
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for paths, bare in ((python, bare_sleeps_of_python), (go, bare_sleeps_of_go))
        for path in paths
        for line in bare(Path(path).read_text())
    ]
    assert found == []
