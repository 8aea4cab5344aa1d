# SPDX-License-Identifier: GPL-3.0-or-later
"""Print which folder of the Python packages imports which, and check the graph.

    python -m tools.imports            check; print what is wrong
    python -m tools.imports --graph    print the arrows between folders, then check
    python -m tools.imports --dot      print the same for Graphviz

Fails on an arrow that a contract of pyproject.toml ([tool.importlinter]) forbids, on a cycle
between modules, and on a folder with more than 14 Python modules directly in it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import grimp
from importlinter import cli

from joulerig.plural import counted

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "joulerig"
MOST_MODULES = 14
CROWDED_BY_NATURE = (
    "tests/",
)  # a folder of tests has as many files as the folder that it mirrors has subjects


def find_cycles(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Find the groups of modules that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    cycles: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for imported in imports.get(module, ()):
            if imported not in index:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], index[imported])
        if lowest[module] == index[module]:
            start = stack.index(module)
            group = sorted(stack[start:])
            del stack[start:]
            if len(group) > 1:
                cycles.append(group)

    for module in sorted(imports):
        if module not in index:
            visit(module)
    return cycles


def find_crowded(files: Iterable[str], most: int = MOST_MODULES) -> dict[str, int]:
    """Count the modules of each folder that has more than `most` of them directly in it."""
    paths = (PurePosixPath(file) for file in files if not file.startswith(CROWDED_BY_NATURE))
    counts = Counter(
        str(path.parent) for path in paths if path.suffix == ".py" and path.name != "__init__.py"
    )
    return {folder: count for folder, count in sorted(counts.items()) if count > most}


def folder_arrows(imports: Mapping[str, Iterable[str]], depth: int = 3) -> Counter[tuple[str, str]]:
    """Count the imports between folders.

    A folder is the first `depth` parts of a module's name, without the package's.
    """
    arrows: Counter[tuple[str, str]] = Counter()
    for module, importeds in imports.items():
        for imported in importeds:
            ends = [".".join(name.split(".")[1:depth]) or "(top)" for name in (module, imported)]
            if ends[0] != ends[1]:
                arrows[ends[0], ends[1]] += 1
    return arrows


def read_graph() -> dict[str, set[str]]:
    """Read the imports of each module, those in functions and under TYPE_CHECKING included."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def check_contracts() -> str:
    """Check pyproject.toml's contracts; return import-linter's report of a broken one, or ""."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = cli.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    return output.getvalue().strip() if status else ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools.imports", description="Check which module imports which.")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--graph", action="store_true", help="print the arrows between folders")
    form.add_argument("--dot", action="store_true", help="print the arrows between folders for Graphviz")
    options = parser.parse_args(arguments)
    imports = read_graph()
    arrows = folder_arrows(imports)
    if options.graph:
        for (importer, imported), count in sorted(arrows.items()):
            print(f"{importer} -> {imported}  {count}")
    if options.dot:
        print("digraph imports {")
        for importer, imported in sorted(arrows):
            print(f'  "{importer}" -> "{imported}";')
        print("}")
        return 0
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    faults = [f"cycle between modules: {', '.join(cycle)}" for cycle in find_cycles(imports)]
    faults += [
        f"{folder} has {counted(count, 'module')} directly in it; {MOST_MODULES} are allowed"
        for folder, count in find_crowded(tracked.splitlines()).items()
    ]
    faults += filter(None, [check_contracts()])
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(imports)} modules, {len(arrows)} arrows between folders: no cycle, no forbidden import")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
