# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests that run under the Pythons of test hosts import what a host can have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.bench import host_library

CONTROLLERS = ("ansible.", "joulerig.", "yaml.")
HOSTS = "ansible.module_utils."


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", host_library.chosen(), ids=lambda path: path.stem)
def test_it_imports_nothing_of_the_controllers(path):
    names = {f"{name}." for name in imported(path)}
    assert {name for name in names if name.startswith(CONTROLLERS) and not name.startswith(HOSTS)} == set()
