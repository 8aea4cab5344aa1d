# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig`: the command line of the controller. Each sub-command is in a module of its name."""

from __future__ import annotations

import errno
import functools
import importlib
import sys
from typing import Any

import typer

from joulerig.errors import JoulerigError
from joulerig.rig.cli.options import complain

# Each by its function's place in this package; only what a command line names is loaded.
COMMANDS = {
    "up": "up.up",
    "down": "up.down",
    "doctor": "hosts.doctor.doctor",
    "plan": "plan.command.plan",
    "run": "run.run",
    "pause": "run.pause",
    "stop": "run.stop",
    "settle": "run.settle",
    "retry": "run.retry",
    "measure": "measure.command.measure",
    "status": "up.status",
    "watch": "watch.command.watch",
    "results": "results.show",
    "report": "report.report",
    "export": "report.export",
    "verify": "verify.verify",
    "crash-states": "crash_states.command.crash_states",
    "compare": "compare.command.compare",
    "bisect": "bisect.command.bisect",
    "merge": "compare.command.merge",
}
# Each by its app's place, and those of its commands that are in modules of their own.
GROUPS = {
    "lab": ("lab.app", {}),
    "meters": (
        "meters.command.app",
        {"agree": "meters.agree.agree", "check": "meters.check.check", "scan": "meters.scan.scan"},
    ),
    "drives": ("drives.command.app", {"audit": "drives.audit.show", "obey": "drives.obey.show"}),
    "twin": ("twin.app", {}),
    "hosts": ("hosts.command.app", {"discover": "hosts.discover.discover"}),
    "workloads": ("workloads.app", {}),
    "registry": ("registry.command.app", {}),
}


def _loaded(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(f"joulerig.rig.cli.{module}"), name)


@functools.cache
def _group(name: str) -> typer.Typer:
    place, others = GROUPS[name]
    group: typer.Typer = _loaded(place)
    for command, function in others.items():
        group.command(command)(_loaded(function))
    return group


@functools.cache
def _app(name: str | None) -> typer.Typer:
    """Return the command line with one command or group alone; with all where `name` is none."""
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, help="Energy-aware storage testing: work per joule."
    )
    app.callback()(_of_all)
    every = name not in COMMANDS and name not in GROUPS
    for group in GROUPS if every else GROUPS.keys() & {name}:
        app.add_typer(_group(group), name=group)
    for command in COMMANDS if every else COMMANDS.keys() & {name}:
        app.command(command)(_loaded(COMMANDS[command]))
    return app


def _of_all() -> None:
    """Do nothing: with a function for the whole, typer asks for a command's name also of one."""


def __getattr__(name: str) -> Any:
    if name == "app":
        return _app(None)
    raise AttributeError(name)


# A folder that may not be written, a disk that is full: no fault of the program.
OF_THE_MACHINE = (
    errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENAMETOOLONG, errno.ENOSPC,
    errno.EPERM, errno.EROFS,
)  # fmt: skip


def main() -> None:
    """Run the command line: a user's error is one line on stderr and exit code 2."""
    try:
        _app(sys.argv[1] if len(sys.argv) > 1 else None)(standalone_mode=True)
    except JoulerigError as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:
        if error.errno not in OF_THE_MACHINE:
            raise
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror}")
        sys.exit(2)


if __name__ == "__main__":
    main()
