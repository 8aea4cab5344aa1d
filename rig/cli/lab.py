# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig lab`: start, stop and inspect the virtual lab, log in to its hosts."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer
from rich.table import Table

from joulerig.plural import counted
from joulerig.rig.cli.options import alone, out
from joulerig.rig.common.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Manage the virtual lab: test hosts in QEMU, twins, power taps.")


@app.command("up")
@alone("rig lab up")
def up() -> None:
    """Start the virtual lab; builds its guest image at the first time."""
    from joulerig.rig.lab import model, virtual

    virtual.up(model.load(), out.print)
    out.print("the virtual lab is up")


@app.command("images")
def images() -> None:
    """Build the images of the virtual lab's hosts that are not built yet; start nothing."""
    from joulerig.rig.lab import model, virtual

    virtual.build_images(model.load(), out.print)


@app.command("down")
@alone("rig lab down")
def down() -> None:
    """Stop the virtual lab; its drives keep their data."""
    from joulerig.rig.lab import virtual

    stopped = virtual.down()
    out.print(f"stopped {counted(len(stopped), 'process')} of the virtual lab")


@app.command("status")
def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the virtual lab's processes, and what each twin draws."""
    from joulerig.rig.lab import model, virtual

    found = virtual.status(model.load())
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for name, state in found["processes"].items():
        out.print(f"{name:32} {state.lower()}")
    table = Table("drive", "rail", "volts", "amps", "watts", "joules (true)", "reads", "writes", "flushes")
    for drive, twin in found["twins"].items():
        for rail in twin["rails"] if twin else []:
            counters = twin["counters"]
            table.add_row(
                drive, rail["name"], f"{rail['volts']:.3f}", f"{rail['amps']:.4f}",
                f"{rail['volts'] * rail['amps']:.3f}", f"{rail['joules']:.2f}",
                str(counters["reads"]), str(counters["writes"]), str(counters["flushes"]),
            )  # fmt: skip
    out.print(table if table.row_count else "no twin is running; 'rig lab up' starts the virtual lab")


@app.command("ssh", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def ssh(context: typer.Context, host: Annotated[str | None, typer.Argument()] = None) -> None:
    """Log in to a virtual test host, or run a command there."""
    from joulerig.rig.lab import model, virtual

    names = [name for name, spec in model.load().hosts.items() if spec.virtual]
    host = host or (names[0] if names else "")
    if host not in names:
        raise UserError(f"{host!r} is not a virtual test host; allowed: {', '.join(names) or 'none'}")
    command = [*virtual.ssh_command(host), *context.args]
    os.execvp(command[0], command)
