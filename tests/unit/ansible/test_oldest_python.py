# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on test hosts uses nothing that Python 3.8 lacks, the oldest that ansible-core takes.

Its grammar is ruff's to check (pyproject.toml); `make test-hosts` runs it with Python 3.9 to 3.14.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support import ROOT

FOLDERS = ("ansible/module_utils", "ansible/modules")
# What came with Python 3.9. What came later ends a run on Debian 11.
SINCE_3_9 = {
    "is_relative_to", "pidfd_open", "pidfd_send_signal", "randbytes", "readlink", "removeprefix",
    "removesuffix", "to_thread", "unparse", "waitstatus_to_exitcode", "with_stem",
}  # fmt: skip
FUNCTIONS_SINCE_3_9 = {("functools", "cache"), ("math", "lcm"), ("math", "nextafter"), ("math", "ulp")}
MODULES_SINCE_3_9 = {"graphlib", "zoneinfo"}
GUARD = "hasattr"
GENERIC_SINCE_3_9 = {"dict", "frozenset", "list", "set", "tuple", "type"}  # with their items' types


def newer(source: str) -> list[str]:
    """What a module uses that came with Python 3.9, each with its line."""
    tree = ast.parse(source)
    aliases = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("collections", "collections.abc")
        for name in node.names
    }
    found = [*_names(tree), *_generics(tree, GENERIC_SINCE_3_9 | aliases)]
    return [f"line {line}: {name}" for line, name in sorted(found)]


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and GUARD in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node not in guarded:
            whole = (ast.unparse(node.value), node.attr)
            is_os = whole in {("os", "readlink")}
            if (node.attr in SINCE_3_9 and not is_os) or whole in FUNCTIONS_SINCE_3_9:
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                if (node.module, name.name) in FUNCTIONS_SINCE_3_9 or node.module in MODULES_SINCE_3_9:
                    yield node.lineno, name.name
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names if one.name in MODULES_SINCE_3_9)


def _generics(tree: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    """Generic types that are evaluated: annotations are not, where a module says so."""
    later = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(name.name == "annotations" for name in node.names)
        for node in ast.walk(tree)
    )
    annotations = set()
    for node in ast.walk(tree):
        for key in ("annotation", "returns"):
            if later and (annotation := getattr(node, key, None)) is not None:
                annotations |= set(ast.walk(annotation))
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and node not in annotations:
            name = ast.unparse(node.value)
            if name.rpartition(".")[2] in names and isinstance(node.ctx, ast.Load):
                yield node.lineno, f"{name}[...]"


FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "ansible")))
def test_a_module_of_test_hosts_uses_nothing_newer_than_python_3_8(path):
    assert newer(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("'a'.removeprefix('b')", ["line 1: removeprefix"]),
        ("import os\nos.pidfd_open(1)", ["line 2: pidfd_open"]),
        ("import os\nif hasattr(os, 'pidfd_open'):\n    os.pidfd_open(1)", []),
        ("from functools import cache", ["line 1: cache"]),
        ("import zoneinfo", ["line 1: zoneinfo"]),
        ("State = dict[str, int]", ["line 1: dict[...]"]),
        ("from collections.abc import Iterator\nLines = Iterator[str]", ["line 2: Iterator[...]"]),
        ("from __future__ import annotations\ndef f(a: list[int]) -> dict[str, int]: ...", []),
        ("def f(a: list[int]): ...", ["line 1: list[...]"]),
        ("import os\nos.readlink('a')", []),
    ],
)
def test_what_came_with_python_3_9_is_found(source, expected):
    assert newer(source) == expected
