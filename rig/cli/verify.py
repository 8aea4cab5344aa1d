# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig verify`: check a bundle or a campaign offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from joulerig.rig.cli.options import out


def verify(
    bundle: Annotated[str, typer.Argument(help="A bundle, the folder it was unpacked into, or a campaign.")],
) -> None:
    """Check a bundle by itself, offline: hashes, and every number computed again from the raw data.

    Exit code 1 where a check fails, 2 where it cannot be read.
    """
    from joulerig.analysis.bundle import environment
    from joulerig.analysis.bundle import verify as verification
    from joulerig.rig.campaign import provenance
    from joulerig.rig.common import paths

    given = Path(bundle)
    source = given if given.exists() or not (paths.results() / bundle).is_dir() else paths.results() / bundle
    checks = []
    for check in verification.verify(source, environment.here(provenance.revision())):
        checks.append(check)
        for line in check.lines():
            out.print(line, markup=False, soft_wrap=True)
    if verification.failed(checks):
        raise typer.Exit(1)
