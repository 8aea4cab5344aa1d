# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a workload's files are: in this checkout, next to a lab's inventory, on a test host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from joulerig.rig.common import files, paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import definitions, programs

SHARE = "/usr/local/share/joulerig"


@dataclass(frozen=True)
class Folder:
    """A folder of shipped files of one kind, each known by its name without the suffix."""

    path: Path
    suffix: str

    def names(self) -> list[str]:
        """Return the names of the files there, in order."""
        return sorted(path.stem for path in self.path.glob(f"*{self.suffix}"))

    def find(self, value: str, own: Path) -> Path:
        """Return the shipped file of that name or, with the suffix, a file below `own`.

        Raises ValueError.
        """
        if value.endswith(self.suffix):
            return file_in(own, value)
        if value not in self.names():
            files_too = f", or a file ({self.suffix})"
            raise ValueError(f"{value!r} is {definitions.allowed(value, self.names())}{files_too}")
        return self.path / f"{value}{self.suffix}"


FIO_JOBS = Folder(paths.share() / "workloads" / "fio", ".fio")
PERSONALITIES = Folder(paths.share() / "workloads" / "personalities", ".f")
SCRIPT = ".py"


def file_in(folder: Path, value: str) -> Path:
    """Return the path of a file in or below the folder. Raises ValueError where there is none."""
    path = folder / value
    problem = "leaves its folder" if leaves(value) else "no such file"
    if leaves(value) or not path.is_file():
        raise ValueError(f"{value!r}: {problem}; allowed: a file, relative to {paths.short(folder)}")
    return path


def leaves(value: str) -> bool:
    """Return whether a path is absolute, or has `..` in it."""
    path = PurePosixPath(value)
    return path.is_absolute() or ".." in path.parts


def flowop() -> Path:
    """Return the path of this checkout's workload engine."""
    return paths.program("flowop")


def built_flowop() -> Path:
    """Return the path of the workload engine. Raises UserError where it is not built."""
    if not flowop().exists():
        raise UserError(f"{paths.short(flowop())}: not built; 'make build' builds it")
    return flowop()


def find_script(value: str, own: Path) -> Path:
    """Return a program's script by the program's name, or a script below `own`. Raises ValueError.

    The program is shipped or in `programs/` of the folder `own`; a script is named with its suffix.
    """
    known = programs.available(own)
    if not value.endswith(SCRIPT):
        if value not in known:
            raise ValueError(f"{value!r} is {definitions.allowed(value, known)}, or a file ({SCRIPT})")
        return known[value].script
    script = file_in(own, value)
    if script.stem in known and script.parent != known[script.stem].directory:
        raise ValueError(f"{script.name!r} is the name of a shipped program; give the file another name")
    if (programs.SHIPPED / script.name).exists():
        raise ValueError(f"{script.name!r} is shared by all programs; give the file another name")
    return script


def program_files(script: Path) -> list[Path]:
    """Return a program's script and what it reads.

    That is the rest of its directory or, for a script without one, SCRIPT_*.sql; and the modules
    that programs share.
    """
    if program := programs.holding(script):
        return [*program.files(), *program.modules()]
    return [script, *sorted(script.parent.glob(f"{script.stem}_*.sql")), programs.COMMON_CODE]


def here(path: Path) -> str:
    """Return the path of a file on this machine."""
    return str(path)


def on_host(path: Path) -> str:
    """Return the path where the role `programs` puts a file.

    It depends on the content of a lab's own files that are no programs.
    """
    if path == flowop():
        return "/usr/local/sbin/flowop"
    if program := programs.holding(path):
        return f"{programs.ON_HOST}/{program.name}/{path.name}"
    if path.suffix in (SCRIPT, ".sql"):
        return f"{programs.ON_HOST}/{path.name}"
    return f"{SHARE}/files/{files.digest(path)}-{path.name}"


def mode(path: Path) -> str:
    """Return the permissions that a file has on a test host."""
    return "0755" if path == flowop() else "0644"
