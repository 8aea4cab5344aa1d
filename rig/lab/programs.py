# SPDX-License-Identifier: GPL-3.0-or-later
"""The external programs that a campaign can load with: the shipped ones and a lab's own.

A program is a directory: NAME/program.yml, its script NAME/NAME.py, and what else its test host
needs. The shipped ones are in `workloads/programs/`, a lab's own in `programs/` next to its
inventory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from joulerig.rig.common import paths
from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.lab import definitions
from joulerig.rig.lab.model import Lab, Package

SHIPPED = paths.share() / "workloads" / "programs"
COMMON_CODE = SHIPPED / "program.py"
DEFINITION = "program.yml"
KIND = "program"
ON_HOST = "/usr/local/share/joulerig/programs"


class Definition(Strict):
    """What a program.yml says."""

    description: str = Field("", description="A one-line description.")
    packages: list[Package] = Field([], description="Debian packages that it needs on test hosts.")
    modules: list[str] = Field(
        [], description="Modules of `workloads/programs/` that it imports besides `program.py`."
    )
    operation: str = Field("operation", description="The unit of an operation in its report.")
    figure: str = Field("", description="Its own figure of merit, with the unit; empty: none.")
    parameters: dict[str, str] = Field(
        {}, description="The script's settings and their meaning; empty: undeclared and unchecked."
    )
    workloads: dict[str, dict[str, Any]] = Field(
        description="Its workloads by name: the keys of engine `program` without `engine` and `program`."
    )


@dataclass(frozen=True)
class Program:
    """A program and the directory that has its files."""

    name: str
    directory: Path
    definition: Definition

    def modules(self) -> list[Path]:
        """Return the shared modules that the script imports, `program.py` first."""
        return [COMMON_CODE, *shared(self.definition.modules)]

    @property
    def script(self) -> Path:
        """Return the path of the script that lays out and loads."""
        return self.directory / f"{self.name}.py"

    def files(self) -> list[Path]:
        """Return what goes to a test host: the script first, then the rest of its directory."""
        others = {
            path
            for path in self.directory.iterdir()
            if path.is_file() and path.name != DEFINITION and not path.name.startswith(".")
        }
        return [self.script, *sorted(others - {self.script})]

    def defaults(self) -> dict[str, Any]:
        """Return the settings' defaults from the script's DEFAULTS; empty where it has none."""
        for node in ast.parse(self.script.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DEFAULTS":
                found: dict[str, Any] = ast.literal_eval(node.value)
                return found
        return {}


def shared(names: Iterable[str]) -> list[Path]:
    """Return the files of modules that programs and applications share."""
    return [SHIPPED / name for name in names]


def check_modules(names: Iterable[str], where: str) -> None:
    """Raise UserError for the first one that is not shared."""
    known = sorted(path.name for path in SHIPPED.glob("*.py"))
    for name in names:
        if name not in known:
            raise UserError(f"{where}: modules: {name!r} is {definitions.allowed(name, known)}")


def load(lab: Lab) -> dict[str, Program]:
    """Return the shipped programs and the lab's own, by name. Raises UserError."""
    return available(lab.folder)


def available(folder: Path) -> dict[str, Program]:
    """Return the shipped programs and those in `programs/` of `folder`, by name.

    Raises UserError.
    """
    found = read(SHIPPED)
    if (folder / "programs") == SHIPPED:
        return found
    for name, program in read(folder / "programs").items():
        if name in found:
            where = paths.short(program.directory)
            raise UserError(f"{where}: {name}: is a shipped {KIND}; give another name")
        found[name] = program
    return found


def read(folder: Path) -> dict[str, Program]:
    """Return the programs in the directories of `folder`, by name. Raises UserError."""
    return {path.parent.name: _program(path) for path in sorted(folder.glob(f"*/{DEFINITION}"))}


def holding(path: Path) -> Program | None:
    """Return the program whose directory holds the file `path`, or None. Raises UserError."""
    definition = path.parent / DEFINITION
    return _program(definition) if definition.is_file() else None


def packages(known: Mapping[str, Program]) -> list[str]:
    """Return the Debian packages that these programs need."""
    return sorted({name for program in known.values() for name in program.definition.packages})


def reference(known: Mapping[str, Program] | None = None) -> str:
    """Return Markdown tables of programs (default: shipped), settings and a file's keys."""
    known = read(SHIPPED) if known is None else known
    rows, parameters = [], []
    for name, program in known.items():
        one = program.definition
        workloads = ", ".join(f"`{workload}`" for workload in one.workloads)
        rows.append(
            (f"`{name}`", one.description, workloads, one.operation, one.figure, ", ".join(one.packages))
        )
        defaults = program.defaults()
        parameters += [
            (f"`{name}`", f"`{key}`", text, f"`{defaults[key]}`" if key in defaults else "")
            for key, text in one.parameters.items()
        ]
    head = ("program", "what it is", "workloads", "one op", "figure of merit", "packages")
    tables = (
        definitions.table(head, rows),
        definitions.table(("program", "setting", "what it is", "default"), parameters),
        definitions.keys_table(Definition),
    )
    return "\n".join(tables)


def _program(path: Path) -> Program:
    directory, source = path.parent, paths.short(path)
    if not definitions.NAME.fullmatch(directory.name):
        allowed = definitions.NAME.pattern
        raise UserError(
            f"{source}: {directory.name!r} is not a valid name of a {KIND};"
            f" allowed: names that match {allowed}"
        )
    entries = definitions.read_mapping(path, f"a mapping that defines a {KIND}")
    program = Program(directory.name, directory, validate(Definition, entries, source))
    if not program.script.is_file():
        raise UserError(f"{source}: {paths.short(program.script)}: no such file; a {KIND} needs this script")
    check_modules(program.definition.modules, source)
    return program
