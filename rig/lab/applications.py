# SPDX-License-Identifier: GPL-3.0-or-later
"""The applications whose transactions power cuts can judge: the shipped ones and a lab's own.

An application is a directory: DIRECTORY/application.yml and the files of its command. The shipped
ones are in `workloads/applications/`, a lab's own in `applications/` next to its inventory. What a
program has to print is in docs/reference/protocols/application.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from joulerig.rig.common import paths
from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.lab import definitions, programs
from joulerig.rig.lab.model import Lab, Package

SHIPPED = paths.share() / "workloads" / "applications"
COMMON_CODE = SHIPPED / "contract.py"
DEFINITION = "application.yml"
KIND = "application"
ON_HOST = "/usr/local/share/joulerig/applications"


class Variant(Strict):
    """One way to start a program, which campaigns list by its name."""

    description: str = Field("", description="A one-line description.")
    options: list[str] = Field([], description="Words added to the command.")


class Definition(Strict):
    """What an application.yml says."""

    description: str = Field("", description="A one-line description.")
    packages: list[Package] = Field([], description="Debian packages that it needs on test hosts.")
    modules: list[str] = Field([], description="Modules of `workloads/programs/` that it imports.")
    command: Annotated[list[str], Field(min_length=1)] = Field(
        description="Its command; a word that names a file of the directory stands for that file."
    )
    applications: dict[str, Variant] = Field(description="What campaigns can list, by name.")


@dataclass(frozen=True)
class Application:
    """One application that a campaign can list."""

    name: str
    directory: Path
    definition: Definition
    options: tuple[str, ...]
    description: str

    def files(self) -> dict[Path, str]:
        """Return what goes to a test host: the path there by the path here."""
        ours = [path for path in sorted(self.directory.iterdir()) if path.is_file() and path.name[0] != "."]
        named = {path: self.on_host(path.name) for path in ours if path.name != DEFINITION}
        shared = programs.shared(self.definition.modules)
        modules = {path: f"{programs.ON_HOST}/{path.name}" for path in shared}
        return {**named, COMMON_CODE: f"{ON_HOST}/{COMMON_CODE.name}", **modules}

    def on_host(self, name: str) -> str:
        """Return where a file of the directory is on a test host."""
        return f"{ON_HOST}/{self.directory.name}/{name}"

    def command(self, *, here: bool = False) -> list[str]:
        """Return the command on a test host or, `here`, on this machine."""
        words = [*self.definition.command, *self.options]
        files = {path.name: str(path) if here else place for path, place in self.files().items()}
        return [files.get(word, word) for word in words]


def load(lab: Lab) -> dict[str, Application]:
    """Return the shipped applications and the lab's own, by name. Raises UserError."""
    found = dict(shipped())
    for name, own in _read(lab.folder / "applications").items():
        if name in found:
            where = paths.short(own.directory / DEFINITION)
            raise UserError(f"{where}: applications.{name}: is a shipped {KIND}; give another name")
        found[name] = own
    return found


@functools.cache
def shipped() -> Mapping[str, Application]:
    """Return the applications of `workloads/applications/`, by name. Raises UserError."""
    return _read(SHIPPED)


def packages(known: Mapping[str, Application]) -> list[str]:
    """Return the Debian packages that these applications need."""
    return sorted({name for one in known.values() for name in one.definition.packages})


def reference(known: Mapping[str, Application] | None = None) -> str:
    """Return Markdown tables of applications (default: the shipped ones) and of a file's keys."""
    known = shipped() if known is None else known
    rows = [(f"`{name}`", one.description, f"`{one.directory.name}`") for name, one in known.items()]
    return "\n".join(
        [
            definitions.table(("name", "what it is", "program"), rows),
            definitions.keys_table(Definition, Variant),
        ]
    )


def _read(folder: Path) -> dict[str, Application]:
    found: dict[str, Application] = {}
    for source in sorted(folder.glob(f"*/{DEFINITION}")):
        where = paths.short(source)
        entry: Any = definitions.read_mapping(source, f"a mapping that defines an {KIND}")
        definition = validate(Definition, entry, where, "")
        programs.check_modules(definition.modules, where)
        for name, variant in definition.applications.items():
            if name in found:
                raise UserError(f"{where}: applications.{name}: is another program's; give another name")
            description = variant.description or definition.description
            found[name] = Application(name, source.parent, definition, tuple(variant.options), description)
    return found
