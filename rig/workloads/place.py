# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a workload's files are: in this checkout, beside a lab's workloads.yml, on a test host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import definitions

SHARE = "/usr/local/share/joulerig"


@dataclass(frozen=True)
class Folder:
    """A folder of shipped files of one kind, each known by its name without the suffix."""

    path: Path
    suffix: str
    without: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Of what lies there, in order."""
        found = (path.stem for path in self.path.glob(f"*{self.suffix}"))
        return sorted(name for name in found if name not in self.without)

    def find(self, value: str, own: Path) -> Path:
        """The shipped file of that name or, with the suffix, a file below `own`. Raises ValueError."""
        if value.endswith(self.suffix):
            return file_in(own, value)
        if value not in self.names():
            files_too = f", or a file ({self.suffix})"
            raise ValueError(f"{value!r} is {definitions.allowed(value, self.names())}{files_too}")
        return self.path / f"{value}{self.suffix}"


FIO_JOBS = Folder(paths.ROOT / "workloads" / "fio", ".fio")
PERSONALITIES = Folder(paths.ROOT / "workloads" / "personalities", ".f")
PROGRAMS = Folder(paths.ROOT / "workloads" / "programs", ".py", without=("program",))


def file_in(folder: Path, value: str) -> Path:
    """That file, relative to the folder. Raises ValueError where there is none."""
    path = folder / value
    if not path.is_file():
        raise ValueError(f"{value!r}: no such file; allowed: a file, relative to {paths.short(folder)}")
    return path


def flowop() -> Path:
    """The workload engine of this checkout."""
    return paths.program("flowop")


def built_flowop() -> Path:
    """The same. Raises UserError where it is not built."""
    if not flowop().exists():
        raise UserError(f"{paths.short(flowop())}: not built; 'make build' builds it")
    return flowop()


def common_code() -> Path:
    """What all programs of others share, beside each."""
    return PROGRAMS.path / "program.py"


def beside(script: Path) -> list[Path]:
    """A program's script and what it reads from its own folder: SCRIPT_*.sql."""
    return [script, *sorted(script.parent.glob(f"{script.stem}_*.sql"))]


def here(path: Path) -> str:
    """Where a file is on this machine."""
    return str(path)


def on_host(path: Path) -> str:
    """Where the role `programs` puts a file; another content of a lab's own file has another place."""
    if path == flowop():
        return "/usr/local/sbin/flowop"
    if path.suffix in (PROGRAMS.suffix, ".sql"):
        return f"{SHARE}/programs/{path.name}"
    return f"{SHARE}/files/{files.digest(path)}-{path.name}"


def mode(path: Path) -> str:
    """The permissions that it has there."""
    return "0755" if path == flowop() else "0644"
