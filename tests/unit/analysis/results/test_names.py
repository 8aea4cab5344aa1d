# SPDX-License-Identifier: GPL-3.0-or-later
"""Statuses and phases are enumerations of the schema; hosts have the same names, no code others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible.module_utils.joulerig import phases, tools
from joulerig.analysis.results.schema import PhaseName, PreconditioningPhase, Status
from joulerig.rig.campaign.execution.outcome import RunOutcome
from tests.support import python_sources

FOLDERS = ("analysis", "ansible", "rig", "virtuallab")
STATUSES = {str(status) for status in Status}
PHASES = {str(phase) for phase in [*PhaseName, *PreconditioningPhase]}
FILES = python_sources(*FOLDERS)


def test_hosts_have_the_names_of_the_phases() -> None:
    theirs = {getattr(phases, phase.name) for phase in [*PhaseName, *PreconditioningPhase]}
    assert theirs == PHASES


@pytest.mark.parametrize("name", ["OK", "FAILED", "LOST", "REFUSED", "NOT_RUN"])
def test_hosts_have_the_names_of_the_statuses(name: str) -> None:
    assert getattr(tools, name) == Status[name]


@pytest.mark.parametrize("status", [tools.OK, tools.FAILED, tools.REFUSED, tools.NOT_RUN])
def test_the_controller_knows_each_status_that_a_host_reports(status: str) -> None:
    outcome = RunOutcome.from_reply({"status": status})
    assert isinstance(outcome.status, Status)
    assert outcome.as_result_file()["status"] == status


def literals(path: Path) -> Iterator[str]:
    """Yield where a status or a phase is compared with, or given as, a text of the enumeration."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            subjects = {_subject(side) for side in sides}
            texts = {text for side in sides for text in _texts(side)}
        elif isinstance(node, ast.keyword):
            subjects, texts = {node.arg or ""}, set(_texts(node.value))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and set(_texts(key)) & {"status", "phase"}:
                    found = set(_texts(value)) & (STATUSES | PHASES)
                    yield from (f"{path}:{value.lineno}: {text}" for text in found)
            continue
        elif isinstance(node, ast.Subscript):
            subjects, texts = {_subject(node.value)}, set(_texts(node.slice))
        elif isinstance(node, ast.Assign):
            subjects = {_subject(target) for target in node.targets}
            texts = set(_texts(node.value))
        else:
            continue
        found = texts & STATUSES if "status" in subjects else set()
        found |= texts & PHASES if subjects & {"phase", "phases"} else set()
        yield from (f"{path}:{node.lineno}: {text}" for text in sorted(found))


def _subject(node: ast.expr) -> str:
    """Return what an expression is called: a name, an attribute, or a key."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return ""


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from _texts(element)


def test_no_status_or_phase_is_written_as_text() -> None:
    found = [line for path in FILES for line in literals(path)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "if run.status == 'ok': pass",
        "if run['status'] in ('ok', 'partial'): pass",
        "finish(status='lost')",
        "reply = {'status': 'failed'}",
        "load = phases['workload']",
        "idle = phase == 'idle'",
        "status = 'failed'",
    ],
)
def test_the_search_finds_such_a_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.py").write_text(text)
    assert list(literals(tmp_path / "one.py"))
