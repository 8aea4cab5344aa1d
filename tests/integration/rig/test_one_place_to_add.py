# SPDX-License-Identifier: GPL-3.0-or-later
"""A meter family, file system, program, study, factor: one new file; a column: one line.

A copy of the project gets one of each as a shipped one. tests/support/uses_of_additions.py then
uses them there: help, plan, run on a test host that is not there, table, export, documentation.
"""

from __future__ import annotations

import ast
import difflib
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support import ROOT, additions

USES = ROOT / "tests" / "support" / "uses_of_additions.py"
NAMES = [
    node.name for node in ast.parse(USES.read_text()).body if getattr(node, "name", "").startswith("test_")
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = additions.copy_project(tmp_path_factory.mktemp("copy"))
    additions.add_everything(copy)
    return copy


@pytest.fixture(scope="module")
def outcomes(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is wrong with each use, by the name of its test; a use without an entry was not made."""
    log = tmp_path_factory.mktemp("uses") / "log.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={log}"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(project),
        "PYTHONDONTWRITEBYTECODE": "1",
        "JOULERIG_PROGRAMS": str(ROOT / "build"),
    }
    done = subprocess.run(
        [*command, project / USES.relative_to(ROOT)],
        cwd=project, env=environment, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert log.exists(), done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for case in ET.parse(log).iter("testcase"):
        problems = found.setdefault(case.get("name", "").partition("[")[0], [])
        problems += [problem.text or "" for problem in case if problem.tag in ("failure", "error", "skipped")]
    return found


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for name in additions.COPIED
        for path in (folder / name).rglob("*")
        if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts)
    }


@pytest.mark.parametrize("kind", additions.FILES)
def test_it_is_one_file_or_one_directory(kind: str) -> None:
    paths = [Path(path) for path in additions.FILES[kind]]
    assert len(paths) == 1 or len({path.parent for path in paths}) == 1


def test_nothing_else_is_added(project: Path) -> None:
    assert files(project) - files(ROOT) == {path for paths in additions.FILES.values() for path in paths}


def test_a_column_is_one_line(project: Path) -> None:
    before, after = ((folder / additions.SCHEMA).read_text().splitlines() for folder in (ROOT, project))
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert changed == [f"+ {additions.COLUMN}"]


@pytest.mark.long
@pytest.mark.timeout(1500)  # the first one waits for all uses
@pytest.mark.parametrize("name", NAMES)
def test_it_is_used(outcomes: dict[str, list[str]], name: str) -> None:
    assert not outcomes[name], "\n".join(outcomes[name])
