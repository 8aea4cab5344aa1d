# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig verify`: check a bundle or a campaign offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from joulerig.rig.cli.options import out
from joulerig.rig.common.errors import UserError


def verify(
    bundle: Annotated[str, typer.Argument(help="A bundle (zip or unpacked folder), or a campaign.")],
    dask: Annotated[
        str | None,
        typer.Option(help="Sum waveforms on the workers of a Dask scheduler, tcp://HOST:PORT; folders only."),
    ] = None,
) -> None:
    """Check a bundle by itself, offline: hashes, and every number computed again from the raw data.

    Exit code 1 where a check fails, 2 where it cannot be read.
    """
    from joulerig.analysis.bundle import environment
    from joulerig.analysis.bundle import verify as verification
    from joulerig.analysis.runs import cluster
    from joulerig.rig.campaign import provenance
    from joulerig.rig.common import paths

    given = Path(bundle)
    source = given if given.exists() or not (paths.results() / bundle).is_dir() else paths.results() / bundle
    if dask is not None and source.is_file():
        raise UserError(f"--dask: {source}: the workers need a folder that they can read; unpack the bundle")
    checks = []
    if dask is not None:
        source = source.resolve()  # a worker has another working directory
    here = environment.here(provenance.revision())
    with cluster.mapping(dask) as mapped:
        for check in verification.verify(source, here, mapped):
            checks.append(check)
            for line in check.lines():
                out.print(line, soft_wrap=True)
    if verification.failed(checks):
        raise typer.Exit(1)
