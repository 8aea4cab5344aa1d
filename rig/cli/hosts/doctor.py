# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig doctor`: a table of what keeps a lab from measuring, with what mends it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from joulerig.rig.cli.options import JsonOption, out
from joulerig.rig.cli.terminal import Terminal
from joulerig.rig.common.errors import UserError
from joulerig.rig.doctor import finding
from joulerig.rig.doctor.finding import Finding, Severity

if TYPE_CHECKING:
    from joulerig.rig.doctor.inventory import Described

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
FOUND_ERRORS = 1  # exit code
# Of a table that no person's terminal wraps: a finding is one line, for grep.
WIDEST = 2000


def doctor(
    host: Annotated[
        str | None, typer.Argument(metavar="[HOST]", help="A test host (default: all of them).")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Check the inventory alone; ask no host, no meter.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check inventory, controller, meters and test hosts; change nothing.

    Each finding has what mends it. Exit code 1: there are errors.
    """
    from joulerig.rig.doctor import inventory

    described, found = inventory.examine()
    if host is not None and described and host not in described.found.test_hosts:
        allowed = ", ".join(described.found.test_hosts)
        raise UserError(f"{host!r} is not a test host; allowed: {allowed}")
    if not offline and described and described.lab:
        found += _ask(described, [host] if host else list(described.lab.hosts), with_controller=not host)
    show(finding.worst_first(found), as_json=as_json)


def _ask(described: Described, names: list[str], *, with_controller: bool) -> list[Finding]:
    """Return what the checks find at the controller, its meters and these hosts."""
    from joulerig.rig.doctor import controller, everywhere

    lab = described.lab
    assert lab is not None
    found = []
    if with_controller:
        values = described.found.values
        running = controller.running_meters()
        found += controller.examine(controller.Seen(lab, running=running, connection_keys=values))
    return found + everywhere.examine(described, [name for name in names if name in lab.hosts])


def show(found: list[Finding], *, as_json: bool) -> None:
    """Show findings, the worst first; end with exit code 1 where one of them is an error."""
    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=1))
    else:
        table = Table("severity", "where", "finding", "what mends it", show_lines=out.is_terminal)
        if not out.is_terminal:
            table.box, table.pad_edge = None, False
        for one in found:
            colour = COLOURS[one.severity]
            table.add_row(Text(one.severity, colour), one.subject, one.found, one.remedy)
        if found:
            console = out if out.is_terminal else Terminal(width=WIDEST)
            console.print(table)
        out.print(finding.summary(found))
    if any(one.severity == Severity.ERROR for one in found):
        raise typer.Exit(FOUND_ERRORS)
