# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig registry build`: a static site of a folder's bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from joulerig.plural import counted
from joulerig.rig.cli.options import out
from joulerig.rig.common.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Verified bundles as a static site.")


@app.callback()
def group() -> None:
    """Take commands by their names, though there is one."""


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(help="Folder of bundles (*.zip).")],
    output: Annotated[Path, typer.Option(metavar="SITE", help="Folder of the site.")],
) -> None:
    """Verify each bundle of a folder, and write a site of those that pass.

    Exit code 1 where a bundle does not; the site names it with the reason.
    """
    from joulerig.analysis.bundle import environment
    from joulerig.analysis.registry import entries, site
    from joulerig.rig.campaign import provenance

    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; allowed: a folder of bundles (*.zip)")
    if output.resolve() == folder.resolve():
        raise UserError(f"--output: {output}: is the folder of the bundles; allowed: another one")
    site.raise_if_foreign(output)
    listed, refused = entries.gather(folder, environment.here(provenance.revision()))
    try:
        site.write(output, listed, refused)
    except OSError as error:
        raise UserError(f"{error.filename or output}: {error.strerror}") from None
    for one in refused:
        for reason in one.reasons:
            out.print(f"not listed: {one.file.name}: {reason}", soft_wrap=True)
    cells = sum(len(one.cells) for one in listed)
    said = f"{counted(len(listed), 'bundle')}, {counted(cells, 'cell')}"
    out.print(f"{output / site.PAGE}: {said}; not listed: {len(refused)}", soft_wrap=True)
    if refused:
        raise typer.Exit(1)
