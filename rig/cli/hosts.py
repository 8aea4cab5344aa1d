# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig hosts`: give a test host back."""

from __future__ import annotations

from typing import Annotated

import typer

from joulerig.rig.cli.options import load_lab, out
from joulerig.rig.common.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Give test hosts back.")


@app.command()
def release(
    host: Annotated[str, typer.Argument(help="A test host.")],
    packages: Annotated[
        bool, typer.Option("--packages", help="Also remove the packages that were installed.")
    ] = False,
) -> None:
    """Undo what provisioning and campaigns changed on a test host, from the host's own record."""
    from joulerig.rig.campaign import hosts

    lines, failure = hosts.release(load_lab(), host, packages=packages)
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)
    if failure:
        raise UserError(failure)
