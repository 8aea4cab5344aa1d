# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig crash-states`: record what an application writes, and check the states it can be left in."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from joulerig.plural import counted
from joulerig.rig.cli.options import JsonOption, load_lab, out
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

PROFILE = "sata-consumer"
MIB = 1 << 20


def crash_states(
    name: Annotated[
        str, typer.Argument(metavar="APPLICATION", help="Application, as of a power-cut campaign.")
    ],
    filesystem: Annotated[str, typer.Option(help="File system.")] = "ext4",
    mount_option: Annotated[
        list[str] | None, typer.Option(help="Mount option in addition to its own; several times.")
    ] = None,
    transactions: Annotated[
        int, typer.Option(min=1, max=100_000, help="Acknowledged transactions to record.")
    ] = 20,
    states: Annotated[int, typer.Option(min=1, max=1_000_000, help="States to check at most.")] = 200,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed of the load, and of the states that are tried.")
    ] = 1,
    size_mib: Annotated[int, typer.Option(min=16, max=1 << 20, help="Size of the drive, in MiB.")] = 64,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Check this log of dm-log-writes; record nothing.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the recorded log there.")] = None,
    print_json: JsonOption = False,
) -> None:
    """Check an application in every state that a power cut may leave its drive in, up to a budget.

    Its writes are recorded from a twin, or read from a log. The exit code is 1 where a promise is
    broken. Needs root: states are mounted by loop devices.
    """
    from joulerig.rig.lab import virtual
    from joulerig.rig.powercut import crash_states as checker

    definition, application = _subject(name, filesystem, mount_option or [])
    with tempfile.TemporaryDirectory(prefix="log-", dir=paths.run()) as folder:
        source = log or keep or Path(folder) / "writes"
        if log is None:
            command = checker.writer("write", application)
            virtual.record_writes(
                PROFILE, size_mib * MIB, definition, command, transactions, seed, source.absolute()
            )
        found = checker.check(source, size_mib * MIB, definition, application, states, seed)
    if print_json:
        print(json.dumps(found.as_dict(), indent=1))
    else:
        where = "+".join([filesystem, *(mount_option or [])])
        out.print(f"{name} on {where}, {counted(found.states, 'state')} checked")
        for line in checker.lines(found):
            out.print(line, soft_wrap=True)
    if found.broken:
        raise typer.Exit(1)


def _subject(name: str, filesystem: str, mount_options: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the file system as for a host, and the application's command. Raises UserError."""
    from joulerig.rig.lab import applications, definitions, filesystems

    lab = load_lab()
    known, cuttable = applications.load(lab), filesystems.with_power_cuts(lab)
    if name not in known:
        raise UserError(f"{name!r} is {definitions.allowed(name, known)}")
    if filesystem not in cuttable:
        raise UserError(f"--filesystem: {filesystem!r} is {definitions.allowed(filesystem, cuttable)}")
    definition = filesystems.load(lab)[filesystem].for_host(filesystem)
    definition["mount_options"] = [*definition["mount_options"], *mount_options]
    return definition, known[name].command(here=True)
