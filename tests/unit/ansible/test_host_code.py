# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on test hosts needs the standard library of Python 3.8, and Ansible's, and no more.

Python 3.8 is the oldest that ansible-core takes. The programs need 3.9. The grammar is ruff's to
check (pyproject.toml); `make test-hosts` runs the library with Python 3.9 to 3.14.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import host_library
from tests.support import ROOT

CONTROLLERS = ("ansible.", "joulerig.", "yaml.")  # what hosts do not have
MODULES, PROGRAMS = ("ansible/module_utils", "ansible/modules"), ("workloads/programs",)
# What came with Python 3.10 and later.
LATER_KEYWORDS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only")}
LATER_NAMES = {"pairwise", "batched", "bit_count", "stdlib_module_names", "add_note", "StrEnum", "tomllib"}
# What came with Python 3.9.
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


def later(source: str) -> list[str]:
    """What a module uses that came with Python 3.10 or later."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            given = {(called, keyword.arg) for keyword in node.keywords} & LATER_KEYWORDS
            found += [f"line {node.lineno}: {name}({keyword}=)" for name, keyword in given]
        if isinstance(node, ast.Attribute | ast.Name | ast.alias):
            name = ast.unparse(node).split(".")[-1]
            found += [f"line {node.lineno}: {name}"] if name in LATER_NAMES else []
    return found


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found


def files(folders: tuple[str, ...]) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", files(MODULES), ids=lambda path: str(path.relative_to(ROOT / "ansible")))
def test_a_module_of_test_hosts_uses_nothing_newer_than_python_3_8(path):
    assert [*newer(path.read_text()), *later(path.read_text())] == []


@pytest.mark.parametrize("path", files(PROGRAMS), ids=lambda path: path.name)
def test_a_program_uses_nothing_newer_than_python_3_9(path):
    assert later(path.read_text()) == []


@pytest.mark.parametrize("path", files(MODULES), ids=lambda path: str(path.relative_to(ROOT / "ansible")))
def test_a_module_needs_the_standard_library_and_ansible_alone(path):
    """A module is shipped to hosts that have nothing else."""
    for name in imported(path):
        top = name.split(".")[0]
        assert top == "ansible" or top in sys.stdlib_module_names, f"imports {name}"


@pytest.mark.parametrize("path", host_library.chosen(), ids=lambda path: path.name)
def test_a_test_that_hosts_run_uses_nothing_newer_than_python_3_9(path):
    assert later(path.read_text()) == []


@pytest.mark.parametrize("path", host_library.chosen(), ids=lambda path: path.name)
def test_a_test_that_hosts_run_needs_nothing_of_the_controllers(path):
    names = {name for name in imported(path) if f"{name}.".startswith(CONTROLLERS)}
    assert {name for name in names if not name.startswith("ansible.module_utils")} == set()


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


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("zip(a, b, strict=True)", ["line 1: zip(strict=)"]),
        ("from itertools import pairwise", ["line 1: pairwise"]),
        ("from itertools import chain\nzip(a, b)", []),
    ],
)
def test_what_came_later_is_found(source, expected):
    assert later(source) == expected
